package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Peering joins this cluster to one remote cluster. It contains public data only, so it can
// be stored in Git. The remote cluster has its own Peering for this cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=peer,categories=strait
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="ENDPOINT",type=string,JSONPath=`.status.summary.endpoint`
// +kubebuilder:printcolumn:name="REMOTE-CIDR",type=string,JSONPath=`.status.summary.remoteCIDRs`
// +kubebuilder:printcolumn:name="SEEN-AS",type=string,JSONPath=`.status.summary.seenAs`
// +kubebuilder:printcolumn:name="MTU",type=integer,JSONPath=`.status.mtu`
// +kubebuilder:printcolumn:name="CLUSTER",type=string,JSONPath=`.status.clusterID`,priority=1
// +kubebuilder:printcolumn:name="NODE",type=string,JSONPath=`.spec.borrow.nodeName`,priority=1
// +kubebuilder:printcolumn:name="LENT",type=string,JSONPath=`.spec.lend.namespaces`,priority=1
// +kubebuilder:printcolumn:name="WHY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",fieldPath=".metadata",message="the name of a peering is part of other names: use up to 40 lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit"
type Peering struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +required
	Spec PeeringSpec `json:"spec,omitzero"`
	// +optional
	Status PeeringStatus `json:"status,omitzero"`
}

// PeeringSpec is the desired state of a Peering.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterID) || has(self.clusterID) && self.clusterID == oldSelf.clusterID",fieldPath=".clusterID",message="the cluster of a peering is immutable: delete the peering and create one for the other cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.prefixes) || !has(self.externalPrefixes) || self.prefixes.all(a, self.externalPrefixes.all(b, !isCIDR(a.cidr) || !isCIDR(b.cidr) || !cidr(a.cidr).containsIP(cidr(b.cidr).ip()) && !cidr(b.cidr).containsIP(cidr(a.cidr).ip())))",fieldPath=".externalPrefixes",message="prefixes and externalPrefixes overlap in cidr: list each address of the remote cluster once"
// +kubebuilder:validation:XValidation:rule="!has(self.prefixes) || !has(self.externalPrefixes) || self.prefixes.all(a, self.externalPrefixes.all(b, !has(a.seenAs) || !has(b.seenAs) || !isCIDR(a.seenAs) || !isCIDR(b.seenAs) || !cidr(a.seenAs).containsIP(cidr(b.seenAs).ip()) && !cidr(b.seenAs).containsIP(cidr(a.seenAs).ip())))",fieldPath=".externalPrefixes",message="prefixes and externalPrefixes overlap in seenAs: use disjoint CIDRs of this cluster"
type PeeringSpec struct {
	// ClusterID is the remote cluster's ID. It is immutable once set. If empty, the ID of
	// the first announcement is used.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`

	// Prefixes are the CIDRs of the remote cluster's pods, until it announces others
	// through the tunnel. Packets from other sources are dropped, except those from its
	// external prefixes.
	// +optional
	Prefixes RemotePrefixes `json:"prefixes,omitempty"`

	// ExternalPrefixes are the CIDRs of the remote cluster's external addresses: of its
	// nodes, its gateways and the hosts that it maps.
	// +optional
	ExternalPrefixes RemotePrefixes `json:"externalPrefixes,omitempty"`

	// AcceptPrefixes are the CIDRs within which the remote cluster may announce prefixes
	// through the tunnel, in addition to those listed above: for when its CIDRs change, or
	// are not known yet. An announcement with any prefix outside of them is rejected as a
	// whole. If empty, no other prefixes are accepted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	AcceptPrefixes []AcceptedCIDR `json:"acceptPrefixes,omitempty"`

	// Peers are the remote cluster's gateways, until it announces others through the
	// tunnel. Announcements are accepted only from these gateways.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.publicKey == b.publicKey))",message="two peers have the same public key: use a separate key pair for each gateway"
	Peers []Peer `json:"peers,omitempty"`

	// LocalPods lets the remote cluster reach all pods of this cluster, and these pods
	// reach the remote cluster: the CIDRs in status.podCIDRs of the ClusterNetwork, as they
	// change.
	// +optional
	LocalPods bool `json:"localPods,omitempty"`

	// LocalPrefixes are the CIDRs of pods of this cluster that the remote cluster may
	// reach, and that may reach it. An empty list grants nothing in addition to localPods.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	LocalPrefixes []CIDR `json:"localPrefixes,omitempty"`

	// LocalNodes is Allow if the remote cluster may open connections to the nodes of this
	// cluster, which then reach every process of a node: kubelet, SSH, NodePorts. With Deny, it
	// may only answer connections that a node opened.
	// +optional
	// +kubebuilder:default=Deny
	// +kubebuilder:validation:Enum=Deny;Allow
	LocalNodes LocalNodes `json:"localNodes,omitempty"`

	// Services limits which Services the remote cluster may export to this cluster.
	// +optional
	// +kubebuilder:default={}
	Services PeeringServices `json:"services,omitzero"`

	// Lend lets pods of the remote cluster run in this one. If empty, none do.
	// +optional
	Lend *PeeringLend `json:"lend,omitempty"`

	// Borrow lets pods of this cluster run in the remote one. If empty, none do.
	// +optional
	Borrow *PeeringBorrow `json:"borrow,omitempty"`

	// InviteUntil is set if this cluster accepted an invite: until that time its gateways
	// may also use the temporary key of the invite, from the Secret of the invite.
	// +optional
	InviteUntil *metav1.Time `json:"inviteUntil,omitempty"`

	// Gateway configures this cluster's gateways for the peering.
	// +optional
	// +kubebuilder:default={}
	Gateway GatewaySpec `json:"gateway,omitzero"`
}

