package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterNetworkName is the name of the only ClusterNetwork of a cluster.
const ClusterNetworkName = "default"

// UninstallAnnotation on the ClusterNetwork makes every node remove all that Strait set up
// on it, and report that in the condition Released of its NodeAttachment. Removing the
// annotation sets everything up again. Its value is the time at which it was set, for
// people.
const UninstallAnnotation = "strait.dev/uninstall"

// InstallationAnnotation on the ClusterNetwork identifies the installation of Strait that
// it belongs to: the UID of the controller's service account. A controller with another UID
// belongs to a new installation and removes UninstallAnnotation.
const InstallationAnnotation = "strait.dev/installation"

// ClusterNetwork describes this cluster to Strait. There is exactly one, named default. All
// fields are optional: CIDRs are detected, and the rest has defaults. Lists with a default
// are atomic; otherwise applied items would be added to the default.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=clusternet,categories=strait
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.clusterID`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="POD-CIDRS",type=string,JSONPath=`.status.podCIDRs`
// +kubebuilder:printcolumn:name="SERVICE-CIDRS",type=string,JSONPath=`.status.serviceCIDRs`
// +kubebuilder:printcolumn:name="NODE-CIDRS",type=string,JSONPath=`.status.nodeCIDRs`,priority=1
// +kubebuilder:printcolumn:name="INTERNAL",type=string,JSONPath=`.spec.internalCIDRs`,priority=1
// +kubebuilder:printcolumn:name="EXTERNAL",type=string,JSONPath=`.spec.externalCIDRs`,priority=1
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",fieldPath=".metadata",message="a cluster has exactly one ClusterNetwork: name it default"
type ClusterNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +optional
	// +kubebuilder:default={}
	Spec ClusterNetworkSpec `json:"spec,omitzero"`
	// +optional
	Status ClusterNetworkStatus `json:"status,omitzero"`
}

// ClusterNetworkSpec is the desired state of a ClusterNetwork.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterID) || has(self.clusterID) && self.clusterID == oldSelf.clusterID",fieldPath=".clusterID",message="the cluster ID is immutable because other clusters know this cluster by it: keep it, or remove all peerings, delete this object and create it again"
// +kubebuilder:validation:XValidation:rule="!has(self.internalCIDRs) || !has(self.externalCIDRs) || self.internalCIDRs.all(i, !isCIDR(i) || !self.externalCIDRs.exists(e, isCIDR(e) && (cidr(i).containsIP(cidr(e).ip()) || cidr(e).containsIP(cidr(i).ip()))))",fieldPath=".externalCIDRs",message="internalCIDRs and externalCIDRs overlap: use disjoint CIDRs"
type ClusterNetworkSpec struct {
	// ClusterID identifies this cluster among the clusters that it is joined to. It is
	// immutable once set. If empty, it is the value of the ClusterProperty
	// cluster.clusterset.k8s.io if there is one when Strait is installed, and is otherwise
	// derived from the UID of the namespace kube-system.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`

	// PodCIDRs are the CIDRs of this cluster's pods. If empty, they are detected.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	PodCIDRs []CIDR `json:"podCIDRs,omitempty"`

	// ServiceCIDRs are the CIDRs of ClusterIPs. If empty, they are detected. No remote CIDR
	// is ever mapped into them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ServiceCIDRs []CIDR `json:"serviceCIDRs,omitempty"`

	// NodeCIDRs are the CIDRs of this cluster's nodes. If empty, the addresses of the nodes
	// are used. No remote CIDR is ever mapped into them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	NodeCIDRs []CIDR `json:"nodeCIDRs,omitempty"`

	// InternalCIDRs are the pools of internal addresses: one of each IP family for each
	// node and gateway, with which they reach each other over the overlay. Pods reach other
	// clusters only in these IP families. If there are pools of both, those of IPv6 are used
	// only while pods have IPv6.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"10.80.0.0/16","fd73:7472:80::/64"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	InternalCIDRs []CIDR `json:"internalCIDRs,omitempty"`

	// ExternalCIDRs are the pools of external addresses, under which nodes, gateways and
	// mapped hosts appear to other clusters. With an empty list, nodes cannot reach other
	// clusters; pods still can.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"10.70.0.0/16"}
	// +kubebuilder:validation:MaxItems=16
	ExternalCIDRs []CIDR `json:"externalCIDRs"`

	// RemapPools are the CIDRs that remote CIDRs are mapped to when they overlap CIDRs of
	// this cluster. A remote CIDR needs a free CIDR of the same length in a pool. With an
	// empty list, an overlapping remote CIDR is not mapped at all, unless the Peering sets
	// its seenAs.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"10.64.0.0/10","fd73:7472::/32"}
	// +kubebuilder:validation:MaxItems=16
	RemapPools []CIDR `json:"remapPools"`

	// ReservedCIDRs are CIDRs in use that Strait cannot detect, for instance those of a
	// company network. Nothing is allocated from them, and no remote CIDR is ever mapped
	// into them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ReservedCIDRs []CIDR `json:"reservedCIDRs,omitempty"`

	// Overlay is the network between nodes and gateways.
	// +optional
	// +kubebuilder:default={}
	Overlay OverlaySpec `json:"overlay,omitzero"`

	// Masquerade configures which other hosts may reach remote clusters through the nodes,
	// although they are neither pods nor nodes of this cluster.
	// +optional
	Masquerade MasqueradeSpec `json:"masquerade,omitzero"`
}

