//go:build apiserver || lab || nightly

package clusters

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// private are the CIDRs that a remote cluster may announce.
var private = []v1alpha1.AcceptedCIDR{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}

// network creates the ClusterNetwork with the cluster's name as its ID, which is easier to
// read. Pods have IPv4, and with dual IPv6 too.
func (c *cluster) network(t *testing.T, dual ...bool) {
	t.Helper()
	spec := v1alpha1.ClusterNetworkSpec{
		ClusterID: v1alpha1.ClusterID(c.name), PodCIDRs: []v1alpha1.CIDR{"10.0.0.0/16"},
		InternalCIDRs: []v1alpha1.CIDR{"10.80.0.0/16"}, ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/16"}, RemapPools: []v1alpha1.CIDR{"10.64.0.0/10"},
	}
	if len(dual) > 0 && dual[0] {
		spec.PodCIDRs, spec.InternalCIDRs = append(spec.PodCIDRs, "fd00:10::/48"), append(spec.InternalCIDRs, "fd00:80::/64")
		spec.ExternalCIDRs, spec.RemapPools = append(spec.ExternalCIDRs, "fd00:70::/64"), append(spec.RemapPools, "fd73:7472::/32")
	}
	_, err := c.admin.ClusterNetworks().Apply(t.Context(), &v1alpha1.ClusterNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}, Spec: spec,
	}, "admin")
	must(t, err)
	within(t, 20*time.Second, "cluster "+c.name+" has an ID", func() error {
		n, err := c.admin.ClusterNetworks().Get(t.Context(), v1alpha1.ClusterNetworkName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n.Status.ObservedGeneration < n.Generation { // the status may be that of the detected ID
			return fmt.Errorf("the status is of generation %d, the spec of %d", n.Status.ObservedGeneration, n.Generation)
		}
		return conditionTrue(n.Status.Conditions, v1alpha1.ConditionReady)
	})
}

// conditionTrue returns an error if a condition is not true.
func conditionTrue(all []metav1.Condition, which string) error {
	c := meta.FindStatusCondition(all, which)
	if c == nil {
		return fmt.Errorf("no condition %s", which)
	}
	if c.Status != metav1.ConditionTrue {
		return fmt.Errorf("%s is %s: %s: %s", which, c.Status, c.Reason, c.Message)
	}
	return nil
}

// peer creates or updates a Peering object.
func (c *cluster) peer(t *testing.T, p *v1alpha1.Peering) {
	t.Helper()
	_, err := c.admin.Peerings().Apply(t.Context(), p, "admin")
	must(t, err)
}

func (c *cluster) peering(t *testing.T, name string) *v1alpha1.Peering {
	t.Helper()
	p, err := c.admin.Peerings().Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return p
}

// report returns what a gateway reports, nothing if it has not yet.
func (c *cluster) report(t *testing.T, gateway string) (s v1alpha1.GatewayReportStatus) {
	t.Helper()
	r, err := c.admin.GatewayReports(gatewayNamespace).Get(t.Context(), gateway, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return s
	}
	must(t, err)
	return r.Status
}

// ready waits until a Peering is ready, and returns it.
func (c *cluster) ready(t *testing.T, name string) (p *v1alpha1.Peering) {
	t.Helper()
	took := within(t, time.Minute, fmt.Sprintf("Peering %s of cluster %s is ready", name, c.name), func() error {
		p = c.peering(t, name)
		return conditionTrue(p.Status.Conditions, v1alpha1.ConditionReady)
	})
	t.Logf("Peering %s of cluster %s is ready after %v", name, c.name, took.Round(10*time.Millisecond))
	return p
}

// known waits until a gateway has a key and, if called, endpoints.
func (c *cluster) known(t *testing.T, peering, gateway string, called bool) (g v1alpha1.GatewayStatus) {
	t.Helper()
	within(t, 30*time.Second, fmt.Sprintf("gateway %s of cluster %s is known", gateway, c.name), func() error {
		for _, g = range c.peering(t, peering).Status.Gateways {
			if g.Name == gateway && g.PublicKey != "" && (!called || len(g.Endpoints) > 0) {
				return nil
			}
		}
		return errors.New("no key or no endpoint")
	})
	return g
}

