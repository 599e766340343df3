package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GatewayReport is what one gateway reports about itself: its keys, its links, and what the
// remote cluster announced to it. It has the name and the namespace of the gateway's pod,
// is written by that pod only, and is deleted with it. The controller copies to the status
// of the Peering what nodes and the remote cluster need; a report counts for the pod's own
// Peering only.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=gwreport,categories=strait
// +kubebuilder:printcolumn:name="PEERING",type=string,JSONPath=`.status.peering`
// +kubebuilder:printcolumn:name="LINKS-UP",type=string,JSONPath=`.status.summary.linksUp`
// +kubebuilder:printcolumn:name="ENDPOINT",type=string,JSONPath=`.status.summary.endpoint`
// +kubebuilder:printcolumn:name="RTT",type=string,JSONPath=`.status.summary.rtt`
// +kubebuilder:printcolumn:name="HANDSHAKE",type=date,JSONPath=`.status.summary.lastHandshake`
// +kubebuilder:printcolumn:name="MTU",type=integer,JSONPath=`.status.mtu`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.status) || self.metadata.name.startsWith(self.status.peering + '-') && size(self.metadata.name) <= size(self.status.peering) + 3",fieldPath=".status.peering",message="is not the Peering of this gateway: the name of a gateway is that of its Peering with a number"
type GatewayReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +optional
	Status GatewayReportStatus `json:"status,omitzero"`
}

// GatewayReportStatus is the observed state of a gateway.
type GatewayReportStatus struct {
	// Peering is the name of the gateway's Peering.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`
	Peering string `json:"peering"`

	// PublicKey is the WireGuard public key that the gateway uses, in base64.
	// +optional
	PublicKey PublicKey `json:"publicKey,omitempty"`

	// KeyGeneration is the generation of the public key.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	KeyGeneration int32 `json:"keyGeneration,omitempty"`

	// NextPublicKey is the key that replaces the public key as soon as the remote cluster
	// uses it.
	// +optional
	NextPublicKey PublicKey `json:"nextPublicKey,omitempty"`

	// MTU is the size of the largest IP packet that the gateway carries, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	MTU int32 `json:"mtu,omitempty"`

	// Announcement is what the remote cluster announced to this gateway.
	// +optional
	Announcement *Announcement `json:"announcement,omitempty"`

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

	// RevisionInEffect is the revision of this cluster's announcement that the remote cluster
	// has in effect, if it did not accept the one that the gateway sent because it is not
	// newer. 0 otherwise.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4611686018427387904
	RevisionInEffect int64 `json:"revisionInEffect,omitempty"`

	// Skew describes the protocol versions of the gateways of the two clusters if they have
	// none in common; empty otherwise.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Skew string `json:"skew,omitempty"`

	// Services is the state of the exports that this gateway receives. It is not set if the
	// gateway is not the receiver of its Peering.
	// +optional
	Services *ServicesReport `json:"services,omitempty"`

	// Links are the tunnels of this gateway, one for each gateway of the remote cluster.
	// While a key is rotated, there is one for each pair of keys.
	// +optional
	// +listType=map
	// +listMapKey=remote
	// +kubebuilder:validation:MaxItems=256
	Links []LinkStatus `json:"links,omitempty"`

	// Mappings are the AddressMappings that the gateway serves.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Mappings []ServedMapping `json:"mappings,omitempty"`

	// Summary is what kubectl get prints. (Printer columns can show only the first item of
	// a list.)
	// +optional
	Summary GatewaySummary `json:"summary,omitzero"`
}

// ServicesReport is the state of the exports that a gateway receives from a remote cluster.
type ServicesReport struct {
	// From is the remote gateway that sends them. Empty: none does.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	From string `json:"from,omitempty"`

	// Synced means that the ReceivedServices contain all exports of the remote cluster that
	// were valid.
	// +optional
	Synced bool `json:"synced,omitempty"`

	// Received is the number of Services.
	Received int32 `json:"received"` // required, see PeeringServicesStatus

	// Refused is the number of Services that are malformed or exceed the limits of the Peering.
	// +optional
	Refused int32 `json:"refused,omitempty"`

	// Message says why exports are refused, or why none are received.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// GatewaySummary is the state of a gateway's links in one line.
type GatewaySummary struct {
	// LinksUp is the number of links that are up, and of all, like 2/2.
	// +optional
	// +kubebuilder:validation:MaxLength=7
	LinksUp string `json:"linksUp,omitempty"`

	// RTT is the shortest round-trip time of the links that are up.
	// +optional
	// +kubebuilder:validation:Type=string
	RTT *metav1.Duration `json:"rtt,omitempty"`

	// Endpoint is the address from which the remote gateway of that link answers.
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`

	// LastHandshake is the latest handshake of all links.
	// +optional
	LastHandshake *metav1.Time `json:"lastHandshake,omitempty"`
}

// LinkStatus is the state of the tunnel between a gateway of this cluster and a gateway of
// the remote cluster.
type LinkStatus struct {
	// Remote is the name of the remote cluster's gateway. Further links to it, with other
	// keys, have a number after it, like a-0.2.
	// +kubebuilder:validation:MaxLength=67
	Remote string `json:"remote"`

	// Up is true while probes pass in both directions.
	Up bool `json:"up"`

	// PathMTU is the size of the largest probe packet that passed, in bytes, up to the MTU
	// of the peering. Empty while no packet of full size passes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
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

// MaxMappings is the maximum number of AddressMappings that a gateway serves, so that its
// report can list them all.
const MaxMappings = 256

// ServedMapping is an AddressMapping that a gateway serves.
type ServedMapping struct {
	// Name is the name of the AddressMapping.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Generation is the generation of the spec that is served.
	Generation int64 `json:"generation"`
}

// GatewayReportList is a list of GatewayReports.
//
// +kubebuilder:object:root=true
type GatewayReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GatewayReport `json:"items"`
}
