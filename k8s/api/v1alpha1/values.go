package v1alpha1

// CIDR is a prefix in canonical form, like 10.0.0.0/16 or fd00:10::/48: host bits are zero,
// the prefix length is at least 8 (IPv4) or 16 (IPv6), and it contains only ordinary
// unicast addresses.
//
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="is not a prefix: write one like 10.0.0.0/16 or fd00:10::/48"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || string(cidr(self).masked()) == self",message="is not in canonical form",messageExpression="'is not in canonical form: write %s'.format([string(cidr(self).masked())])"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).prefixLength() >= (cidr(self).ip().family() == 4 ? 8 : 16)",message="is too wide: use /8 or longer for IPv4, /16 or longer for IPv6"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3', '::/127', 'fe80::/10', 'ff00::/8'].all(special, !cidr(special).containsIP(cidr(self).ip()) && !cidr(self).containsIP(cidr(special).ip()))",message="contains unspecified, loopback, link-local, multicast or reserved addresses: choose ordinary unicast addresses"
type CIDR string

// AcceptedCIDR is a prefix in canonical form, like 10.0.0.0/8 or fd00::/8, the private
// addresses of IPv6 (RFC 4193): host bits are zero, the prefix length is at least 8, and it
// contains only ordinary unicast addresses.
//
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="is not a prefix: write one like 10.0.0.0/16 or fd00:10::/48"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || string(cidr(self).masked()) == self",message="is not in canonical form",messageExpression="'is not in canonical form: write %s'.format([string(cidr(self).masked())])"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).prefixLength() >= 8",message="is too wide: use /8 or longer"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3', '::/127', 'fe80::/10', 'ff00::/8'].all(special, !cidr(special).containsIP(cidr(self).ip()) && !cidr(self).containsIP(cidr(special).ip()))",message="contains unspecified, loopback, link-local, multicast or reserved addresses: choose ordinary unicast addresses"
type AcceptedCIDR string

// SourceRange is a prefix in canonical form of any length. 0.0.0.0/0 and ::/0 match every
// source.
//
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="is not a prefix: write one like 198.51.100.0/24, or 0.0.0.0/0 for every source"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || string(cidr(self).masked()) == self",message="is not in canonical form",messageExpression="'is not in canonical form: write %s'.format([string(cidr(self).masked())])"
type SourceRange string

// IP is one address in canonical form, like 10.80.0.11 or fd00:80::11: an ordinary
// unicast address without a zone.
//
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="is not an address: write one like 10.80.0.11 or fd00:80::11"
// +kubebuilder:validation:XValidation:rule="!isIP(self) || ip.isCanonical(self)",message="is not in canonical form",messageExpression="'is not in canonical form: write %s'.format([string(ip(self))])"
// +kubebuilder:validation:XValidation:rule="!isIP(self) || !['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3', '::/127', 'fe80::/10', 'ff00::/8'].exists(special, cidr(special).containsIP(ip(self)))",message="is an unspecified, loopback, link-local, multicast or reserved address: choose an ordinary unicast address"
type IP string

// ClusterID identifies a cluster among the joined clusters: an RFC 1123 label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="is not a cluster ID: use up to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit"
type ClusterID string

// PublicKey is a WireGuard public key in base64, as `wg pubkey` prints it. The last of its
// 43 characters encodes four bits, so only every fourth character is valid there.
//
// +kubebuilder:validation:MaxLength=44
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$')",message="is not 32 bytes in base64: set the gateway's public key as `wg pubkey` prints it"
// +kubebuilder:validation:XValidation:rule="!self.matches('^A+=$')",message="is zero: set the gateway's public key as `wg pubkey` prints it"
type PublicKey string

// Fingerprint is the SHA-256 of a certificate in DER form, in hexadecimal digits.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="is not a fingerprint: write the SHA-256 of the certificate as 64 lower-case hexadecimal digits"
type Fingerprint string

// Endpoint is host:port, where host is a DNS name or an address, IPv6 in brackets.
//
// +kubebuilder:validation:MaxLength=260
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?|\\\\[[0-9A-Fa-f]*:[:.0-9A-Fa-f]*\\\\]):[1-9][0-9]{0,4}$') && int(self.substring(self.lastIndexOf(':') + 1)) <= 65535 && (self.startsWith('[') ? isIP(self.substring(1, self.lastIndexOf(']'))) : isIP(self.substring(0, self.lastIndexOf(':'))) || !self.matches('(^|[.])[0-9]+:[0-9]+$'))",message="is not host:port: write it like gw-b.example:51840 or [2001:db8::1]:51840, or leave it out if the peer initiates the connection"
// +kubebuilder:validation:XValidation:rule="!self.matches('^(0|22[4-9]|23[0-9]|24[0-9]|25[0-5])[.][0-9]+[.][0-9]+[.][0-9]+:') && !self.matches('^\\\\[([fF]{2}|[:0]+\\\\])')",message="is not a reachable unicast address: write it like gw-b.example:51840 or [2001:db8::1]:51840, or leave it out if the peer initiates the connection"
type Endpoint string

// EncapsulationPolicy selects how nodes encapsulate packets to gateways.
//
// +kubebuilder:validation:Enum=auto;geneve;vxlan
type EncapsulationPolicy string

// The encapsulation policies.
const (
	EncapsulationAuto   EncapsulationPolicy = "auto" // each node uses the first that it supports: geneve, vxlan, userspace
	EncapsulationGeneve EncapsulationPolicy = "geneve"
	EncapsulationVXLAN  EncapsulationPolicy = "vxlan"
)

// The condition types, in the order in which they have to become true. Every resource with
// conditions has Ready, and its message says what to do next.
const (
	ConditionReady        = "Ready"        // all conditions below are as required, and a probe was answered
	ConditionDetected     = "Detected"     // the cluster's own CIDRs are known
	ConditionCIDRConflict = "CIDRConflict" // True: a CIDR of this object is in use in this cluster
	ConditionAnnounced    = "Announced"    // the remote cluster announced what the spec grants, and nothing else
	ConditionTunnelUp     = "TunnelUp"     // at least one link has a recent handshake and answers probes
	ConditionRouted       = "Routed"       // the nodes route packets for the remote cluster to the gateways
	ConditionPathMTU      = "PathMTU"      // packets of status.mtu bytes pass
	ConditionReleased     = "Released"     // of a NodeAttachment, while Strait is being uninstalled: nothing of it is left on the node
	ConditionReserved     = "Reserved"     // of an AddressMapping: its external address is reserved for it

	// ConditionNodesAttached of a ClusterNetwork is False while nodes that run a node helper
	// cannot be attached, for instance for lack of an address. Ready does not depend on it.
	ConditionNodesAttached = "NodesAttached"

	// ConditionGatewaysUpdated of a Peering is False during an update of its gateways, and
	// while that waits for another Peering. Ready does not depend on it.
	ConditionGatewaysUpdated = "GatewaysUpdated"

	// ConditionGatewaysUp of a Peering is False while fewer gateways have a link than the spec
	// has replicas. Ready does not depend on it.
	ConditionGatewaysUp = "GatewaysUp"
)

// ReasonUnschedulable is the reason of ConditionGatewaysUp if a gateway has no node.
const ReasonUnschedulable = "Unschedulable"
