package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// The longest lists that a ClusterNetwork's status may hold.
const (
	maxCIDRs     = 64
	maxNodeCIDRs = 1024
)

// ranges are what the cluster itself uses.
type ranges struct {
	clusterID  v1alpha1.ClusterID
	pods       []netip.Prefix
	services   []netip.Prefix
	nodes      []netip.Prefix
	apiServers []netip.Prefix
	sources    v1alpha1.ClusterNetworkSources
	undetected []string // what is missing, with the remedy; empty when everything is known
}

// Sources beside those that every cluster may have.
const (
	sourceSystem       v1alpha1.Source = "kube-system"
	sourceServiceCIDRs v1alpha1.Source = "ServiceCIDRs"
)

// detect says what the cluster uses: what the spec gives, or else what is known of it.
func detect(spec v1alpha1.ClusterNetworkSpec, f facts, nodes []*corev1.Node) ranges {
	var r ranges
	r.clusterID, r.sources.ClusterID = spec.ClusterID, v1alpha1.SourceGiven
	if r.clusterID == "" {
		r.clusterID, r.sources.ClusterID = shortID(f.systemUID), sourceSystem
	}
	r.detectPods(spec, f, nodes)
	r.detectServices(spec, f)
	r.detectNodes(spec, nodes)
	for _, a := range ordinaryAddresses(f.apiServers) {
		r.apiServers = append(r.apiServers, single(a))
	}
	return r
}

// shortID is a cluster ID from the UID of an object that lives as long as the cluster.
func shortID(uid string) v1alpha1.ClusterID {
	short := strings.ReplaceAll(uid, "-", "")
	return v1alpha1.ClusterID("c" + short[:min(len(short), 8)]) // names of Services begin with a letter
}

// detectPods takes the range that the control plane was given for pods, and whatever
// nodes have beside it; without such a range, what nodes have. It does not guess one
// that holds them all: the gaps may be somebody else's.
func (r *ranges) detectPods(spec v1alpha1.ClusterNetworkSpec, f facts, nodes []*corev1.Node) {
	given, ok := r.firstSource("podCIDRs", &r.sources.PodCIDRs, candidates{
		{v1alpha1.SourceGiven, textsOf(spec.PodCIDRs)},
		{v1alpha1.SourceKubeadm, commaList(f.kubeadm.PodSubnet)},
		{v1alpha1.SourceFlags, f.clusterCIDR},
	})
	if !ok {
		return
	}
	r.pods = given
	if r.sources.PodCIDRs == v1alpha1.SourceGiven {
		return
	}
	var ofNodes []string
	for _, node := range nodes {
		ofNodes = append(ofNodes, node.Spec.PodCIDRs...)
	}
	all, err := parsePrefixes(ofNodes)
	if err != nil {
		r.missing("podCIDRs", fmt.Sprintf("in the spec of a node, %v", err))
		return
	}
	if len(given) == 0 {
		r.sources.PodCIDRs = v1alpha1.SourceNodes
	}
	r.pods = merged(slices.Concat(given, all))
	switch {
	case len(r.pods) == 0:
		r.missing("podCIDRs", "neither nodes, kubeadm nor kube-controller-manager say which ranges pods have addresses from")
	case len(r.pods) > maxCIDRs:
		r.missing("podCIDRs", fmt.Sprintf("nodes have %d ranges apart from each other, more than the %d that can be kept", len(r.pods), maxCIDRs))
		r.pods = nil
	}
}

func (r *ranges) detectServices(spec v1alpha1.ClusterNetworkSpec, f facts) {
	found, ok := r.firstSource("serviceCIDRs", &r.sources.ServiceCIDRs, candidates{
		{v1alpha1.SourceGiven, textsOf(spec.ServiceCIDRs)},
		{sourceServiceCIDRs, f.serviceCIDRs},
		{v1alpha1.SourceKubeadm, commaList(f.kubeadm.ServiceSubnet)},
		{v1alpha1.SourceFlags, f.serviceRange},
	})
	if !ok {
		return
	}
	switch r.services = merged(found); {
	case len(found) == 0:
		r.missing("serviceCIDRs", "neither ServiceCIDRs, kubeadm nor kube-apiserver say which ranges ClusterIPs are from")
	case len(r.services) > maxCIDRs:
		r.missing("serviceCIDRs", fmt.Sprintf("there are %d ranges apart from each other, more than the %d that can be kept", len(r.services), maxCIDRs))
		r.services = nil
	}
}

func (r *ranges) detectNodes(spec v1alpha1.ClusterNetworkSpec, nodes []*corev1.Node) {
	given, ok := r.firstSource("nodeCIDRs", &r.sources.NodeCIDRs, candidates{{v1alpha1.SourceGiven, textsOf(spec.NodeCIDRs)}})
	if !ok || len(given) > 0 {
		r.nodes = given
		return
	}
	r.sources.NodeCIDRs = v1alpha1.SourceNodes
	var all []netip.Prefix
	for _, node := range nodes {
		for _, a := range nodeAddresses(node, corev1.NodeInternalIP, corev1.NodeExternalIP) {
			all = append(all, single(a))
		}
	}
	r.nodes = covered(all, maxNodeCIDRs)
}

// candidates are sources in the order of trust.
type candidates []struct {
	source v1alpha1.Source
	texts  []string
}

// first is what the first source says that says anything, and false if that is nonsense.
func (r *ranges) firstSource(field string, source *v1alpha1.Source, all candidates) ([]netip.Prefix, bool) {
	for _, candidate := range all {
		if len(candidate.texts) == 0 {
			continue
		}
		prefixes, err := parsePrefixes(candidate.texts)
		if err != nil {
			r.missing(field, fmt.Sprintf("of %s, %v", candidate.source, err))
			return nil, false
		}
		*source = candidate.source
		return prefixes, true
	}
	return nil, true
}

// missing notes that a field is not known.
func (r *ranges) missing(field, why string) {
	r.undetected = append(r.undetected, fmt.Sprintf("%s; set spec.%s of ClusterNetwork %s", why, field, v1alpha1.ClusterNetworkName))
}

// nodeAddresses are the addresses of some types of a node.
func nodeAddresses(node *corev1.Node, types ...corev1.NodeAddressType) []netip.Addr {
	var texts []string
	for _, address := range node.Status.Addresses {
		if slices.Contains(types, address.Type) {
			texts = append(texts, address.Address)
		}
	}
	return ordinaryAddresses(texts)
}

// ordinaryAddresses are those of the texts that are such, which a host name and
// fe80::1 are not.
func ordinaryAddresses(texts []string) (all []netip.Addr) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" && ordinary(single(a.Unmap())) {
			all = append(all, a.Unmap())
		}
	}
	return all
}

func textsOf(cidrs []v1alpha1.CIDR) (texts []string) {
	for _, c := range cidrs {
		texts = append(texts, string(c))
	}
	return texts
}
