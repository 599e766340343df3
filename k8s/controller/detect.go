package controller

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// maxCIDRs is the maximum length of the lists of pod and Service CIDRs in a ClusterNetwork's status.
const maxCIDRs = 64

// ranges are the CIDRs that the cluster itself uses.
type ranges struct {
	clusterID  v1alpha1.ClusterID
	pods       []netip.Prefix
	services   []netip.Prefix
	nodes      []netip.Prefix
	apiServers []netip.Prefix
	sources    v1alpha1.ClusterNetworkSources
	undetected []string // what was not detected, with the remedy; empty if all is known
}

// Sources in addition to those of the API package.
const (
	sourceSystem       v1alpha1.Source = "kube-system"
	sourceProperty     v1alpha1.Source = "ClusterProperty"
	sourceServiceCIDRs v1alpha1.Source = "ServiceCIDRs"
)

// detect returns the CIDRs that the cluster uses: those of the spec, or else those
// detected.
func detect(spec v1alpha1.ClusterNetworkSpec, f facts, nodes []*corev1.Node) ranges {
	r := ranges{clusterID: f.clusterID}
	r.sources.ClusterID = f.clusterIDSource
	r.detectPods(spec, f, nodes)
	r.detectServices(spec, f)
	r.detectNodes(spec, nodes)
	for _, a := range ordinaryAddresses(f.apiServers) {
		r.apiServers = append(r.apiServers, single(a))
	}
	return r
}

// detectPods uses the pod CIDR that the control plane was configured with, and any other
// podCIDRs of nodes; without it, only the podCIDRs of nodes. It does not guess a covering
// prefix: the gaps may be in use elsewhere.
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
		if !virtual(node) {
			ofNodes = append(ofNodes, node.Spec.PodCIDRs...)
		}
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
		r.missing("podCIDRs", "the pod CIDRs are not known from nodes, kubeadm or kube-controller-manager")
	case len(r.pods) > maxCIDRs:
		r.missing("podCIDRs", fmt.Sprintf("nodes have %d separate pod CIDRs, more than the limit of %d", len(r.pods), maxCIDRs))
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
		r.missing("serviceCIDRs", "the Service CIDRs are not known from ServiceCIDR objects, kubeadm or kube-apiserver")
	case len(r.services) > maxCIDRs:
		r.missing("serviceCIDRs", fmt.Sprintf("there are %d separate Service CIDRs, more than the limit of %d", len(r.services), maxCIDRs))
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
		if onFargate(node) || virtual(node) {
			continue // its address is that of a pod
		}
		for _, a := range nodeAddresses(node, corev1.NodeInternalIP, corev1.NodeExternalIP) {
			all = append(all, single(a))
		}
	}
	r.nodes = covered(all, maxNodeCIDRs)
}

// candidates are sources in order of precedence.
type candidates []struct {
	source v1alpha1.Source
	texts  []string
}

// firstSource returns the prefixes of the first source that has any, and false if they are
// invalid.
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

// missing records that a field is not known.
func (r *ranges) missing(field, why string) {
	r.undetected = append(r.undetected, fmt.Sprintf("%s; set spec.%s of ClusterNetwork %s", why, field, v1alpha1.ClusterNetworkName))
}

func textsOf(cidrs []v1alpha1.CIDR) (texts []string) {
	for _, c := range cidrs {
		texts = append(texts, string(c))
	}
	return texts
}