// MasqueradeSpec selects the sources that are masqueraded to the gateways' external
// addresses, and limits their flows.
//
// +kubebuilder:validation:XValidation:rule="!has(self.flowsPerSource) || self.flowsPerSource <= (has(self.flows) ? self.flows : 65536)",fieldPath=".flowsPerSource",message="is greater than flows: use at most that value, or leave it out for 1/16 of it"
type MasqueradeSpec struct {
	// Sources are the CIDRs of the masqueraded hosts, for instance of clients whose
	// connections kube-proxy forwards with their source address (externalTrafficPolicy:
	// Local). 0.0.0.0/0 and ::/0 match every source; an empty list matches none. Pods,
	// nodes and other clusters are never masqueraded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Sources []SourceRange `json:"sources,omitempty"`

	// Flows is the maximum number of concurrent masqueraded flows of each gateway, 65536 by
	// default. Each takes about 140 bytes of the gateway's memory, whether it is in use or
	// not.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4194304
	Flows int32 `json:"flows,omitempty"`

	// FlowsPerSource is the maximum number of concurrent flows of one source, 1/16 of flows
	// by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4194304
	FlowsPerSource int32 `json:"flowsPerSource,omitempty"`
}

// OverlaySpec is the network between nodes and gateways.
type OverlaySpec struct {
	// MTU is the inner MTU: the size of the largest IP packet that is carried between
	// clusters, in bytes. 0 derives it from the interfaces.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 576 && self <= 65535",message="is out of range: use 0 to derive it from the interfaces, or 576 to 65535, with IPv6 at least 1280"
	MTU int32 `json:"mtu"`

	// Encapsulation selects how nodes encapsulate packets to gateways. With auto, each node
	// uses the first that it supports of Geneve, VXLAN and Geneve in userspace.
	// +optional
	// +kubebuilder:default=auto
	Encapsulation EncapsulationPolicy `json:"encapsulation,omitempty"`
}

// ClusterNetworkStatus is the observed state of a ClusterNetwork.
type ClusterNetworkStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ClusterID is the cluster ID in use.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`

	// PodCIDRs are the pod CIDRs in use.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	PodCIDRs []CIDR `json:"podCIDRs,omitempty"`

	// ServiceCIDRs are the CIDRs of ClusterIPs in use.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ServiceCIDRs []CIDR `json:"serviceCIDRs,omitempty"`

	// NodeCIDRs are the node CIDRs in use. If none was configured, they cover the addresses
	// of all nodes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	NodeCIDRs []CIDR `json:"nodeCIDRs,omitempty"`

	// WithoutNodes is true in a cluster without node helpers: gateways carry the connections
	// of pods to imported Services, and pods reach nothing else of remote clusters.
	// +optional
	WithoutNodes bool `json:"withoutNodes,omitempty"`

	// APIServers are the addresses of the API server. Nodes route none of them into a Peering, and
	// gateways do not connect to them for remote clusters.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	APIServers []IP `json:"apiServers,omitempty"`

	// Gateways are the addresses of the pods of all gateways, which gateways of other
	// Peerings neither connect to nor accept connections of. Only in a cluster without node
	// helpers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	Gateways []IP `json:"gateways,omitempty"`

	// Sources reports where each of these values comes from.
	// +optional
	Sources ClusterNetworkSources `json:"sources,omitzero"`

	// Conditions: Detected is true when the CIDRs above are known, and Ready when, in
	// addition, the pools do not overlap them. NodesAttached is false while nodes cannot be
	// attached, and names them.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterNetworkSources reports where the values of a status come from.
type ClusterNetworkSources struct {
	// +optional
	ClusterID Source `json:"clusterID,omitempty"`
	// +optional
	PodCIDRs Source `json:"podCIDRs,omitempty"`
	// +optional
	ServiceCIDRs Source `json:"serviceCIDRs,omitempty"`
	// +optional
	NodeCIDRs Source `json:"nodeCIDRs,omitempty"`
}

// Source is the origin of a value: given (in the spec), nodes (the Node objects), kubeadm
// (its ConfigMap), flags (of the control plane's pods), or another object in the cluster.
//
// +kubebuilder:validation:MaxLength=63
type Source string

// The sources that exist in every distribution.
const (
	SourceGiven   Source = "given"
	SourceNodes   Source = "nodes"
	SourceKubeadm Source = "kubeadm"
	SourceFlags   Source = "flags"
)

// ClusterNetworkList is a list of ClusterNetworks.
//
// +kubebuilder:object:root=true
type ClusterNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterNetwork `json:"items"`
}