// serveNodePort does kube-proxy's work for a gateway's Service, on the node of its pod.
func (g *gatewayPod) serveNodePort(t *testing.T) {
	t.Helper()
	var service *corev1.Service
	within(t, 20*time.Second, "Service "+g.name+" has a port", func() (err error) {
		service, err = g.c.admin.Services(gatewayNamespace).Get(t.Context(), g.name, metav1.GetOptions{})
		if err == nil && (len(service.Spec.Ports) == 0 || service.Spec.Ports[0].NodePort == 0) {
			err = errors.New("the Service has no port")
		}
		return err
	})
	g.port = service.Spec.Ports[0].NodePort
	for _, node := range g.c.nodes {
		node.nodePort(t, g.port, g.address)
	}
}

// join peers both clusters with plain objects and one gateway each.
func (p *pair) join(t *testing.T) (b, a *v1alpha1.Peering) {
	t.Helper()
	return p.joinWith(t, 1)
}

// joinWith peers both clusters with plain objects: the gateways of b connect to the NodePorts
// of those of a. Each gateway has a node of its own. It returns the Peerings once they are
// ready.
func (p *pair) joinWith(t *testing.T, gateways int) (b, a *v1alpha1.Peering) {
	t.Helper()
	p.a.network(t, true)
	p.b.network(t, true)
	ab := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{
		ClusterID: "b", Prefixes: v1alpha1.RemotePrefixes{{CIDR: "10.0.0.0/16"}, {CIDR: "fd00:10::/48"}},
		ExternalPrefixes: v1alpha1.RemotePrefixes{{CIDR: "10.70.0.0/16"}, {CIDR: "fd00:70::/64"}},
		LocalPods:        true, AcceptPrefixes: private,
		Gateway: v1alpha1.GatewaySpec{Replicas: int32(gateways), Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort}},
	}}
	ba := ab.DeepCopy()
	ba.Name, ba.Spec.ClusterID, ba.Spec.Gateway.Service.Type = "a", "a", corev1.ServiceTypeClusterIP
	p.a.peer(t, ab)
	p.b.peer(t, ba)
	for i := range gateways {
		p.a.runGateway(t, fmt.Sprintf("b-%d", i), i, "9").serveNodePort(t)
		p.b.runGateway(t, fmt.Sprintf("a-%d", i), i, "9")
	}
	for i := range gateways {
		called, calls := p.a.known(t, "b", fmt.Sprintf("b-%d", i), true), p.b.known(t, "a", fmt.Sprintf("a-%d", i), false)
		ab.Spec.Peers = append(ab.Spec.Peers, v1alpha1.Peer{Name: calls.Name, PublicKey: calls.PublicKey})
		ba.Spec.Peers = append(ba.Spec.Peers, v1alpha1.Peer{Name: called.Name, PublicKey: called.PublicKey, Endpoint: called.Endpoints[0]})
	}
	p.a.peer(t, ab)
	p.b.peer(t, ba)
	return p.a.ready(t, "b"), p.b.ready(t, "a")
}

// seen returns the address to which a cluster maps an address of the other one.
func seen(t *testing.T, p *v1alpha1.Peering, address string) string {
	t.Helper()
	a := netip.MustParseAddr(address)
	for _, prefix := range slices.Concat(p.Status.Prefixes, p.Status.ExternalPrefixes) {
		if from := netip.MustParsePrefix(string(prefix.CIDR)); from.Contains(a) {
			return moved(a, netip.MustParsePrefix(string(prefix.SeenAs))).String()
		}
	}
	t.Fatalf("%s is not mapped by Peering %s: %+v", address, p.Name, p.Status.Prefixes)
	return ""
}

// moved returns the address with the same host bits in another prefix, of whole bytes.
func moved(a netip.Addr, to netip.Prefix) netip.Addr {
	bytes := a.AsSlice()
	copy(bytes[:to.Bits()/8], to.Addr().AsSlice())
	there, _ := netip.AddrFromSlice(bytes)
	return there
}
