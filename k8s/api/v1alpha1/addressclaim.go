package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AddressClaim takes one range, or one address as a range of its full length, out of
// a pool. Its name follows from the range, so that of two writers who want the same
// one the API server refuses the second. Claims that overlap without being equal have
// different names: whoever created one uses it only when it is bound, and package ipam
// says which of them may be.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=aclaim,categories=strait
// +kubebuilder:printcolumn:name="PREFIX",type=string,JSONPath=`.spec.prefix`
// +kubebuilder:printcolumn:name="POOL",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="BOUND",type=boolean,JSONPath=`.status.bound`
// +kubebuilder:printcolumn:name="OWNER-KIND",type=string,JSONPath=`.spec.owner.kind`
// +kubebuilder:printcolumn:name="OWNER",type=string,JSONPath=`.spec.owner.name`
// +kubebuilder:printcolumn:name="FOR",type=string,JSONPath=`.spec.for`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == (self.spec.prefix.startsWith(':') ? '0' + self.spec.prefix : self.spec.prefix).replace(':', '-').replace('/', '-')",fieldPath=".metadata",message="a claim has the name of its prefix",messageExpression="'a claim has the name of its prefix: name it ' + (self.spec.prefix.startsWith(':') ? '0' + self.spec.prefix : self.spec.prefix).replace(':', '-').replace('/', '-')"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.bound.orValue(false) || self.?status.bound.orValue(false)",fieldPath=".status.bound",message="a bound claim is in use: delete it when nothing uses it"
type AddressClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a claim cannot change: create another one, and delete this one when nothing uses it"
	// +required
	Spec AddressClaimSpec `json:"spec,omitzero"`
	// +optional
	Status AddressClaimStatus `json:"status,omitzero"`
}

// Pool is one of the kinds of pools of the ClusterNetwork.
//
// +kubebuilder:validation:Enum=internal;external;remap
type Pool string

// The pools.
const (
	PoolInternal Pool = "internal" // spec.internalCIDRs: addresses of nodes and gateways on the overlay
	PoolExternal Pool = "external" // spec.externalCIDRs: how nodes, gateways and mapped hosts appear to other clusters
	PoolRemap    Pool = "remap"    // spec.remapPools: where ranges of other clusters are seen
)

// AddressClaimSpec is what is taken, and for whom.
type AddressClaimSpec struct {
	// Prefix is what is taken.
	Prefix CIDR `json:"prefix"`

	// Pool is where it is taken from.
	Pool Pool `json:"pool"`

	// Owner is the object that it is taken for.
	Owner ClaimOwner `json:"owner"`

	// For is the range of the remote cluster that is seen as this one. Left out where the
	// claim is not for a range.
	// +optional
	For CIDR `json:"for,omitempty"`
}

// AddressClaimStatus says whether the claim holds.
type AddressClaimStatus struct {
	// Bound is true when the range may be used. It stays true for as long as the claim
	// exists.
	// +optional
	Bound bool `json:"bound,omitempty"`
}

// ClaimOwner is an object of this group, or a Gateway, which is none: it has the name
// of its pod.
type ClaimOwner struct {
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9]*$')",message="is not a kind: write it like NodeAttachment or Peering"
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AddressClaimList is a list of them.
//
// +kubebuilder:object:root=true
type AddressClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AddressClaim `json:"items"`
}