// LocalNodes is whether a remote cluster may open connections to the nodes of this cluster.
type LocalNodes string

// The values of LocalNodes. The empty one means Deny.
const (
	LocalNodesDeny  LocalNodes = "Deny"
	LocalNodesAllow LocalNodes = "Allow"
)

// RemotePrefixes are CIDRs of the remote cluster. They must not overlap, neither in cidr
// nor in seenAs.
//
// +listType=map
// +listMapKey=cidr
// +kubebuilder:validation:MaxItems=64
// +kubebuilder:validation:XValidation:rule="self.all(a, !isCIDR(a.cidr) || self.exists_one(b, isCIDR(b.cidr) && (cidr(a.cidr).containsIP(cidr(b.cidr).ip()) || cidr(b.cidr).containsIP(cidr(a.cidr).ip()))))",message="overlap: list each address of the remote cluster once",messageExpression="'%s overlap: list each address of the remote cluster once'.format([self.filter(a, isCIDR(a.cidr) && !self.exists_one(b, isCIDR(b.cidr) && (cidr(a.cidr).containsIP(cidr(b.cidr).ip()) || cidr(b.cidr).containsIP(cidr(a.cidr).ip())))).map(a, a.cidr)])"
// +kubebuilder:validation:XValidation:rule="self.all(a, !has(a.seenAs) || !isCIDR(a.seenAs) || self.exists_one(b, has(b.seenAs) && isCIDR(b.seenAs) && (cidr(a.seenAs).containsIP(cidr(b.seenAs).ip()) || cidr(b.seenAs).containsIP(cidr(a.seenAs).ip()))))",message="overlap: use disjoint CIDRs of this cluster",messageExpression="'%s overlap: use disjoint CIDRs of this cluster'.format([self.filter(a, has(a.seenAs) && isCIDR(a.seenAs) && !self.exists_one(b, has(b.seenAs) && isCIDR(b.seenAs) && (cidr(a.seenAs).containsIP(cidr(b.seenAs).ip()) || cidr(b.seenAs).containsIP(cidr(a.seenAs).ip())))).map(a, a.seenAs)])"
type RemotePrefixes []RemotePrefix

// RemotePrefix is one CIDR of the remote cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.seenAs) || !isCIDR(self.cidr) || !isCIDR(self.seenAs) || cidr(self.cidr).prefixLength() == cidr(self.seenAs).prefixLength() && cidr(self.cidr).ip().family() == cidr(self.seenAs).ip().family()",fieldPath=".seenAs",message="use a CIDR of the same IP family and length as cidr",messageExpression="'%s cannot be mapped one to one to %s: use a CIDR of the same IP family and length as cidr'.format([self.seenAs, self.cidr])"
type RemotePrefix struct {
	// CIDR is the CIDR in the remote cluster.
	CIDR CIDR `json:"cidr"`

	// SeenAs is the CIDR that it is mapped to in this cluster, of the same IP family and
	// length; host bits are kept. If empty, it is cidr itself where that is free in this
	// cluster, otherwise a CIDR from the remap pools. A CIDR that the remote cluster
	// announces and that lies in no listed one is always mapped to the remap pools.
	// +optional
	SeenAs CIDR `json:"seenAs,omitempty"`
}

