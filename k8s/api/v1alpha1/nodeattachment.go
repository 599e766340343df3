package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeAttachment is a node's place on the overlay. It has the name of the node. The
// controller writes what the node shall be; the node's helper says what it is.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nodeatt,categories=strait
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="INTERNAL",type=string,JSONPath=`.spec.internalAddresses`
// +kubebuilder:printcolumn:name="EXTERNAL",type=string,JSONPath=`.spec.externalAddresses`
// +kubebuilder:printcolumn:name="UNDERLAY",type=string,JSONPath=`.spec.underlayAddresses`
// +kubebuilder:printcolumn:name="ENCAPSULATION",type=string,JSONPath=`.status.encapsulations`
// +kubebuilder:printcolumn:name="INDEX",type=integer,JSONPath=`.spec.index`,priority=1
// +kubebuilder:printcolumn:name="POD-CIDRS",type=string,JSONPath=`.spec.podCIDRs`,priority=1
// +kubebuilder:printcolumn:name="WHY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeAttachment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +required
	Spec NodeAttachmentSpec `json:"spec,omitzero"`
	// +optional
	Status NodeAttachmentStatus `json:"status,omitzero"`
}

// NodeAttachmentSpec is what the node shall be.
type NodeAttachmentSpec struct {
	// Index is a number that no other node of the cluster has. The VNI of the node at
	// each gateway comes from it, so that it cannot change.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="is not the index of a node: use 1 to 65535"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="gateways know the node by its index, so that it cannot change: delete this object, and the controller creates it anew"
	Index int32 `json:"index"`

	// UnderlayAddresses are the node's own, which its frames come from and go to.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	UnderlayAddresses []IP `json:"underlayAddresses"`

	// InternalAddresses are those of the node on the overlay, one of each family.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, !isIP(a) || !isIP(b) || ip(a).family() == ip(b).family()))",message="two addresses of one family: give one IPv4 and one IPv6 address at most"
	InternalAddresses []IP `json:"internalAddresses"`

	// ExternalAddresses are how the node appears to remote clusters, one of each family.
	// A node without one does not reach them; its pods do.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, !isIP(a) || !isIP(b) || ip(a).family() == ip(b).family()))",message="two addresses of one family: give one IPv4 and one IPv6 address at most"
	ExternalAddresses []IP `json:"externalAddresses,omitempty"`

	// PodCIDRs are where the node's pods have addresses from, as ranges or single
	// addresses (/32, /128).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	PodCIDRs []CIDR `json:"podCIDRs,omitempty"`
}

// NodeAttachmentStatus is what the node is.
type NodeAttachmentStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Gateways are the node's ends of the overlay, one for each gateway.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Gateways []NodeGateway `json:"gateways,omitempty"`

	// Encapsulations are those in use, for most gateways first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Encapsulations []Encapsulation `json:"encapsulations,omitempty"`

	// Conditions: Ready is true when the node sends to all gateways. Released is there
	// while Strait is uninstalled, and true when the node has nothing of it any more.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Encapsulation is how a node wraps its frames for a gateway: geneve or vxlan in the
// kernel, or userspace, which is Geneve from a process of the node's helper.
//
// +kubebuilder:validation:Enum=geneve;vxlan;userspace
type Encapsulation string

// The encapsulations.
const (
	Geneve    Encapsulation = "geneve"
	VXLAN     Encapsulation = "vxlan"
	Userspace Encapsulation = "userspace"
)

// NodeGateway is a node's end of the overlay to one gateway.
type NodeGateway struct {
	// Name is the name of the gateway's pod.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// VNI is the virtual network identifier of the node's frames there.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`

	// Ready is true while the gateway answers over the overlay.
	Ready bool `json:"ready"`

	// Encapsulation is the one in use.
	// +optional
	Encapsulation Encapsulation `json:"encapsulation,omitempty"`

	// Source is the address that the node's frames to the gateway come from, by the
	// node's routes: with many network plugins it is none of spec.underlayAddresses where
	// the gateway's pod is on the same node, or behind the plugin's own overlay. The
	// gateway sends there, too.
	// +optional
	Source IP `json:"source,omitempty"`

	// Message says why the node is not ready, or why it uses another encapsulation than
	// it was to.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// VNI is the virtual network identifier of the frames between a node and a gateway. No
// other pair has the same while indices and numbers are unique: 16 bits of it are the
// node's index (1 to 65535), 8 are the gateway's number (1 to 255).
func VNI(index, number int32) uint32 { return uint32(index)<<8 | uint32(number) }

// NodeAttachmentList is a list of them.
//
// +kubebuilder:object:root=true
type NodeAttachmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeAttachment `json:"items"`
}
