package rig

import (
	"errors"
	"fmt"
	"strings"

	"strait.dev/strait/internal/plan"
)

// site is one cluster of the topology.
type site struct {
	plan.Cluster
	pod, node, gw *namespace
	seenAs        plan.Prefixes // the prefix to which the other cluster maps this one's pods

	nodeUnderlay plan.Addresses // the node's end of the link to the gateway
	gwUnderlay   plan.Addresses
	wan          plan.Addresses
}

var podCIDRs, nodeInternal, gwInternal = plan.PodCIDRs, plan.NodeInternal, plan.GatewayInternal

// vni is the VNI of every overlay link.
const vni = 101

// topology is the namespaces of one subject.
type topology struct {
	subject        string
	a, b           *site
	namespaces     []*namespace
	gateways, ends *cgroup    // the control groups of the gateways and of the traffic processes
	processes      []*process // of the gateways
}

func siteA() *site {
	return &site{
		Cluster:      plan.A,
		seenAs:       plan.B.RemotePods,
		nodeUnderlay: plan.AddressesOf("192.168.1.10", "2001:db8:1::10"),
		gwUnderlay:   plan.AddressesOf("192.168.1.1", "2001:db8:1::1"),
		wan:          plan.AddressesOf("203.0.113.1", "2001:db8:113::1"),
	}
}

func siteB() *site {
	return &site{
		Cluster:      plan.B,
		seenAs:       plan.A.RemotePods,
		nodeUnderlay: plan.AddressesOf("192.168.2.10", "2001:db8:2::10"),
		gwUnderlay:   plan.AddressesOf("192.168.2.1", "2001:db8:2::1"),
		wan:          plan.AddressesOf("203.0.113.2", "2001:db8:113::2"),
	}
}

// newTopology creates the namespaces and links, without gateways. The caller must remove
// the result, even after an error.
func (r *Rig) newTopology(subject string) (t *topology, err error) {
	t = &topology{subject: subject, a: siteA(), b: siteB()}
	if t.gateways, err = r.cgroups.make(subject + "-gateways"); err != nil {
		return t, err
	}
	if t.ends, err = r.cgroups.make(subject + "-ends"); err != nil {
		return t, err
	}
	for _, s := range t.sites() {
		for role, to := range map[string]**namespace{"pod": &s.pod, "node": &s.node, "gw": &s.gw} {
			n, err := newNamespace(subject, role+strings.ToUpper(s.Name))
			if err != nil {
				return t, err
			}
			t.namespaces = append(t.namespaces, n)
			*to = n
			if err := n.Set(routerSettings); err != nil {
				return t, fmt.Errorf("in %s: %w", n.Name, err)
			}
		}
		if err := s.connect(); err != nil {
			return t, err
		}
	}
	return t, t.connectWAN()
}

// routerSettings enable forwarding in every namespace, without reverse path filters.
var routerSettings = map[string]string{
	"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1",
	"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
	"ipv4/conf/all/send_redirects": "0", "ipv4/conf/default/send_redirects": "0",
	"ipv6/conf/all/accept_dad": "0", "ipv6/conf/default/accept_dad": "0",
}

func (t *topology) sites() [2]*site { return [2]*site{t.a, t.b} }

func (t *topology) other(s *site) *site {
	if s == t.a {
		return t.b
	}
	return t.a
}

func (t *topology) remove() error {
	var failed []error
	for _, n := range t.namespaces {
		failed = append(failed, n.Close())
	}
	return errors.Join(failed...)
}

func (s *site) connect() error {
	return errors.Join(
		s.pod.IP(fmt.Sprintf("link set lo up\nlink add eth0 type veth peer name pod netns %s\nlink set eth0 up", s.node.Name)),
		s.node.IP(fmt.Sprintf("link set lo up\nlink set pod up\nlink add gw type veth peer name node netns %s\nlink set gw up", s.gw.Name)),
		s.gw.IP("link set lo up\nlink set node up"),
		s.pod.IP(addressLines("eth0", s.Address)+fmt.Sprintf("route add default via %s\nroute add default via %s\n", s.Router[0], s.Router[1])),
		s.pod.IP(fmt.Sprintf("route add blackhole %s\n", s.clients())),
		s.node.IP(addressLines("pod", s.Router)+addressLines("gw", s.nodeUnderlay)+route(s.clients(), s.Address[0], "pod")),
		s.gw.IP(addressLines("node", s.gwUnderlay)),
	)
}

func (t *topology) connectWAN() error {
	return errors.Join(
		t.a.gw.IP(fmt.Sprintf("link add wan type veth peer name wan netns %s\nlink set wan up\n", t.b.gw.Name)),
		t.b.gw.IP("link set wan up"),
		t.a.gw.IP(addressLines("wan", t.a.wan)),
		t.b.gw.IP(addressLines("wan", t.b.wan)),
	)
}

func addressLines(device string, p plan.Addresses) string {
	return fmt.Sprintf("addr add %s/24 dev %s\naddr add %s/64 dev %[2]s nodad\n", p[0], device, p[1])
}