// Peer is one gateway of the remote cluster.
type Peer struct {
	// Name is the name of the gateway in the remote cluster.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="is not the name of a gateway: use up to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit"
	Name string `json:"name"`

	// PublicKey is the gateway's WireGuard public key in base64.
	PublicKey PublicKey `json:"publicKey"`

	// Endpoint is the gateway's host:port, where host is a DNS name or an address, IPv6 in
	// brackets. If empty, this cluster waits for the gateway to initiate the connection.
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`

	// PresharedKeySecretName is the name of a Secret in the namespace of the gateways
	// (strait-gateways by default) whose key presharedKey is 32 bytes in base64, as `wg
	// genpsk` prints them. Both clusters need the same preshared key.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="is not the name of a Secret: store the key in a Secret in the namespace of the gateways and set the Secret's name; if this value is the key itself, replace the key"
	PresharedKeySecretName string `json:"presharedKeySecretName,omitempty"`

	// NotAfter is the time after which the peer is rejected. It is set for the temporary
	// key of an invite, which also ends with the first announcement. If empty, the peer
	// does not expire.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`

	// PersistentKeepalive is the interval of WireGuard keepalive packets, which keep NAT
	// mappings on the path open: whole seconds; 25s is usual. If empty or 0s, none are
	// sent.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$') && size(self) > 0 && duration(self) <= duration('65535s')",message="is not a keepalive interval: use whole seconds from 0s (off) to 65535s"
	PersistentKeepalive *metav1.Duration `json:"persistentKeepalive,omitempty"`
}

// PeeringServices limits the Services that a remote cluster exports to this cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.namespaces) || self.importFrom == 'Listed'",fieldPath=".namespaces",message="namespaces are used only with importFrom: Listed"
type PeeringServices struct {
	// ImportFrom selects the namespaces whose exports are imported: Existing for all
	// namespaces that exist in this cluster, Listed for those in namespaces, None to import
	// nothing. A Service is always imported into the namespace of its own name.
	// +optional
	// +kubebuilder:default=Existing
	// +kubebuilder:validation:Enum=Existing;Listed;None
	ImportFrom ImportFrom `json:"importFrom,omitempty"`

	// Namespaces are those of importFrom: Listed. An empty list imports nothing.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`

	// AllowedMetadata are the keys of the exported labels and annotations that an imported
	// Service gets, like example.com/team; example.com/* stands for all keys of a domain.
	// Those of Strait, of Kubernetes and of tools that would act on the object are never
	// among them. An empty list allows none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([a-z0-9][-a-z0-9.]*/[*]|([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$')",message="is not a key of labels and annotations: write one like tier or example.com/team, or example.com/* for all keys of a domain"
	AllowedMetadata []string `json:"allowedMetadata,omitempty"`

	// MaxServices and MaxEndpoints limit what is imported. What exceeds them is refused, and
	// status.services says so.
	// +optional
	// +kubebuilder:default=2000
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MaxServices *int32 `json:"maxServices,omitempty"`
	// +optional
	// +kubebuilder:default=50000
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=250000
	MaxEndpoints *int32 `json:"maxEndpoints,omitempty"`

	// MaxBytes limits the size of all that is imported: of names, ports, labels, annotations
	// and endpoints. The controller needs about four times as much memory.
	// +optional
	// +kubebuilder:default=8388608
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=134217728
	MaxBytes *int32 `json:"maxBytes,omitempty"`
}

// ImportFrom selects the namespaces whose exports are imported.
type ImportFrom string

// The values of ImportFrom. The empty one means Existing.
const (
	ImportExisting ImportFrom = "Existing"
	ImportListed   ImportFrom = "Listed"
	ImportNone     ImportFrom = "None"
)

