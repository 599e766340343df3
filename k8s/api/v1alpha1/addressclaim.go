package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AddressClaim reserves one CIDR, or one address as a prefix of full length, from a pool.
// Its name is derived from the prefix, so that of two writers that want the same prefix the
// API server rejects the second. Claims that overlap without being equal have different
// names: a claim may be used only when it is bound, and package ipam decides which claims
// are bound.
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
// +kubebuilder:validation:XValidation:rule="self.metadata.name == (self.spec.prefix.startsWith(':') ? '0' + self.spec.prefix : self.spec.prefix).replace(':', '-').replace('/', '-')",fieldPath=".metadata",message="the name of a claim is derived from its prefix",messageExpression="'the name of a claim is derived from its prefix: name it ' + (self.spec.prefix.startsWith(':') ? '0' + self.spec.prefix : self.spec.prefix).replace(':', '-').replace('/', '-')"
// +kubebuilder:validation:XValidation:rule="!oldSelf.?status.bound.orValue(false) || self.?status.bound.orValue(false)",fieldPath=".status.bound",message="a bound claim is in use: delete it when nothing uses it"
type AddressClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a claim cannot change: create a new claim, and delete this one when nothing uses it"
	// +required
	Spec AddressClaimSpec `json:"spec,omitzero"`
	// +optional
	Status AddressClaimStatus `json:"status,omitzero"`
}

// Pool is a type of address pool of the ClusterNetwork.
//
// +kubebuilder:validation:Enum=internal;external;remap
type Pool string

// The pools.
const (
	PoolInternal Pool = "internal" // spec.internalCIDRs: addresses of nodes and gateways on the overlay
	PoolExternal Pool = "external" // spec.externalCIDRs: how nodes, gateways and mapped hosts appear to other clusters
	PoolRemap    Pool = "remap"    // spec.remapPools: CIDRs that remote CIDRs are mapped to
)

// AddressClaimSpec is the claimed prefix and its owner.
type AddressClaimSpec struct {
	// Prefix is the claimed CIDR or address.
	Prefix CIDR `json:"prefix"`

	// Pool is the pool that the prefix belongs to.
	Pool Pool `json:"pool"`

	// Owner is the object that uses the prefix.
	Owner ClaimOwner `json:"owner"`

	// For is the CIDR of the remote cluster that is mapped to this prefix. Empty if the
	// claim is not for a remote CIDR.
	// +optional
	For CIDR `json:"for,omitempty"`
}

// AddressClaimStatus reports whether the claim is bound.
type AddressClaimStatus struct {
	// Bound is true when the prefix may be used. It stays true for as long as the claim
	// exists.
	// +optional
	Bound bool `json:"bound,omitempty"`
}

// ClaimOwner is a custom resource of this group, or a Gateway, which is not an object: its
// name is that of the gateway's pod.
type ClaimOwner struct {
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9]*$')",message="is not a kind: write it like NodeAttachment or Peering"
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AddressClaimList is a list of AddressClaims.
//
// +kubebuilder:object:root=true
type AddressClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AddressClaim `json:"items"`
}
