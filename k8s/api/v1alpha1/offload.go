package v1alpha1

import corev1 "k8s.io/api/core/v1"

// PeeringLend is what this cluster lends to the remote cluster: pods of the remote cluster run
// in namespaces of this one.
type PeeringLend struct {
	// Namespaces are those in which pods of the remote cluster may run. Each stands for the
	// namespace of the same name in the remote cluster.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="is not the name of a namespace"
	Namespaces []string `json:"namespaces,omitempty"`

	// Resources are the capacity that the remote cluster sees, if the ResourceQuotas of the
	// namespaces together do not permit less. What its pods use is limited by these quotas. Devices
	// and other extended resources are not lent unless they are in the list.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// Largest are the resources of the largest machine of this cluster. Pods that request more
	// are refused. It is announced to the virtual node, and set by strait lend.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Largest corev1.ResourceList `json:"largest,omitempty"`

	// Lender is where the remote cluster reaches the lender of this cluster, and its
	// certificate. It is announced through the tunnel. If empty, nothing is lent yet.
	// +optional
	Lender *OffloadLender `json:"lender,omitempty"`
}

// PeeringBorrow is what this cluster borrows from the remote cluster: a virtual node whose pods
// run there.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodeName) == has(oldSelf.nodeName) && (!has(self.nodeName) || self.nodeName == oldSelf.nodeName)",fieldPath=".nodeName",message="the name of the node is immutable: remove spec.borrow, and set it again with another name"
type PeeringBorrow struct {
	// NodeName is the name of the virtual node. If empty, it is strait- and the name of the
	// Peering.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="is not the name of a node: use up to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit"
	NodeName string `json:"nodeName,omitempty"`

	// Resources limit the capacity of the node, in addition to what the remote cluster lends.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// Fingerprint is that of the borrower's certificate. It is announced through the tunnel;
	// the lender accepts no other one.
	Fingerprint Fingerprint `json:"fingerprint"`
}

// OffloadLender is where a lender is reached.
type OffloadLender struct {
	// Address is an external address of the lender's cluster that an AddressMapping maps to
	// the lender.
	Address IP `json:"address"`

	// Port is the TCP port.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// Fingerprint is that of the lender's certificate; the borrower accepts no other one.
	Fingerprint Fingerprint `json:"fingerprint"`
}

// AnnouncedOffload is what a cluster announces about its agents.
type AnnouncedOffload struct {
	// Lender is where its lender is reached. Empty: it lends nothing.
	// +optional
	Lender *OffloadLender `json:"lender,omitempty"`

	// Borrower is the fingerprint of its borrower's certificate. Empty: it borrows nothing.
	// +optional
	Borrower Fingerprint `json:"borrower,omitempty"`
}
