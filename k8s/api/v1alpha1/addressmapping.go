package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AddressMapping maps an external address of this cluster to a target that is not a pod, so
// that other clusters can reach it: a virtual machine, a ClusterIP, or a host of a third
// cluster.
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

// AddressMappingSpec is the desired state of an AddressMapping.
//
// +kubebuilder:validation:XValidation:rule="self.external != self.target",fieldPath=".target",message="is the external address itself: set the address of the host that the external address is mapped to"
type AddressMappingSpec struct {
	// External is the address at which other clusters reach the target. It must be in
	// externalCIDRs of the ClusterNetwork.
	External IP `json:"external"`

	// Target is the address of the target in this cluster. The gateway terminates TCP and
	// UDP and opens a new connection to the target.
	Target IP `json:"target"`
}

// AddressMappingStatus is the observed state of an AddressMapping.
type AddressMappingStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Reserved is true when the external address is reserved for this mapping,
	// and Ready when all gateways serve it.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AddressMappingList is a list of AddressMappings.
//
// +kubebuilder:object:root=true
type AddressMappingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AddressMapping `json:"items"`
}