// GatewaySpec configures the gateways of a peering in this cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.service.nodePort) || self.service.nodePort > 65535 || self.service.nodePort + self.?replicas.orValue(2) <= 65536",fieldPath=".service.nodePort",message="the node ports of the gateways that follow it end above 65535: use a lower port"
type GatewaySpec struct {
	// Replicas is the number of gateways. Each has its own key pair and, if it accepts
	// connections, its own endpoint.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 16",message="is out of range: use 1 to 16; to have no gateways, delete the peering"
	Replicas int32 `json:"replicas,omitempty"`

	// Service exposes the gateways to those of the remote cluster.
	// +optional
	// +kubebuilder:default={}
	Service GatewayService `json:"service,omitzero"`

	// KeyGeneration is incremented to rotate the key pair of each gateway. The old key
	// stays in use until the remote cluster uses the new one, so that no packet is lost.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1000000",message="is out of range: use 1 to 1000000"
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="cannot decrease: old keys are not used again; increment it to rotate keys"
	KeyGeneration int32 `json:"keyGeneration,omitempty"`

	// Resources are the resource requirements of each gateway's container. If empty, those
	// of the installation apply.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// NodeSelector selects the nodes for the gateways, in addition to that of the
	// installation; for a key of both, this value applies.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Tolerations of the gateways' pods, in addition to those of the installation.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// GatewayService configures the Service of each gateway.
//
// +kubebuilder:validation:XValidation:rule="!has(self.nodePort) || self.type != 'ClusterIP'",fieldPath=".nodePort",message="a ClusterIP Service has no node port: remove nodePort, or use type NodePort or LoadBalancer"
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",fieldPath=".loadBalancerClass",message="only a LoadBalancer Service has a class: remove loadBalancerClass, or use type LoadBalancer"
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerSourceRanges) || self.type == 'LoadBalancer'",fieldPath=".loadBalancerSourceRanges",message="only a LoadBalancer Service has source ranges: remove loadBalancerSourceRanges, or use type LoadBalancer"
// +kubebuilder:validation:XValidation:rule="!has(self.healthPort) || self.type == 'LoadBalancer'",fieldPath=".healthPort",message="only a LoadBalancer Service has a health port: remove healthPort, or use type LoadBalancer"
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || self.type != 'ClusterIP'",fieldPath=".externalTrafficPolicy",message="a ClusterIP Service has no external traffic: remove externalTrafficPolicy, or use type NodePort or LoadBalancer"
type GatewayService struct {
	// Type is ClusterIP if this cluster only initiates connections, and NodePort or
	// LoadBalancer if it accepts connections from the remote cluster. At least one of the
	// two clusters must accept connections.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// Port is the UDP port of WireGuard on the Service.
	// +optional
	// +kubebuilder:default=51840
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="is not a port number: use 1 to 65535"
	Port int32 `json:"port,omitempty"`

	// NodePort is the UDP port of the first gateway on the nodes; further gateways use the
	// ports that follow. If empty, Kubernetes chooses.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="is not a port number: use 1 to 65535"
	NodePort *int32 `json:"nodePort,omitempty"`

	// HealthPort is an additional TCP port of a LoadBalancer Service, for providers whose
	// health checks need one: GET /healthz returns 200 while the gateway runs. It serves
	// nothing else. If empty, it is 8081 on providers that need it, and not there on others.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="is not a port number: use 1 to 65535"
	HealthPort *int32 `json:"healthPort,omitempty"`

	// Annotations are added to the Service, for the load balancer provider. If none of them
	// is of the cluster's provider, and loadBalancerClass is empty, those that a UDP port
	// needs there are added.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`

	// LoadBalancerClass selects one of several load balancer providers.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`

	// LoadBalancerSourceRanges are the CIDRs of the remote cluster's gateways, as this
	// cluster's load balancer sees them. Datagrams from others are dropped there, if the
	// provider supports it. If empty, all are accepted: WireGuard answers only known keys.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	LoadBalancerSourceRanges []CIDR `json:"loadBalancerSourceRanges,omitempty"`

	// ExternalTrafficPolicy is Local if only the gateway's own node accepts datagrams from
	// the remote cluster, which avoids a hop, or Cluster if every node does.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`

	// IPFamilyPolicy is that of the Service. If empty, it has one IP family.
	// +optional
	// +kubebuilder:validation:Enum=SingleStack;PreferDualStack;RequireDualStack
	IPFamilyPolicy *corev1.IPFamilyPolicy `json:"ipFamilyPolicy,omitempty"`

	// IPFamilies are those of the Service. If empty, Kubernetes chooses them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:Enum=IPv4;IPv6
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
}

// Resources are the resource requirements of a container.
type Resources struct {
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// PeeringList is a list of Peerings.
//
// +kubebuilder:object:root=true
type PeeringList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Peering `json:"items"`
}
