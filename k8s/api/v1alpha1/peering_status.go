package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PeeringStatus is the observed state of a Peering. Only the controller writes it. Every
// node and every gateway watches it, so it has no measurements: at rest it does not change.
// What gateways measure is in their GatewayReports.
type PeeringStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ClusterID is the remote cluster's ID, from the spec or from its announcement. It is empty while another Peering
	// has this ID.
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

	// Announcement is what the remote cluster announced through the tunnel, from whichever
	// gateway received it. It stays when gateways are replaced.
	// +optional
	Announcement *Announcement `json:"announcement,omitempty"`

	// Announced is what this cluster announces to the remote cluster. All its gateways send
	// the same.
	// +optional
	Announced *Announcement `json:"announced,omitempty"`

	// MTU is the size of the largest IP packet that the peering carries, in bytes.
	// +optional
	MTU int32 `json:"mtu,omitempty"`

	// Services is the state of imports from the remote cluster.
	// +optional
	Services *PeeringServicesStatus `json:"services,omitempty"`

	// LoadBalancer is the provider whose annotations were added to the gateways' Services:
	// aws, digitalocean or gce. Empty: none were added.
	// +optional
	LoadBalancer string `json:"loadBalancer,omitempty"`

	// Summary is what kubectl get prints. (Printer columns can show only the first item of
	// a list.)
	// +optional
	Summary PeeringSummary `json:"summary,omitzero"`

	// Conditions: Ready, Announced, CIDRConflict, TunnelUp, Routed, PathMTU, GatewaysUp and
	// GatewaysUpdated.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PeeringServicesStatus is the state of imports from a remote cluster.
type PeeringServicesStatus struct {
	// Receiver is the gateway that receives the exports of the remote cluster: one with a
	// link that is up, and the same one while it has such a link.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Receiver string `json:"receiver,omitempty"`

	// Imported is the number of the remote cluster's Services that are imported.
	Imported int32 `json:"imported"` // required: an object that loses its last field when it is applied becomes null, which is invalid

	// Refused is the number of Services that are not imported because they are not permitted or
	// not supported.
	// +optional
	Refused int32 `json:"refused,omitempty"`

	// Failed is the number of Services that this cluster could not import.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// Message names Services that are refused or failed, and why.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// PeeringSummary is the status in one line.
type PeeringSummary struct {
	// Endpoint is the first endpoint at which this cluster contacts the remote cluster; empty
	// if it only accepts connections.
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`

	// RemoteCIDRs are the CIDRs of the remote cluster's pods, separated by commas.
	// +optional
	RemoteCIDRs string `json:"remoteCIDRs,omitempty"`

	// SeenAs are the CIDRs that they are mapped to in this cluster, in the same order.
	// +optional
	SeenAs string `json:"seenAs,omitempty"`
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

	// KeySince is when the controller first saw the gateway use the public key.
	// +optional
	KeySince *metav1.Time `json:"keySince,omitempty"`

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

	// LinkUp is true while the gateway is ready and has a link to the remote cluster that is
	// up.
	// +optional
	LinkUp bool `json:"linkUp,omitempty"`
}

// Announcement is what a cluster announces about itself. That of the remote cluster is in
// effect while the spec grants all of it. Of several, the one with the highest revision is
// in effect.
type Announcement struct {
	// Revision is issued by the controller of the announcing cluster: a change gets a higher
	// one.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4611686018427387904
	Revision int64 `json:"revision"`

	// HeardAt is the time when this announcement was first received.
	// +optional
	HeardAt *metav1.MicroTime `json:"heardAt,omitempty"`

	// Offload is what the remote cluster announces about the agents with which pods of one of
	// the two clusters run in the other.
	// +optional
	Offload *AnnouncedOffload `json:"offload,omitempty"`

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
