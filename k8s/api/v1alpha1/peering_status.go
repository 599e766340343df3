package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PeeringStatus is the observed state of a Peering. The controller writes it, except for
// the entries of gateways and links, which each gateway applies for itself.
type PeeringStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ClusterID is the remote cluster's ID, from the spec or from its announcement.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`

	// Prefixes are the CIDRs of the remote cluster's pods, and the CIDRs that they are
	// mapped to in this cluster.
	// +optional
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MaxItems=64
	Prefixes []SeenPrefix `json:"prefixes,omitempty"`

	// ExternalPrefixes are the CIDRs of the remote cluster's external addresses, and the
	// CIDRs that they are mapped to in this cluster.
	// +optional
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MaxItems=64
	ExternalPrefixes []SeenPrefix `json:"externalPrefixes,omitempty"`

	// Gateways are this cluster's gateways of the peering: what the remote cluster and the
	// nodes need to reach them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Gateways []GatewayStatus `json:"gateways,omitempty"`

	// Announcements are what the remote cluster announced through the tunnel, one entry for
	// each gateway of this cluster that received an announcement.
	// +optional
	// +listType=map
	// +listMapKey=heardBy
	// +kubebuilder:validation:MaxItems=16
	Announcements []Announcement `json:"announcements,omitempty"`

	// Links are the tunnels, one for each pair of a local and a remote gateway.
	// +optional
	// +listType=map
	// +listMapKey=local
	// +listMapKey=remote
	// +kubebuilder:validation:MaxItems=256
	Links []LinkStatus `json:"links,omitempty"`

	// MTU is the size of the largest IP packet that the peering carries, in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// Summary is what kubectl get prints. (Printer columns can show only the first item of
	// a list.)
	// +optional
	Summary PeeringSummary `json:"summary,omitzero"`

	// Conditions: Ready, Announced, CIDRConflict, TunnelUp, Routed, PathMTU and
	// GatewaysUpdated.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PeeringSummary is the status in one line. Its link is the one that is up and has the
// shortest round-trip time.
type PeeringSummary struct {
	// Endpoint is the address from which the remote gateway of the link answers, or the
	// first endpoint of the spec while no link is up.
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`

	// RemoteCIDRs are the CIDRs of the remote cluster's pods, separated by commas.
	// +optional
	RemoteCIDRs string `json:"remoteCIDRs,omitempty"`

	// SeenAs are the CIDRs that they are mapped to in this cluster, in the same order.
	// +optional
	SeenAs string `json:"seenAs,omitempty"`

	// RTT is the round-trip time of the link.
	// +optional
	// +kubebuilder:validation:Type=string
	RTT *metav1.Duration `json:"rtt,omitempty"`

	// LastHandshake is the latest handshake of all links.
	// +optional
	LastHandshake *metav1.Time `json:"lastHandshake,omitempty"`
}

// SeenPrefix is one CIDR of the remote cluster and the CIDR that it is mapped to in this
// cluster.
type SeenPrefix struct {
	// CIDR is the CIDR in the remote cluster.
	CIDR CIDR `json:"cidr"`
	// SeenAs is the CIDR that it is mapped to in this cluster.
	SeenAs CIDR `json:"seenAs"`
}

// GatewayStatus is one gateway of this cluster.
type GatewayStatus struct {
	// Name is the name of the gateway's pod.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Number is unique among the gateways of the cluster. The VNIs of nodes at the gateway
	// are derived from it; see VNI.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	Number int32 `json:"number,omitempty"`

	// PublicKey is the gateway's WireGuard public key in base64. The private key never
	// leaves the cluster.
	// +optional
	PublicKey PublicKey `json:"publicKey,omitempty"`

	// KeyGeneration is the generation of the public key.
	// +optional
	KeyGeneration int32 `json:"keyGeneration,omitempty"`

	// NextPublicKey is the key that replaces the public key as soon as the remote cluster
	// uses it.
	// +optional
	NextPublicKey PublicKey `json:"nextPublicKey,omitempty"`

	// Endpoints are the addresses at which the remote cluster can reach the gateway, best
	// first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Endpoints []Endpoint `json:"endpoints,omitempty"`

	// InternalAddresses are the gateway's addresses on the overlay.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	InternalAddresses []IP `json:"internalAddresses,omitempty"`

	// ExternalAddresses are the addresses under which the gateway appears to the remote
	// cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	ExternalAddresses []IP `json:"externalAddresses,omitempty"`

	// PodAddresses are the addresses of the gateway's pod, to which nodes send overlay
	// packets.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	PodAddresses []IP `json:"podAddresses,omitempty"`

	// Node is the name of the node that the gateway runs on.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`

	// MTU is the size of the largest IP packet that the gateway carries, in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// Mappings are the AddressMappings that the gateway serves.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Mappings []ServedMapping `json:"mappings,omitempty"`
}

