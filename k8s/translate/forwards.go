package translate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/nat"
)

func received(name string) string { return "ReceivedService " + name }

// proxy returns what the remote cluster reaches through sockets of the gateway, in a cluster
// without node helpers: all that it is granted, except the addresses of nodes, of Services and
// of the API server, which it reaches nowhere else either, and of gateways, which would carry
// its connections on to other clusters.
func (t *translation) proxy() (p config.Proxy) {
	status := &t.Network.Status
	p.Prefixes = slices.Clone(t.config.Local.Prefixes)
	p.Except = slices.Concat(t.prefixes(network, "status.serviceCIDRs", status.ServiceCIDRs), t.prefixes(network, "status.nodeCIDRs", status.NodeCIDRs),
		t.singles("status.apiServers", status.APIServers), t.singles("status.gateways", status.Gateways))
	slices.SortFunc(p.Except, comparePrefixes)
	p.Except = slices.Compact(p.Except)
	return p
}

// callers returns the clients of forwards: the pods and nodes of this cluster, except the
// gateways of all Peerings. A gateway connects to pods for its remote cluster.
func (t *translation) callers() (c config.Callers) {
	status := &t.Network.Status
	c.Prefixes = slices.Concat(t.prefixes(network, "status.podCIDRs", status.PodCIDRs), t.prefixes(network, "status.nodeCIDRs", status.NodeCIDRs))
	slices.SortFunc(c.Prefixes, comparePrefixes)
	c.Prefixes = slices.Compact(c.Prefixes)
	c.Except = t.singles("status.gateways", status.Gateways)
	return c
}

func (t *translation) singles(field string, texts []v1alpha1.IP) (all []netip.Prefix) {
	for _, a := range t.addresses(network, field, texts) {
		all = append(all, netip.PrefixFrom(a, a.BitLen()))
	}
	return all
}

// forwards returns the ports of the gateway that stand for Services of the remote cluster, in
// a cluster without node helpers, in the order of their numbers.
func (t *translation) forwards() (all []config.Forward) {
	t.forwarded = make(map[config.ListenAddress]string)
	for _, r := range slices.SortedFunc(slices.Values(t.Received), func(a, b *v1alpha1.ReceivedService) int { return cmp.Compare(a.Name, b.Name) }) {
		if r.Spec.Peering != t.Peering.Name || r.DeletionTimestamp != nil {
			continue
		}
		for _, p := range r.Status.Ports {
			i := slices.IndexFunc(r.Spec.Service.Ports, func(s v1alpha1.ServiceRecordPort) bool { return s.Name == p.ServicePort })
			if i < 0 || p.Port < 1024 || p.Port > 65535 {
				continue // the controller has not seen the change yet
			}
			f := config.Forward{Listen: config.ListenAddress{Port: uint16(p.Port)}}
			switch r.Spec.Service.Ports[i].Protocol {
			case corev1.ProtocolTCP:
				f.Protocol = config.TCP
			case corev1.ProtocolUDP:
				f.Protocol = config.UDP
			default:
				continue // sockets of the gateway cannot carry it
			}
			if other, taken := t.forwarded[f.Listen]; taken {
				t.problem(received(r.Name), "status.ports", fmt.Sprintf("%d is already a port of %s", p.Port, received(other)), "check the log of Strait's controller, which assigns them")
				continue
			}
			t.forwarded[f.Listen] = r.Name
			f.Targets = t.targets(r, p.ServicePort)
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b config.Forward) int { return cmp.Compare(a.Listen.Port, b.Listen.Port) })
	return all
}

// targets returns the endpoints of a port of a Service, as this cluster sees them: those that
// are ready, or else those that still serve while they end.
func (t *translation) targets(r *v1alpha1.ReceivedService, port string) []netip.AddrPort {
	var ready, ending []netip.AddrPort
	refused := 0
	for _, part := range r.Spec.Service.Endpoints {
		i := slices.IndexFunc(part.Ports, func(p v1alpha1.ServiceRecordPort) bool { return p.Name == port })
		if i < 0 {
			continue
		}
		for _, e := range part.Endpoints {
			into := &ready
			if !e.Ready {
				if into = &ending; !e.Serving || !e.Terminating {
					continue
				}
			}
			a, ok := t.seen(e.Address)
			if !ok {
				refused++
				continue
			}
			*into = append(*into, netip.AddrPortFrom(a, uint16(part.Ports[i].Port)))
		}
	}
	if refused > 0 {
		t.problem(received(r.Name), "spec.service.endpoints", fmt.Sprintf("%d of its addresses cannot be reached: they are outside of the prefixes of the remote cluster, or of an IP family in which the gateway has no external address", refused),
			"check the Service in the remote cluster, and the prefixes of "+t.peering())
	}
	if len(ready) == 0 {
		ready = ending
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return slices.Compact(ready)
}

// seen returns an address of the remote cluster as this cluster sees it. ok is false if the
// remote cluster is not granted the address, or the gateway cannot connect to it.
func (t *translation) seen(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || !slices.ContainsFunc(t.config.Overlay.ExternalAddresses, func(e netip.Addr) bool { return e.Is4() == a.Is4() }) {
		return netip.Addr{}, false
	}
	for _, p := range t.config.Remote.Prefixes {
		if !p.CIDR.Contains(a) {
			continue
		}
		m, err := nat.NewMap(p.CIDR, p.SeenAs)
		if err != nil {
			return netip.Addr{}, false
		}
		return m.Translate(a), true
	}
	return netip.Addr{}, false
}
