package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AddressMapping lets an external address of this cluster stand for a target outside
// of its pods, so that other clusters reach it: a virtual machine, a ClusterIP, a
// third cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=amap,categories=strait
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL",type=string,JSONPath=`.spec.external`
// +kubebuilder:printcolumn:name="TARGET",type=string,JSONPath=`.spec.target`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type AddressMapping struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +required
	Spec AddressMappingSpec `json:"spec,omitzero"`
	// +optional
	Status AddressMappingStatus `json:"status,omitzero"`
}

// AddressMappingSpec is what is wished for.
//
// +kubebuilder:validation:XValidation:rule="self.external != self.target",fieldPath=".target",message="stands for itself: give the address of the host that the external address shall stand for"
type AddressMappingSpec struct {
	// External is the address under which other clusters reach the target. It lies in
	// the external CIDRs of the ClusterNetwork.
	External IP `json:"external"`

	// Target is the address as this cluster knows it. TCP and UDP end at the gateway and
	// start anew from there.
	Target IP `json:"target"`
}

// AddressMappingStatus is what is in force.
type AddressMappingStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Reserved is true when the external address is this mapping's own, and
	// Ready when all gateways serve it.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AddressMappingList is a list of them.
//
// +kubebuilder:object:root=true
type AddressMappingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AddressMapping `json:"items"`
}
