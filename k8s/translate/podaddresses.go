package translate

import (
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// pods adds the addresses of pods outside of all podCIDRs. Of two nodes with the same
// address, the first by name has it: Strait's controller removes it from its old node
// before the new one gets it.
func (t *translation) pods() {
	attachments := make(map[string]*v1alpha1.NodeAttachment, len(t.Nodes))
	any := false
	for _, a := range t.Nodes {
		attachments[a.Name] = a
		any = any || len(a.Spec.PodAddresses) > 0
	}
	if !any {
		return
	}
	for i := range t.config.Overlay.Nodes {
		n := &t.config.Overlay.Nodes[i]
		t.reserved.addHosts(attachment(n.Name), n.Addresses...)
		t.reserved.addHosts(attachment(n.Name), n.ExternalAddresses...)
	}
	podCIDRTable := t.podCIDRTable()
	for i := range t.config.Overlay.Nodes {
		n := &t.config.Overlay.Nodes[i]
		for _, p := range t.prefixes(attachment(n.Name), podAddressesField, attachments[n.Name].Spec.PodAddresses) {
			if other, node, ok := podCIDRTable.overlapping(p); ok {
				if node != n.Name {
					t.podProblem(n.Name, p, other, "spec.podCIDRs of "+attachment(node))
				}
				continue
			}
			if other, name, overlap := t.reserved.overlapping(p); overlap {
				t.podProblem(n.Name, p, other, name)
				continue
			}
			n.Prefixes = append(n.Prefixes, p)
			t.reserved.add("the pods of "+attachment(n.Name), p)
		}
		slices.SortFunc(n.Prefixes, comparePrefixes)
	}
}

const podAddressesField = "spec.podAddresses"

func (t *translation) podProblem(node string, p, other netip.Prefix, of string) {
	t.problem(attachment(node), podAddressesField, fmt.Sprintf("%s overlaps %s of %s", p, other, of), "check the log of Strait's controller, which assigns them")
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
