package preflight

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/operate/findings"
)

// podsChecked is the maximum number of pods whose addresses are checked: one page of a list.
const podsChecked = 2000

// podAddressFindings checks whether the network plugin assigns addresses of pods from the
// podCIDRs of their nodes. IPAM of Calico, of Cilium (cluster-pool) and of cloud providers
// does not.
func (f *facts) podAddressFindings() []findings.Finding {
	const code = "STRAIT-C014"
	if f.network != nil && len(f.network.Status.PodCIDRs) == 0 {
		return single(code, findings.Skipped, f.name, "skipped because the CIDRs of pods are not known")
	}
	var ranges podRanges
	for i := range f.nodes {
		ranges.add(f.nodes[i].Name, f.nodes[i].Spec.PodCIDRs)
	}
	if f.network != nil {
		for _, cidr := range f.network.Status.PodCIDRs {
			ranges.add("", []string{string(cidr)})
		}
	}
	var checked, apart, elsewhere, unknown int
	var firstElsewhere, firstUnknown string
	for i := range f.pods {
		p := &f.pods[i]
		if p.Spec.HostNetwork || p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, ip := range p.Status.PodIPs {
			a, err := netip.ParseAddr(ip.IP)
			if err != nil {
				continue
			}
			checked++
			switch node, known := ranges.of(a); {
			case node == p.Spec.NodeName:
			case node != "" && !f.withoutHelpers:
				if elsewhere++; elsewhere == 1 {
					firstElsewhere = fmt.Sprintf("pod %s/%s on node %s has %s, of node %s", p.Namespace, p.Name, p.Spec.NodeName, a, node)
				}
			case known, node != "": // without node helpers, the node does not matter
				apart++
			default:
				if unknown++; unknown == 1 {
					firstUnknown = fmt.Sprintf("pod %s/%s has %s", p.Namespace, p.Name, a)
				}
			}
		}
	}
	switch {
	case elsewhere > 0:
		found := findings.New(code, findings.Warning, f.name, "%d of %d addresses of pods are in the podCIDRs of another node: %s; gateways cannot reach these pods", elsewhere, checked, firstElsewhere)
		switch p := pluginOf(f); {
		case p != nil && p.name == calico:
			found.Remedy = "Let Calico assign addresses from the podCIDRs of nodes: spec.cni.ipam.type: HostLocal in Installation default, or host-local with the subnet usePodCIDR in its CNI configuration."
		case p != nil && p.name == cilium:
			found.Remedy = "Let Cilium assign addresses from the podCIDRs of nodes: ipam.mode=kubernetes in its values."
		}
		return []findings.Finding{found}
	case unknown > 0:
		return single(code, findings.Warning, f.name, "%d of %d addresses of pods are outside of the cluster's pod CIDRs: %s; remote clusters cannot reach these pods", unknown, checked, firstUnknown)
	case apart > 0 && !f.withoutHelpers:
		return single(code, findings.Info, f.name, "%d of %d addresses of pods are outside of their node's podCIDRs: each gets its own route", apart, checked)
	}
	if f.withoutHelpers {
		return single(code, findings.OK, f.name, "all %d addresses of pods are in the pod CIDRs of the cluster", checked)
	}
	return single(code, findings.OK, f.name, "all %d addresses of pods are in the podCIDRs of their nodes", checked)
}

// podRanges are CIDRs of pods with the node of each, empty for a CIDR of the whole cluster.
type podRanges []podRange

type podRange struct {
	prefix netip.Prefix
	node   string
}

func (r *podRanges) add(node string, cidrs []string) {
	for _, text := range cidrs {
		if p, err := netip.ParsePrefix(text); err == nil { // an invalid CIDR contains no pod
			*r = append(*r, podRange{p, node})
		}
	}
}

// of returns the node whose CIDR contains an address, and whether any CIDR does.
func (r podRanges) of(a netip.Addr) (node string, known bool) {
	for _, one := range r {
		if one.prefix.Contains(a) {
			if one.node != "" {
				return one.node, true
			}
			known = true
		}
	}
	return "", known
}
