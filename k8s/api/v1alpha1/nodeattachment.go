package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeAttachment attaches a node to the overlay. It has the name of the node. The
// controller writes the spec; the node helper on that node writes the status.
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

// NodeAttachmentSpec is the desired state of a NodeAttachment.
type NodeAttachmentSpec struct {
	// Index is a number that is unique among the nodes of the cluster. The VNI of the node
	// at each gateway is derived from it; it is immutable.
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="is out of range: use 1 to 65535"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the index is immutable because gateways know the node by it: delete this object, and the controller creates it again"
	Index int32 `json:"index"`

	// UnderlayAddresses are the node's own addresses, which are the source and destination
	// of its overlay packets.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	UnderlayAddresses []IP `json:"underlayAddresses"`

	// InternalAddresses are the node's addresses on the overlay, at most one of each IP
	// family.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, !isIP(a) || !isIP(b) || ip(a).family() == ip(b).family()))",message="two addresses of one IP family: set at most one IPv4 and one IPv6 address"
	InternalAddresses []IP `json:"internalAddresses"`

	// ExternalAddresses are the addresses under which the node appears to remote clusters,
	// at most one of each IP family. A node without an external address cannot reach remote
	// clusters; its pods can.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, !isIP(a) || !isIP(b) || ip(a).family() == ip(b).family()))",message="two addresses of one IP family: set at most one IPv4 and one IPv6 address"
	ExternalAddresses []IP `json:"externalAddresses,omitempty"`

	// PodCIDRs are the CIDRs of the node's pods. Single addresses are /32 or /128.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1024
	PodCIDRs []CIDR `json:"podCIDRs,omitempty"`

	// PodAddresses are the addresses of the node's pods that lie in no podCIDR, as the
	// fewest prefixes: with network plugins that do not assign addresses from podCIDRs.
	// They change with the pods, at most once per second.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	PodAddresses []CIDR `json:"podAddresses,omitempty"`
}

// NodeAttachmentStatus is the observed state of a NodeAttachment.
type NodeAttachmentStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Gateways is the state of the node's overlay connection to each gateway.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Gateways []NodeGateway `json:"gateways,omitempty"`

	// Encapsulations are the encapsulations in use, the most used first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Encapsulations []Encapsulation `json:"encapsulations,omitempty"`

	// RouteConflicts are the mapped CIDRs of remote clusters that overlap a destination
	// which the node routes itself.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	RouteConflicts []RouteConflict `json:"routeConflicts,omitempty"`

	// Conditions: Ready is true when the node reaches all gateways. Released is present
	// while Strait is being uninstalled, and true when nothing of Strait is left on the
	// node.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Encapsulation is how a node encapsulates packets to a gateway: geneve or vxlan in the
// kernel, or userspace, which is Geneve in the process of the node helper.
//
// +kubebuilder:validation:Enum=geneve;vxlan;userspace
type Encapsulation string

// The encapsulations.
const (
	Geneve    Encapsulation = "geneve"
	VXLAN     Encapsulation = "vxlan"
	Userspace Encapsulation = "userspace"
)

// NodeGateway is the state of a node's overlay connection to one gateway.
type NodeGateway struct {
	// Name is the name of the gateway's pod.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// VNI is the virtual network identifier of packets between the node and this gateway.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16777215
	VNI int32 `json:"vni"`

	// Ready is true while the gateway answers over the overlay.
	Ready bool `json:"ready"`

	// State is whether the gateway forwards, by its answers: Forwarding; Joining, if it was
	// out and is up again for less than two seconds; NoLinks, if no link to the remote
	// cluster is up; Leaving, if it shuts down; NoAnswer.
	// +optional
	State NodeGatewayState `json:"state,omitempty"`

	// InUse is true while the node sends packets to the gateway. It spreads the flows of a
	// Peering over all gateways that are Forwarding or, if there is none, over those in the
	// next best state.
	// +optional
	InUse bool `json:"inUse,omitempty"`

	// Encapsulation is the encapsulation in use.
	// +optional
	Encapsulation Encapsulation `json:"encapsulation,omitempty"`

	// Source is the source address of the node's overlay packets to the gateway, as the
	// node's routes select it. With many network plugins it is not in
	// spec.underlayAddresses where the gateway's pod is on the same node or behind the
	// plugin's own overlay. The gateway sends its packets to this address, too.
	// +optional
	Source IP `json:"source,omitempty"`

	// Refused are the reasons for which the node refused packets from the gateway within the last
	// hour: node_not_granted, a connection of the remote cluster to the node itself, which
	// spec.localNodes of the Peering denies; spoofed_source, a source outside of the CIDRs of the
	// Peering; destination_not_granted, a destination that is no pod of this node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:MaxLength=63
	Refused []string `json:"refused,omitempty"`

	// Message explains why the gateway is not ready or not in use, or why the node uses a
	// fallback encapsulation.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// NodeGatewayState is whether a gateway forwards the packets of a node.
//
// +kubebuilder:validation:Enum=Forwarding;Joining;Leaving;NoLinks;NoAnswer
type NodeGatewayState string

// The states of a gateway, best first.
const (
	Forwarding NodeGatewayState = "Forwarding"
	Joining    NodeGatewayState = "Joining"
	Leaving    NodeGatewayState = "Leaving"
	NoLinks    NodeGatewayState = "NoLinks"
	NoAnswer   NodeGatewayState = "NoAnswer"
)

// RouteConflict is a mapped CIDR of a remote cluster that overlaps a destination which the
// node routes itself.
type RouteConflict struct {
	// CIDR is the mapped CIDR, as in seenAs of a Peering.
	CIDR CIDR `json:"cidr"`

	// Destination is the route or rule of the node, like "route to 10.64.0.0/10 dev wg0
	// table 254".
	// +kubebuilder:validation:MaxLength=256
	Destination string `json:"destination"`

	// Refused is true if the node does not route the CIDR to gateways. It is false if the
	// node did so before the destination appeared: then the CIDR takes the destination
	// over.
	// +optional
	Refused bool `json:"refused,omitempty"`
}

// VNI returns the virtual network identifier of packets between a node and a gateway. It is
// unique for each pair as long as indices and numbers are unique: 16 bits are the node's
// index (1 to 65535), 8 bits are the gateway's number (1 to 255).
func VNI(index, number int32) uint32 { return uint32(index)<<8 | uint32(number) }

// NodeAttachmentList is a list of NodeAttachments.
//
// +kubebuilder:object:root=true
type NodeAttachmentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeAttachment `json:"items"`
}
