package network

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/nodeinfo"
)

const maxCIDRs = 64 // of pods or of Services, as of the API

// Ranges are the CIDRs that the cluster itself uses.
type Ranges struct {
	ClusterID  v1alpha1.ClusterID
	Pods       []netip.Prefix
	Services   []netip.Prefix
	Nodes      []netip.Prefix
	APIServers []netip.Prefix
	sources    v1alpha1.ClusterNetworkSources
	undetected []string // what was not detected, with the remedy; empty if all is known
}

// Sources in addition to those of the API package.
const (
	sourceSystem       v1alpha1.Source = "kube-system"
	sourceProperty     v1alpha1.Source = "ClusterProperty"
	sourceServiceCIDRs v1alpha1.Source = "ServiceCIDRs"
)

// Detect returns the CIDRs that the cluster uses: those of the spec, or else those
// detected.
func Detect(spec v1alpha1.ClusterNetworkSpec, f Facts, nodes []*corev1.Node) Ranges {
	r := Ranges{ClusterID: f.clusterID}
	r.sources.ClusterID = f.clusterIDSource
	r.detectPods(spec, f, nodes)
	r.detectServices(spec, f)
	r.detectNodes(spec, nodes)
	for _, a := range cidrs.OrdinaryAddresses(f.apiServers) {
		r.APIServers = append(r.APIServers, cidrs.Single(a))
	}
	return r
}

// detectPods uses the pod CIDR that the control plane was configured with, and any other
// podCIDRs of nodes; without it, only the podCIDRs of nodes. It does not guess a covering
// prefix: the gaps may be in use elsewhere.
func (r *Ranges) detectPods(spec v1alpha1.ClusterNetworkSpec, f Facts, nodes []*corev1.Node) {
	given, ok := r.firstSource("podCIDRs", &r.sources.PodCIDRs, candidates{
		{v1alpha1.SourceGiven, textsOf(spec.PodCIDRs)},
		{v1alpha1.SourceKubeadm, commaList(f.kubeadm.PodSubnet)},
		{v1alpha1.SourceFlags, f.clusterCIDR},
	})
	if !ok {
		return
	}
	r.Pods = given
	if r.sources.PodCIDRs == v1alpha1.SourceGiven {
		return
	}
	var ofNodes []string
	for _, node := range nodes {
		if !nodeinfo.Virtual(node) {
			ofNodes = append(ofNodes, node.Spec.PodCIDRs...)
		}
	}
	all, err := cidrs.Parse(ofNodes)
	if err != nil {
		r.missing("podCIDRs", fmt.Sprintf("in the spec of a node, %v", err))
		return
	}
	if len(given) == 0 {
		r.sources.PodCIDRs = v1alpha1.SourceNodes
	}
	r.Pods = cidrs.Merged(slices.Concat(given, all))
	switch {
	case len(r.Pods) == 0:
		r.missing("podCIDRs", "the pod CIDRs are not known from nodes, kubeadm or kube-controller-manager")
	case len(r.Pods) > maxCIDRs:
		r.missing("podCIDRs", fmt.Sprintf("nodes have %d separate pod CIDRs, more than the limit of %d", len(r.Pods), maxCIDRs))
		r.Pods = nil
	}
}

func (r *Ranges) detectServices(spec v1alpha1.ClusterNetworkSpec, f Facts) {
	found, ok := r.firstSource("serviceCIDRs", &r.sources.ServiceCIDRs, candidates{
		{v1alpha1.SourceGiven, textsOf(spec.ServiceCIDRs)},
		{sourceServiceCIDRs, f.serviceCIDRs},
		{v1alpha1.SourceKubeadm, commaList(f.kubeadm.ServiceSubnet)},
		{v1alpha1.SourceFlags, f.serviceRange},
	})
	if !ok {
		return
	}
	switch r.Services = cidrs.Merged(found); {
	case len(found) == 0:
		r.missing("serviceCIDRs", "the Service CIDRs are not known from ServiceCIDR objects, kubeadm or kube-apiserver")
	case len(r.Services) > maxCIDRs:
		r.missing("serviceCIDRs", fmt.Sprintf("there are %d separate Service CIDRs, more than the limit of %d", len(r.Services), maxCIDRs))
		r.Services = nil
	}
}

func (r *Ranges) detectNodes(spec v1alpha1.ClusterNetworkSpec, nodes []*corev1.Node) {
	given, ok := r.firstSource("nodeCIDRs", &r.sources.NodeCIDRs, candidates{{v1alpha1.SourceGiven, textsOf(spec.NodeCIDRs)}})
	if !ok || len(given) > 0 {
		r.Nodes = given
		return
	}
	r.sources.NodeCIDRs = v1alpha1.SourceNodes
	var all []netip.Prefix
	for _, node := range nodes {
		if nodeinfo.OnFargate(node) || nodeinfo.Virtual(node) {
			continue // its address is that of a pod
		}
		for _, a := range nodeinfo.Addresses(node, corev1.NodeInternalIP, corev1.NodeExternalIP) {
			all = append(all, cidrs.Single(a))
		}
	}
	r.Nodes = cidrs.Covered(all, cidrs.MaxNodeCIDRs)
}

type candidates []struct {
	source v1alpha1.Source
	texts  []string
}

// firstSource returns the prefixes of the first source that has any, and false if they are
// invalid.
func (r *Ranges) firstSource(field string, source *v1alpha1.Source, all candidates) ([]netip.Prefix, bool) {
	for _, candidate := range all {
		if len(candidate.texts) == 0 {
			continue
		}
		prefixes, err := cidrs.Parse(candidate.texts)
		if err != nil {
			r.missing(field, fmt.Sprintf("of %s, %v", candidate.source, err))
			return nil, false
		}
		*source = candidate.source
		return prefixes, true
	}
	return nil, true
}

func (r *Ranges) missing(field, why string) {
	r.undetected = append(r.undetected, fmt.Sprintf("%s; set spec.%s of ClusterNetwork %s", why, field, v1alpha1.ClusterNetworkName))
}

func textsOf(cidrs []v1alpha1.CIDR) (texts []string) {
	for _, c := range cidrs {
		texts = append(texts, string(c))
	}
	return texts
}