// MaxMappings is the maximum number of AddressMappings that a gateway serves, so that its
// status can list them all.
const MaxMappings = 256

// ServedMapping is an AddressMapping that a gateway serves.
type ServedMapping struct {
	// Name is the name of the AddressMapping.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Generation is the generation of the spec that is served.
	Generation int64 `json:"generation"`
}

// Announcement is what the remote cluster announced about itself. It is in effect while the
// spec grants all of it; of several announcements, the latest is in effect.
type Announcement struct {
	// HeardBy is the name of the gateway of this cluster that received the announcement.
	// +kubebuilder:validation:MaxLength=63
	HeardBy string `json:"heardBy"`

	// HeardAt is the time when this announcement was first received.
	// +optional
	HeardAt *metav1.MicroTime `json:"heardAt,omitempty"`

	// ClusterID is the remote cluster's ID.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`

	// Prefixes are the CIDRs of the remote cluster's pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Prefixes []CIDR `json:"prefixes,omitempty"`

	// ExternalPrefixes are the CIDRs of the remote cluster's external addresses.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ExternalPrefixes []CIDR `json:"externalPrefixes,omitempty"`

	// Gateways are all gateways of the remote cluster for this peering.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Gateways []AnnouncedGateway `json:"gateways,omitempty"`

	// Superseded are keys of spec.peers that are no longer trusted because the announcement
	// does not list them. A key that is added to the spec later is trusted in addition,
	// until the remote cluster announces itself again without it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Superseded []PublicKey `json:"superseded,omitempty"`

	// Refused is the reason why a later announcement was rejected; empty if none was
	// rejected since.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Refused string `json:"refused,omitempty"`

	// Refusal is the reason why the remote cluster rejects what this gateway announces;
	// empty if it accepts it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Refusal string `json:"refusal,omitempty"`

	// Skew describes the protocol versions of the gateways of the two clusters if they have
	// none in common; empty otherwise.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Skew string `json:"skew,omitempty"`
}

// AnnouncedGateway is a gateway of the remote cluster.
type AnnouncedGateway struct {
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// PublicKeys are the gateway's public keys, newest first.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	PublicKeys []PublicKey `json:"publicKeys"`

	// Endpoints are the addresses at which the gateway can be reached, best first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// LinkStatus is the state of the tunnel between a gateway of this cluster and a gateway of
// the remote cluster.
type LinkStatus struct {
	// Local is the name of this cluster's gateway.
	// +kubebuilder:validation:MaxLength=63
	Local string `json:"local"`

	// Remote is the name of the remote cluster's gateway.
	// +kubebuilder:validation:MaxLength=63
	Remote string `json:"remote"`

	// Up is true while probes pass in both directions.
	Up bool `json:"up"`

	// PathMTU is the size of the largest probe packet that passed, in bytes, up to the MTU
	// of the peering. Empty while no packet of full size passes.
	// +optional
	PathMTU int32 `json:"pathMTU,omitempty"`

	// RTT is the round-trip time of probes through the tunnel.
	// +optional
	// +kubebuilder:validation:Type=string
	RTT *metav1.Duration `json:"rtt,omitempty"`

	// LastHandshake is the time of the last WireGuard handshake. On a link with traffic it
	// is less than three minutes ago.
	// +optional
	LastHandshake *metav1.Time `json:"lastHandshake,omitempty"`

	// Endpoint is the address from which the remote gateway answers.
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`
}
