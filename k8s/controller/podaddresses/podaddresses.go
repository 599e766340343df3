package podaddresses

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/nodeinfo"
)

// maxPodAddresses is the maximum number of prefixes of one node's pods, as in the API.
const maxPodAddresses = 1024

// podHolders are the names of the nodes that have the addresses of pods.
type podHolders interface {
	// Lookup returns the node that has an address.
	Lookup(netip.Addr) (node string, ok bool)
}

func attachedHolders(attachments []*v1alpha1.NodeAttachment) podHolders {
	t := new(bart.Table[string])
	for _, a := range attachments {
		for _, p := range parsed(a.Spec.PodAddresses) {
			t.Insert(p, a.Name)
		}
	}
	return t
}

type podOwners map[netip.Addr]*clusterPod

func (o podOwners) Lookup(a netip.Addr) (node string, ok bool) {
	if p := o[a]; p != nil {
		return p.node, true
	}
	return "", false
}

// podAddresses returns the addresses of pods that lie in no podCIDR, by node, as the fewest
// prefixes that contain no other address; their owners; and why others are left out. A node
// that has an address already keeps it as long as it has a running pod with it. A pod in
// another node's podCIDR, or with an address that is reserved, has no route.
func podAddresses(pods []*clusterPod, nodes []*corev1.Node, reserved []ipam.Reserved, holders podHolders) (byNode map[string][]v1alpha1.CIDR, owners podOwners, problems []string) {
	t := podTable{known: make(map[string]bool), strayed: make(map[string]bool)}
	for _, node := range nodes {
		if nodeinfo.Virtual(node) {
			continue // its pods have addresses of another cluster
		}
		t.known[node.Name] = true
		for _, text := range node.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil { // validated by the API server
				t.podCIDRs.Insert(p.Masked(), node.Name)
			}
		}
	}
	for _, r := range reserved {
		t.reserved.Insert(r.Prefix, r.Use)
	}
	found := make(map[string][]netip.Prefix)
	owners = t.owners(pods, holders)
	for a, pod := range owners {
		if t.routed(a, pod) {
			found[pod.node] = append(found[pod.node], cidrs.Single(a))
		}
	}
	byNode = make(map[string][]v1alpha1.CIDR)
	for node, addresses := range found {
		all := cidrs.Merged(addresses)
		if len(all) > maxPodAddresses {
			t.problem("node %s: its pods have addresses in %d separate prefixes, and only the first %d have routes; let the network plugin assign addresses of each node from one CIDR", node, len(all), maxPodAddresses)
			all = all[:maxPodAddresses]
		}
		byNode[node] = cidrs.Texts(all)
	}
	slices.Sort(t.problems)
	return byNode, owners, slices.Compact(t.problems)
}

type podTable struct {
	known    map[string]bool
	podCIDRs bart.Table[string] // names of nodes
	reserved bart.Table[string] // uses
	strayed  map[string]bool    // nodes for which a pod in another node's podCIDR was reported
	problems []string
}

func (t *podTable) problem(format string, arguments ...any) {
	t.problems = append(t.problems, fmt.Sprintf(format, arguments...))
}

// owners returns the owner of each address. Pods of nodes that do not exist own none.
func (t *podTable) owners(pods []*clusterPod, holders podHolders) podOwners {
	owners := make(podOwners, len(pods))
	for _, p := range pods {
		if !t.known[p.node] {
			continue
		}
		if p.invalid != "" {
			t.problem("Pod %s/%s: %q is not an address; check what the node's network plugin reports", p.namespace, p.name, p.invalid)
		}
		for _, a := range p.addresses {
			holder, _ := holders.Lookup(a)
			if other, taken := owners[a]; !taken || p.owns(other, holder) {
				owners[a] = p
			}
		}
	}
	for _, p := range pods {
		for _, a := range p.addresses {
			if owner := owners[a]; owner != nil && owner.node != p.node && !p.terminating && t.known[p.node] {
				t.problem("Pod %s/%s: node %s reports the address %s for it, which Pod %s/%s of node %s has already; check that node's kubelet and network plugin, and delete the pod that does not have the address",
					p.namespace, p.name, p.node, a, owner.namespace, owner.name, owner.node)
			}
		}
	}
	return owners
}

// routed reports whether an address needs a route to the node of its owner and may have
// one. Wrong podCIDRs affect all pods of a node, so they are reported once for each node.
func (t *podTable) routed(a netip.Addr, p *clusterPod) bool {
	if !cidrs.Ordinary(cidrs.Single(a)) {
		t.problem("Pod %s/%s: %s is not an ordinary unicast address; check what the node's network plugin reports", p.namespace, p.name, a)
		return false
	}
	if node, inside := t.podCIDRs.Lookup(a); inside {
		if node != p.node && !t.strayed[p.node] {
			t.strayed[p.node] = true
			t.problem("node %s: pods have addresses in the podCIDRs of other nodes, which have no routes; set the podCIDRs of the nodes to the CIDRs of their pods, or leave them empty", p.node)
		}
		return false
	}
	if use, taken := t.reserved.Lookup(a); taken {
		t.problem("Pod %s/%s: %s overlaps %s; use addresses for pods that are not in use", p.namespace, p.name, a, use)
		return false
	}
	return true
}
