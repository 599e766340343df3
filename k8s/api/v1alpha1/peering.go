package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Peering joins this cluster to one other. It holds public data only, so that it may
// stand in Git; the other cluster has a Peering of its own for this one.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=peer,categories=strait
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="ENDPOINT",type=string,JSONPath=`.status.summary.endpoint`
// +kubebuilder:printcolumn:name="REMOTE-CIDR",type=string,JSONPath=`.status.summary.remoteCIDRs`
// +kubebuilder:printcolumn:name="SEEN-AS",type=string,JSONPath=`.status.summary.seenAs`
// +kubebuilder:printcolumn:name="RTT",type=string,JSONPath=`.status.summary.rtt`
// +kubebuilder:printcolumn:name="HANDSHAKE",type=date,JSONPath=`.status.summary.lastHandshake`
// +kubebuilder:printcolumn:name="MTU",type=integer,JSONPath=`.status.mtu`
// +kubebuilder:printcolumn:name="CLUSTER",type=string,JSONPath=`.status.clusterID`,priority=1
// +kubebuilder:printcolumn:name="WHY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",fieldPath=".metadata",message="the name of a peering becomes part of other names: use up to 40 lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit"
type Peering struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// +required
	Spec PeeringSpec `json:"spec,omitzero"`
	// +optional
	Status PeeringStatus `json:"status,omitzero"`
}

// PeeringSpec is what is wished for.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterID) || has(self.clusterID) && self.clusterID == oldSelf.clusterID",fieldPath=".clusterID",message="a peering stays with its cluster: delete it and create one for the other cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.prefixes) || !has(self.externalPrefixes) || self.prefixes.all(a, self.externalPrefixes.all(b, !isCIDR(a.cidr) || !isCIDR(b.cidr) || !cidr(a.cidr).containsCIDR(b.cidr) && !cidr(b.cidr).containsCIDR(a.cidr)))",fieldPath=".externalPrefixes",message="prefixes and externalPrefixes overlap in cidr: name each address of the remote cluster once"
// +kubebuilder:validation:XValidation:rule="!has(self.prefixes) || !has(self.externalPrefixes) || self.prefixes.all(a, self.externalPrefixes.all(b, !has(a.seenAs) || !has(b.seenAs) || !isCIDR(a.seenAs) || !isCIDR(b.seenAs) || !cidr(a.seenAs).containsCIDR(b.seenAs) && !cidr(b.seenAs).containsCIDR(a.seenAs)))",fieldPath=".externalPrefixes",message="prefixes and externalPrefixes overlap in seenAs: give each range one of its own in this cluster"
type PeeringSpec struct {
	// ClusterID is the remote cluster's ID. It cannot change once it is set. Left out, it
	// is the ID with which the remote cluster announces itself first.
	// +optional
	ClusterID ClusterID `json:"clusterID,omitempty"`

	// Prefixes are the ranges of the remote cluster's pods, until it announces others
	// through the tunnel. Nothing else is accepted from it, but for its external
	// prefixes.
	// +optional
	Prefixes RemotePrefixes `json:"prefixes,omitempty"`

	// ExternalPrefixes are the ranges under which the remote cluster shows what are no
	// pods: its nodes, its gateways and hosts that it maps.
	// +optional
	ExternalPrefixes RemotePrefixes `json:"externalPrefixes,omitempty"`

	// AcceptPrefixes are the ranges within which the remote cluster may announce prefixes
	// of its own through the tunnel, beside those named above: when its ranges change, or
	// when they are not known yet. What it announces outside of them is refused as a
	// whole. Left out, it may announce no others.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	AcceptPrefixes []CIDR `json:"acceptPrefixes,omitempty"`

	// Peers are the remote cluster's gateways, until it announces others through the
	// tunnel. An announcement can only come from one of them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.publicKey == b.publicKey))",message="two peers have one public key: give each gateway a key pair of its own"
	Peers []Peer `json:"peers,omitempty"`

	// LocalPods lets the remote cluster reach all pods of this cluster, and the other way
	// round: the ranges in status.podCIDRs of the ClusterNetwork, as they are at any time.
	// +optional
	LocalPods bool `json:"localPods,omitempty"`

	// LocalPrefixes are the pods of this cluster that the remote cluster may reach, and
	// that may reach it. An empty list grants nothing beside localPods.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	LocalPrefixes []CIDR `json:"localPrefixes,omitempty"`

	// InviteUntil is set where this cluster was invited: until then its gateways may also
	// use the temporary key of the invite, from the Secret of the peering's invite.
	// +optional
	InviteUntil *metav1.Time `json:"inviteUntil,omitempty"`

	// Gateway is how this cluster's gateways for the peering run.
	// +optional
	// +kubebuilder:default={}
	Gateway GatewaySpec `json:"gateway,omitzero"`
}

