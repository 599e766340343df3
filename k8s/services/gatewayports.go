package services

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
)

// portRest is the time after which a port of gateways may stand for another Service: until
// then, every node has replaced the endpoints with the port.
const portRest = 5 * time.Minute

// gatewayPorts assigns the ports of gateways that stand for ports of remote Services, in a
// cluster without node helpers. Each Peering has gateways of its own, and therefore all
// ports. It is safe for concurrent use.
type gatewayPorts struct {
	mu    sync.Mutex
	plans map[string]*ipam.Ports     // by Peering
	ports map[string]map[string]bool // the names of ports that have one, by name of the ReceivedService
}

// take takes the assignments of an earlier process again: those in the status of
// ReceivedServices.
func (g *gatewayPorts) take(all []*v1alpha1.ReceivedService) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.plans, g.ports = make(map[string]*ipam.Ports), make(map[string]map[string]bool)
	for _, r := range client.OldestFirst(all) {
		for _, p := range r.Status.Ports {
			if g.plan(r.Name).Take(portKey(r.Name, p.ServicePort), uint16(p.Port)) {
				g.remember(r.Name, p.ServicePort)
			}
		}
	}
}

// assign returns the ports for those of a Service, in their order, and the names of the ports
// for which none is free.
func (g *gatewayPorts) assign(received string, of []v1alpha1.ServiceRecordPort, now time.Time) (all []v1alpha1.GatewayServicePort, missing []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range g.ports[received] {
		if !slices.ContainsFunc(of, func(p v1alpha1.ServiceRecordPort) bool { return p.Name == name && carried(p) }) {
			g.plan(received).Release(portKey(received, name), now)
			delete(g.ports[received], name)
		}
	}
	for _, p := range of {
		if !carried(p) {
			continue
		}
		port, ok := g.plan(received).Assign(portKey(received, p.Name), now)
		if !ok {
			missing = append(missing, p.Name)
			continue
		}
		g.remember(received, p.Name)
		all = append(all, v1alpha1.GatewayServicePort{ServicePort: p.Name, Port: int32(port)})
	}
	return all, missing
}

func (g *gatewayPorts) release(received string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range g.ports[received] {
		g.plan(received).Release(portKey(received, name), now)
	}
	delete(g.ports, received)
}

// plan returns the plan of the Peering of a ReceivedService. The caller holds the lock.
func (g *gatewayPorts) plan(received string) *ipam.Ports {
	peering := received[strings.LastIndexByte(received, '.')+1:]
	if g.plans[peering] == nil {
		g.plans[peering] = ipam.NewPorts(install.FirstServicePort, install.LastServicePort, portRest)
	}
	return g.plans[peering]
}

func (g *gatewayPorts) remember(received, port string) {
	if g.ports[received] == nil {
		g.ports[received] = make(map[string]bool)
	}
	g.ports[received][port] = true
}

func portKey(received, port string) string { return received + "/" + port }

func carried(p v1alpha1.ServiceRecordPort) bool {
	return p.Protocol == corev1.ProtocolTCP || p.Protocol == corev1.ProtocolUDP
}

// planPorts makes the status of a ReceivedService name the ports of gateways that stand for
// the Service, none if it is refused or headless. A new Service costs one write. The ports
// are those that the status names, even if it cannot be written. The note says which ports
// of the Service have none.
func (r *reconciliation) planPorts(ctx context.Context, object *v1alpha1.ReceivedService, refused bool) (ports []v1alpha1.GatewayServicePort, note string, err error) {
	var missing []string
	if refused || object.Spec.Service.Type == v1alpha1.ServiceRecordHeadless {
		r.ports.release(object.Name, r.now)
	} else if ports, missing = r.ports.assign(object.Name, object.Spec.Service.Ports, r.now); len(missing) > 0 {
		r.queue.AddAfter(r.key, portRest)
		note = fmt.Sprintf("all %d ports of the gateways are in use: none is left for %s", install.LastServicePort-install.FirstServicePort+1, portNames(missing))
	}
	var sctp []string
	for _, p := range object.Spec.Service.Ports {
		if !carried(p) {
			sctp = append(sctp, p.Name)
		}
	}
	if !refused && len(sctp) > 0 {
		note = joined(note, fmt.Sprintf("without node helpers, SCTP is not carried: %s", portNames(sctp)))
	}
	is, ok := r.received.get(keyOf(object))
	if !ok || slices.Equal(is.Status.Ports, ports) {
		return ports, note, nil
	}
	next := is.DeepCopy()
	next.Status.Ports = ports
	r.wrote = true
	if err := r.received.updateStatus(ctx, next); err != nil {
		return is.Status.Ports, note, err
	}
	return ports, note, nil
}

func portNames(names []string) string {
	if len(names) == 1 && names[0] == "" {
		return "its port"
	}
	return "port " + strings.Join(names, ", ")
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
