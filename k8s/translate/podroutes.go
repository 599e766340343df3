package translate

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// pods adds routes to the pods outside of all podCIDRs.
func (t *translation) pods() {
	if len(t.Pods) == 0 {
		return
	}
	nodes := make(map[string]int, len(t.config.Overlay.Nodes))
	for i := range t.config.Overlay.Nodes {
		n := &t.config.Overlay.Nodes[i]
		nodes[n.Name] = i
		t.reserved.addHosts(attachment(n.Name), n.Addresses...)
		t.reserved.addHosts(attachment(n.Name), n.ExternalAddresses...)
	}
	podCIDRTable := t.podCIDRTable()

	t.routes = make(map[netip.Prefix]string)
	owners := t.claims()
	for _, a := range slices.SortedFunc(maps.Keys(owners), netip.Addr.Compare) {
		p := owners[a]
		i, known := nodes[p.Node]
		if !known {
			continue // no route; its attachment, if any, has its own problem
		}
		if other, node, ok := podCIDRTable.overlapping(host(a)); ok {
			if node != p.Node {
				t.podOnOtherNode(p, a, other, node)
			}
			continue
		}
		if other, name, overlap := t.reserved.overlapping(host(a)); overlap {
			t.problem(p.name(), "status.podIPs", fmt.Sprintf("%s is in %s of %s", a, other, name), "use addresses for pods that are not in use")
			continue
		}
		n := &t.config.Overlay.Nodes[i]
		n.Prefixes = append(n.Prefixes, host(a))
		t.routes[host(a)] = p.name()
	}
	for i := range t.config.Overlay.Nodes {
		slices.SortFunc(t.config.Overlay.Nodes[i].Prefixes, comparePrefixes)
	}
}

// claims returns the owner of each pod address.
func (t *translation) claims() map[netip.Addr]*Pod {
	owners := make(map[netip.Addr]*Pod, len(t.Pods))
	pods := byClaim(t.Pods)
	for i := range pods {
		p := &pods[i]
		for _, text := range p.Addresses {
			a, err := netip.ParseAddr(text)
			if err != nil || a.Zone() != "" {
				t.problem(p.name(), "status.podIPs", quote(text)+" is not an address", "check what the node's network plugin reports")
				continue
			}
			owners[a] = p
		}
	}
	return owners
}

// podCIDRTable returns the podCIDRs of all nodes, including those that are left out: no
// other pod gets their addresses.
func (t *translation) podCIDRTable() *ranges {
	podCIDRTable := new(ranges)
	for _, a := range t.Nodes {
		for _, text := range a.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(string(text)); err == nil { // nodes reports invalid ones
				podCIDRTable.add(a.Name, p)
			}
		}
	}
	return podCIDRTable
}

// podOnOtherNode reports a pod with an address in the CIDR of another node, once for each
// node: if the nodes' CIDRs are wrong in general, all pods are affected.
func (t *translation) podOnOtherNode(p *Pod, a netip.Addr, other netip.Prefix, node string) {
	if t.reportedNodes[p.Node] {
		return
	}
	if t.reportedNodes == nil {
		t.reportedNodes = make(map[string]bool)
	}
	t.reportedNodes[p.Node] = true
	t.problem(attachment(p.Node), "spec.podCIDRs", fmt.Sprintf("%s of this node has %s, which is in %s of %s", p.name(), a, other, attachment(node)),
		"set the podCIDRs of the nodes to the CIDRs of their pods, or leave them empty")
}