// RemotePrefixes are ranges of the remote cluster. None overlaps another, neither
// there nor here.
//
// +listType=map
// +listMapKey=cidr
// +kubebuilder:validation:MaxItems=64
// +kubebuilder:validation:XValidation:rule="self.all(a, !isCIDR(a.cidr) || self.exists_one(b, isCIDR(b.cidr) && (cidr(a.cidr).containsCIDR(b.cidr) || cidr(b.cidr).containsCIDR(a.cidr))))",message="overlap: name each address of the remote cluster once",messageExpression="'%s overlap: name each address of the remote cluster once'.format([self.filter(a, isCIDR(a.cidr) && !self.exists_one(b, isCIDR(b.cidr) && (cidr(a.cidr).containsCIDR(b.cidr) || cidr(b.cidr).containsCIDR(a.cidr)))).map(a, a.cidr)])"
// +kubebuilder:validation:XValidation:rule="self.all(a, !has(a.seenAs) || !isCIDR(a.seenAs) || self.exists_one(b, has(b.seenAs) && isCIDR(b.seenAs) && (cidr(a.seenAs).containsCIDR(b.seenAs) || cidr(b.seenAs).containsCIDR(a.seenAs))))",message="overlap: give each range one of its own in this cluster",messageExpression="'%s overlap: give each range one of its own in this cluster'.format([self.filter(a, has(a.seenAs) && isCIDR(a.seenAs) && !self.exists_one(b, has(b.seenAs) && isCIDR(b.seenAs) && (cidr(a.seenAs).containsCIDR(b.seenAs) || cidr(b.seenAs).containsCIDR(a.seenAs)))).map(a, a.seenAs)])"
type RemotePrefixes []RemotePrefix

// RemotePrefix is one range of the remote cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.seenAs) || !isCIDR(self.cidr) || !isCIDR(self.seenAs) || cidr(self.cidr).prefixLength() == cidr(self.seenAs).prefixLength() && cidr(self.cidr).ip().family() == cidr(self.seenAs).ip().family()",fieldPath=".seenAs",message="use a range of the family and length of cidr",messageExpression="'%s cannot stand for %s one to one: use a range of the family and length of cidr'.format([self.seenAs, self.cidr])"
type RemotePrefix struct {
	// CIDR is the range as the remote cluster knows it.
	CIDR CIDR `json:"cidr"`

	// SeenAs is the range as this cluster knows it: of the same family and length, host
	// bits are kept. Left out, it is the same as cidr where that is free in this cluster,
	// and else one from the remap pools.
	// +optional
	SeenAs CIDR `json:"seenAs,omitempty"`
}

// Peer is one gateway of the remote cluster.
type Peer struct {
	// Name is the name of the gateway in the remote cluster.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="is not the name of a gateway: use up to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit"
	Name string `json:"name"`

	// PublicKey is its WireGuard public key in base64.
	PublicKey PublicKey `json:"publicKey"`

	// Endpoint is its host:port, where host is a name or an address, IPv6 in brackets.
	// Left out, this cluster waits for the gateway to call.
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`

	// PresharedKeySecretName names the Secret in the gateways' namespace whose key
	// presharedKey is 32 bytes in base64, as `wg genpsk` prints them. Both sides need
	// the same.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="is not the name of a Secret: put the key into a Secret in the gateways' namespace and name that here; replace the key if it stood here"
	PresharedKeySecretName string `json:"presharedKeySecretName,omitempty"`

	// NotAfter is when the peer stops being accepted: for the temporary key of an invite,
	// which ends with the first announcement besides. Left out, it has no end.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`

	// PersistentKeepalive is how often to send something when there is nothing to send,
	// so that NAT on the way keeps the path open: whole seconds, 25s is usual. Left out
	// or 0s, nothing is sent.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$') && size(self) > 0 && duration(self) <= duration('65535s')",message="is not a keepalive interval: use whole seconds from 0s (off) to 65535s"
	PersistentKeepalive *metav1.Duration `json:"persistentKeepalive,omitempty"`
}

// GatewaySpec is how the gateways of a peering run in this cluster.
type GatewaySpec struct {
	// Replicas is the number of gateways. Each has a key pair and an endpoint of its own.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 16",message="is not a number of gateways: use 1 to 16, or delete the peering to have none"
	Replicas int32 `json:"replicas,omitempty"`

	// Service is how the remote cluster's gateways reach these.
	// +optional
	// +kubebuilder:default={}
	Service GatewayService `json:"service,omitzero"`

	// KeyGeneration is raised to give each gateway a new key pair. The old one stays in
	// use until the remote cluster uses the new one, so that no packet is lost.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1000000",message="is not a generation of keys: use 1 to 1000000"
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="old keys do not come back: raise it to have new ones"
	KeyGeneration int32 `json:"keyGeneration,omitempty"`

	// Resources of each gateway's container. Left out, they are those of the
	// installation.
	// +optional
	Resources *Resources `json:"resources,omitempty"`
}

// GatewayService is the Service in front of each gateway.
//
// +kubebuilder:validation:XValidation:rule="!has(self.nodePort) || self.type != 'ClusterIP'",fieldPath=".nodePort",message="a ClusterIP Service has no node port: leave nodePort out, or use type NodePort or LoadBalancer"
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",fieldPath=".loadBalancerClass",message="only a LoadBalancer Service has a class: leave loadBalancerClass out, or use type LoadBalancer"
type GatewayService struct {
	// Type is ClusterIP where this side calls and nobody calls it, and NodePort or
	// LoadBalancer where the remote cluster calls. One of the two sides must be called.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// Port is the UDP port of WireGuard.
	// +optional
	// +kubebuilder:default=51840
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="is not a port: use 1 to 65535"
	Port int32 `json:"port,omitempty"`

	// NodePort fixes the first gateway's UDP port on the nodes; the next gateways take
	// the ports that follow. Left out, the cluster chooses.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="is not a port: use 1 to 65535"
	NodePort *int32 `json:"nodePort,omitempty"`

	// Annotations of the Service, for what provides load balancers.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`

	// LoadBalancerClass chooses among several providers of load balancers.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`
}

// Resources are those of a container.
type Resources struct {
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// PeeringList is a list of them.
//
// +kubebuilder:object:root=true
type PeeringList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Peering `json:"items"`
}
