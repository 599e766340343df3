package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterNetworkName is the name of the only ClusterNetwork of a cluster.
const ClusterNetworkName = "default"

// UninstallAnnotation on the ClusterNetwork makes every node let go of all that Strait set
// up on it, and say so in the condition Released of its NodeAttachment. Taken away, it
// brings everything back. Its value says for people when it was set.
const UninstallAnnotation = "strait.dev/uninstall"

// InstallationAnnotation on the ClusterNetwork is the installation of Strait that it
// belongs to: the UID of the controller's service account. With another one than its own a
// controller was installed anew, and takes UninstallAnnotation away.
const InstallationAnnotation = "strait.dev/installation"

// ClusterNetwork describes this cluster to Strait. There is one, named default.
// Everything in it may be left out: what can be detected is detected, and the rest
// has defaults. Lists with a default are atomic, or else what is applied to an object
// that has the default would be added to it.
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
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",fieldPath=".metadata",message="a cluster has one ClusterNetwork: name it default"
type ClusterNetwork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +optional
	// +kubebuilder:default={}
	Spec ClusterNetworkSpec `json:"spec,omitzero"`
	// +optional
	Status ClusterNetworkStatus `json:"status,omitzero"`
}

// ClusterNetworkSpec is what is wished for.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterID) || has(self.clusterID) && self.clusterID == oldSelf.clusterID",fieldPath=".clusterID",message="other clusters know this one by its ID, so that it cannot change: keep it, or remove all peerings, delete this object and create it anew"
// +kubebuilder:validation:XValidation:rule="!has(self.internalCIDRs) || !has(self.externalCIDRs) || self.internalCIDRs.all(i, !isCIDR(i) || !self.externalCIDRs.exists(e, isCIDR(e) && (cidr(i).containsCIDR(e) || cidr(e).containsCIDR(i))))",fieldPath=".externalCIDRs",message="internalCIDRs and externalCIDRs overlap: an address is either the one or the other, so give them ranges of their own"
type ClusterNetworkSpec struct {
	// ClusterID names this cluster among those it is joined to. It cannot change once
	// it is set. Left out, it is derived from the cluster.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`

	// PodCIDRs are the ranges that pods have addresses from. Left out, they are detected.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	PodCIDRs []CIDR `json:"podCIDRs,omitempty"`

	// ServiceCIDRs are the ranges of ClusterIPs. Left out, they are detected. Nothing of
	// another cluster is ever seen in them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ServiceCIDRs []CIDR `json:"serviceCIDRs,omitempty"`

	// NodeCIDRs are the ranges that nodes have addresses from. Left out, the addresses
	// of the nodes are taken. Nothing of another cluster is ever seen in them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	NodeCIDRs []CIDR `json:"nodeCIDRs,omitempty"`

	// InternalCIDRs are the pools of internal addresses: one for each node and gateway,
	// with which they reach each other over the overlay.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"10.80.0.0/16"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	InternalCIDRs []CIDR `json:"internalCIDRs,omitempty"`

	// ExternalCIDRs are the pools of external addresses, under which nodes, gateways and
	// mapped hosts appear to other clusters. An empty list keeps nodes from reaching
	// other clusters; pods still do.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"10.70.0.0/16"}
	// +kubebuilder:validation:MaxItems=16
	ExternalCIDRs []CIDR `json:"externalCIDRs"`

	// RemapPools are where ranges of remote clusters are seen when their own are taken
	// here. A range of the remote cluster needs one of its own length in these. An empty
	// list means that such a range is not seen at all, unless its peering says where.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={"10.64.0.0/10","fd73:7472::/32"}
	// +kubebuilder:validation:MaxItems=16
	RemapPools []CIDR `json:"remapPools"`

	// ReservedCIDRs are ranges that mean something here that Strait cannot see, for
	// instance a company's network. Nothing is allocated from them, and nothing of
	// another cluster is ever seen in them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ReservedCIDRs []CIDR `json:"reservedCIDRs,omitempty"`

	// Overlay is the network between nodes and gateways.
	// +optional
	// +kubebuilder:default={}
	Overlay OverlaySpec `json:"overlay,omitzero"`

	// Masquerade is who may reach other clusters through the nodes although they are
	// neither pods nor nodes here.
	// +optional
	Masquerade MasqueradeSpec `json:"masquerade,omitzero"`
}

// MasqueradeSpec is who may leave under the gateways' own external addresses, and how much
// of that there may be.
//
// +kubebuilder:validation:XValidation:rule="!has(self.flowsPerSource) || self.flowsPerSource <= (has(self.flows) ? self.flows : 65536)",fieldPath=".flowsPerSource",message="is more than flows: use at most as many, or leave it out for a sixteenth of them"
type MasqueradeSpec struct {
	// Sources are the addresses of such hosts, for instance of clients whose connections
	// kube-proxy sends on as they are (externalTrafficPolicy: Local). 0.0.0.0/0 and ::/0
	// are everybody; none is nobody. Pods, nodes and other clusters are never masqueraded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Sources []SourceRange `json:"sources,omitempty"`

	// Flows is how many flows each gateway keeps at once, 65536 if left out. One takes about
	// 140 bytes of the gateway's memory, whether it is in use or not.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4194304
	Flows int32 `json:"flows,omitempty"`

	// FlowsPerSource is how many of them one source may have, a sixteenth if left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4194304
	FlowsPerSource int32 `json:"flowsPerSource,omitempty"`
}

// OverlaySpec is the network between nodes and gateways.
type OverlaySpec struct {
	// MTU is the inner MTU, the largest IP packet that crosses, in bytes. 0 derives it
	// from the interfaces.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 576 && self <= 65535",message="is not an MTU that every packet can rely on: use 0 to derive it from the interfaces, or 576 to 65535, with IPv6 at least 1280"
	MTU int32 `json:"mtu"`

	// Encapsulation is how nodes wrap what they send to gateways: auto lets each node
	// use the first that it can, of Geneve, VXLAN and Geneve in userspace.
	// +optional
	// +kubebuilder:default=auto
	Encapsulation EncapsulationPolicy `json:"encapsulation,omitempty"`
}

// ClusterNetworkStatus is what is in force.
type ClusterNetworkStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ClusterID is the ID in force.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`

	// PodCIDRs are the ranges of pods in force.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	PodCIDRs []CIDR `json:"podCIDRs,omitempty"`

	// ServiceCIDRs are the ranges of ClusterIPs in force.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ServiceCIDRs []CIDR `json:"serviceCIDRs,omitempty"`

	// NodeCIDRs are the ranges of nodes in force. Where none was given, they cover the
	// addresses of all nodes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	NodeCIDRs []CIDR `json:"nodeCIDRs,omitempty"`

	// Sources says where each of them comes from.
	// +optional
	Sources ClusterNetworkSources `json:"sources,omitzero"`

	// Conditions: Detected is true when the ranges above are known, and Ready when the
	// pools can be used beside them too.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterNetworkSources says where the values of a status come from.
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

// Source is where a value comes from: given (in the spec), nodes (their objects),
// kubeadm (its ConfigMap), flags (of the control plane's pods), or another place in
// the cluster.
//
// +kubebuilder:validation:MaxLength=63
type Source string

// The sources that every cluster may have.
const (
	SourceGiven   Source = "given"
	SourceNodes   Source = "nodes"
	SourceKubeadm Source = "kubeadm"
	SourceFlags   Source = "flags"
)

// ClusterNetworkList is a list of them.
//
// +kubebuilder:object:root=true
type ClusterNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterNetwork `json:"items"`
}
