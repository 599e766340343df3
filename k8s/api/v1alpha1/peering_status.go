package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PeeringStatus is what is in force. The controller writes it but for the entries of
// gateways and links, which the gateway they are about applies for itself.
type PeeringStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ClusterID is the remote cluster's ID, as the spec has it or as it announced itself.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`

	// Prefixes are the ranges of the remote cluster's pods, and where they are seen here.
	// +optional
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MaxItems=64
	Prefixes []SeenPrefix `json:"prefixes,omitempty"`

	// ExternalPrefixes are the same for what are no pods.
	// +optional
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MaxItems=64
	ExternalPrefixes []SeenPrefix `json:"externalPrefixes,omitempty"`

	// Gateways are this cluster's gateways of the peering: what the remote cluster has to
	// know of them, and what the nodes need to reach them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Gateways []GatewayStatus `json:"gateways,omitempty"`

	// Announcements are what the remote cluster said of itself through the tunnel, one for
	// each gateway of this cluster that heard it.
	// +optional
	// +listType=map
	// +listMapKey=heardBy
	// +kubebuilder:validation:MaxItems=16
	Announcements []Announcement `json:"announcements,omitempty"`

	// Links are the tunnels, one for each pair of a gateway here and one there.
	// +optional
	// +listType=map
	// +listMapKey=local
	// +listMapKey=remote
	// +kubebuilder:validation:MaxItems=256
	Links []LinkStatus `json:"links,omitempty"`

	// MTU is the largest IP packet that crosses, in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// Summary is what kubectl get prints, which cannot print of lists but the first item.
	// +optional
	Summary PeeringSummary `json:"summary,omitzero"`

	// Conditions: Ready, Announced, CIDRConflict, TunnelUp, Routed and PathMTU.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PeeringSummary is the rest of the status in a line. The link it speaks of is the
// one that is up and has the shortest round-trip time.
type PeeringSummary struct {
	// Endpoint is where the remote gateway of the link answers from; while no link is
	// up, the first endpoint of the spec.
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`

	// RemoteCIDRs are the ranges of the remote cluster's pods, joined by commas.
	// +optional
	RemoteCIDRs string `json:"remoteCIDRs,omitempty"`

	// SeenAs are the ranges under which they are seen here, in the same order.
	// +optional
	SeenAs string `json:"seenAs,omitempty"`

	// RTT is the round-trip time of the link.
	// +optional
	// +kubebuilder:validation:Type=string
	RTT *metav1.Duration `json:"rtt,omitempty"`

	// LastHandshake is the latest of all links.
	// +optional
	LastHandshake *metav1.Time `json:"lastHandshake,omitempty"`
}

// SeenPrefix is one range of the remote cluster and where it is seen here.
type SeenPrefix struct {
	// CIDR is the range as the remote cluster knows it.
	CIDR CIDR `json:"cidr"`
	// SeenAs is the range as this cluster knows it.
	SeenAs CIDR `json:"seenAs"`
}

// GatewayStatus is one gateway of this cluster.
type GatewayStatus struct {
	// Name is the name of the gateway's pod.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Number is one that no other gateway of the cluster has. The VNIs of nodes at the
	// gateway come from it; see VNI.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	Number int32 `json:"number,omitempty"`

	// PublicKey is its WireGuard public key in base64. The private key never leaves the
	// cluster.
	// +optional
	PublicKey PublicKey `json:"publicKey,omitempty"`

	// KeyGeneration is that of the public key.
	// +optional
	KeyGeneration int32 `json:"keyGeneration,omitempty"`

	// NextPublicKey is the key that takes its place as soon as the remote cluster uses it.
	// +optional
	NextPublicKey PublicKey `json:"nextPublicKey,omitempty"`

	// Endpoints are where the remote cluster can call it, best first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Endpoints []Endpoint `json:"endpoints,omitempty"`

	// InternalAddresses are its addresses on the overlay.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	InternalAddresses []IP `json:"internalAddresses,omitempty"`

	// ExternalAddresses are how it appears to the remote cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	ExternalAddresses []IP `json:"externalAddresses,omitempty"`

	// PodAddresses are those of its pod, which nodes send their frames to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	PodAddresses []IP `json:"podAddresses,omitempty"`

	// Node is the name of the node it runs on.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`

	// MTU is the largest IP packet that it carries, in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// Mappings are the AddressMappings that it serves.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Mappings []ServedMapping `json:"mappings,omitempty"`
}

// MaxMappings is how many AddressMappings a gateway serves, so that its status holds
// them all.
const MaxMappings = 256

// ServedMapping is an AddressMapping that a gateway serves.
type ServedMapping struct {
	// Name is the name of the AddressMapping.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Generation is that of the spec that is served.
	Generation int64 `json:"generation"`
}

// Announcement is what the remote cluster says of itself. It is in force while the spec
// grants all of it; of several, the latest is.
type Announcement struct {
	// HeardBy is the name of this cluster's gateway that was told.
	// +kubebuilder:validation:MaxLength=63
	HeardBy string `json:"heardBy"`

	// HeardAt is when this was told first.
	// +optional
	HeardAt *metav1.MicroTime `json:"heardAt,omitempty"`

	// ClusterID is the remote cluster's ID.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`

	// Prefixes are the ranges of its pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Prefixes []CIDR `json:"prefixes,omitempty"`

	// ExternalPrefixes are the ranges under which it shows what are no pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ExternalPrefixes []CIDR `json:"externalPrefixes,omitempty"`

	// Gateways are all its gateways of the peering.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Gateways []AnnouncedGateway `json:"gateways,omitempty"`

	// Superseded are the keys of spec.peers that are trusted no more, since it does not
	// name them. One that is written to the spec later is trusted beside it, until the
	// remote cluster announces itself again without it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Superseded []PublicKey `json:"superseded,omitempty"`

	// Refused says why a later announcement was not taken; empty if none was refused
	// since.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Refused string `json:"refused,omitempty"`

	// Refusal is why the remote cluster does not take what this gateway announces; empty
	// if it does.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Refusal string `json:"refusal,omitempty"`

	// Skew says which versions of the protocol the gateways of the two clusters speak, where
	// they have none in common; empty where they have.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Skew string `json:"skew,omitempty"`
}

// AnnouncedGateway is a gateway of the remote cluster.
type AnnouncedGateway struct {
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// PublicKeys are those it has, newest first.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	PublicKeys []PublicKey `json:"publicKeys"`

	// Endpoints are where it can be called, best first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// LinkStatus is the tunnel between a gateway of this cluster and one of the other.
type LinkStatus struct {
	// Local is the name of this cluster's gateway.
	// +kubebuilder:validation:MaxLength=63
	Local string `json:"local"`

	// Remote is the name of the remote cluster's gateway.
	// +kubebuilder:validation:MaxLength=63
	Remote string `json:"remote"`

	// Up is true while probes cross both ways.
	Up bool `json:"up"`

	// PathMTU is the size of the largest packet that crosses, in bytes, of those that are
	// to cross. Left out while none of full size does.
	// +optional
	PathMTU int32 `json:"pathMTU,omitempty"`

	// RTT is the round-trip time of probes through the tunnel.
	// +optional
	// +kubebuilder:validation:Type=string
	RTT *metav1.Duration `json:"rtt,omitempty"`

	// LastHandshake is when keys were last agreed on. On a link with traffic that is less
	// than three minutes ago.
	// +optional
	LastHandshake *metav1.Time `json:"lastHandshake,omitempty"`

	// Endpoint is where the remote gateway answers from.
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`
}
