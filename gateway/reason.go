package gateway

import "strait.dev/strait/packet"

// Reason is why a packet was dropped. The zero value means that it was not.
type Reason uint8

// Reasons, in the order in which they are checked. Each is counted separately and exported with
// its String as the label "reason".
const (
	NoReason Reason = iota

	// The frame, from a node.
	UnknownSource  // outer source is not a node's address
	WrongVNI       // outer source is a node, but not with this VNI and encapsulation
	FrameTruncated // shorter than its headers
	GeneveVersion  // RFC 8926 section 3.4: version is not 0
	GeneveControl  // control packet (O bit), carries no payload to forward
	GeneveCritical // critical option (C bit or option class), none is supported
	GeneveOptions  // option lengths do not add up
	GeneveProtocol // payload is not Ethernet
	VXLANFlags     // RFC 7348 section 5: I flag is not set
	FrameLoop      // loop: a frame that the gateway sent, or a datagram of its own tunnel
	FrameEtherType // neither IPv4, IPv6 nor ARP
	FrameNeighbour // ARP or neighbour discovery that is not a request for the gateway's address
	ECN            // congestion on the path, and the inner transport is not ECN-capable, RFC 6040 section 4.2

	// The IP packet, in either direction.
	IPTruncated
	IPVersion
	IPHeader
	IPLength
	IPChecksum
	IPOptions     // malformed options
	IPSourceRoute // source route option, type 0 routing header, or one with segments left
	IPExtension   // IPv6 extension header chain cut short, too long or malformed
	IPFragment    // a fragment that cannot be part of any datagram
	Multicast     // multicast or broadcast destination, which is not forwarded between clusters
	Martian       // source or destination that never crosses a router

	// Permissions.
	SpoofedSource         // inner source is not behind the node that sent it
	SourceNotGranted      // source outside the prefixes that this cluster exports, or that the remote was granted
	NoExternalAddress     // a node or gateway without an external address
	DestinationNotGranted // destination outside of the grant
	NoNode                // granted, but behind no node

	// To the gateway itself, from a node.
	ProbeMalformed // a node's datagram to the port of probes that is not a probe
	ProbeBudget    // more probes than a node may send
	EchoBudget     // more echo requests than a node and its pods may send
	GatewayPort    // neither a probe nor an echo request: the gateway serves nothing else

	// Masquerade.
	FragmentMemory  // no memory for the fragments of the datagram
	FragmentOverlap // fragments that overlap or do not make a datagram, RFC 5722
	FragmentTimeout // the rest of the datagram did not arrive in time
	NATProtocol     // neither TCP, UDP nor an ICMP query
	NATQuota        // the source has its maximum number of flows, RFC 6888 REQ-4
	NATExhausted    // no flow or no port is left, RFC 5508 REQ-8
	NATNoMapping    // no flow of this cluster to that remote address, RFC 4787 REQ-8

	// Forwarding.
	TTLExceeded
	OwnerDown     // no link to the remote gateway whose address the destination is
	TooBig        // larger than the MTU of the next leg, and may not be fragmented
	UpperHeader   // TCP, UDP or ICMP header cut short where it has to be edited
	ICMPChecksum  // ICMP error with a wrong checksum, RFC 5508 REQ-3
	ICMPQuote     // ICMP error whose quoted packet is malformed
	ICMPUnrelated // ICMP error about a packet that cannot have crossed this gateway, RFC 5508 REQ-4

	// Sending.
	NoPeer       // the address of the remote gateway is not known yet
	TunnelQueue  // too many packets wait for the tunnel
	UnderlaySend // the kernel did not take the datagram
	Panic        // a bug in this program; the panic was recovered
	reasonsEnd
)

var reasonNames = [reasonsEnd]string{
	UnknownSource: "unknown_source", WrongVNI: "wrong_vni", FrameTruncated: "frame_truncated",
	GeneveVersion: "geneve_version", GeneveControl: "geneve_control", GeneveCritical: "geneve_critical",
	GeneveOptions: "geneve_options", GeneveProtocol: "geneve_protocol", VXLANFlags: "vxlan_flags",
	FrameLoop: "frame_loop", FrameEtherType: "frame_ethertype", FrameNeighbour: "frame_neighbour", ECN: "ecn",
	IPTruncated: "ip_truncated", IPVersion: "ip_version", IPHeader: "ip_header", IPLength: "ip_length",
	IPChecksum: "ip_checksum", IPOptions: "ip_options", IPSourceRoute: "ip_source_route",
	IPExtension: "ip_extension", IPFragment: "ip_fragment", Multicast: "multicast", Martian: "martian",
	SpoofedSource: "spoofed_source", SourceNotGranted: "source_not_granted",
	NoExternalAddress: "no_external_address", DestinationNotGranted: "destination_not_granted", NoNode: "no_node",
	ProbeMalformed: "probe_malformed", ProbeBudget: "probe_budget", EchoBudget: "echo_budget", GatewayPort: "gateway_port",
	FragmentMemory: "fragment_memory", FragmentOverlap: "fragment_overlap", FragmentTimeout: "fragment_timeout",
	NATProtocol: "nat_protocol", NATQuota: "nat_quota", NATExhausted: "nat_exhausted", NATNoMapping: "nat_no_mapping",
	TTLExceeded: "ttl_exceeded", OwnerDown: "owner_down", TooBig: "too_big", UpperHeader: "upper_header",
	ICMPChecksum: "icmp_checksum", ICMPQuote: "icmp_quote", ICMPUnrelated: "icmp_unrelated",
	NoPeer: "no_peer", TunnelQueue: "tunnel_queue", UnderlaySend: "underlay_send", Panic: "panic",
}

func (r Reason) String() string { return reasonNames[r] }

// reasonOf maps the faults of packet.Parse.
var reasonOf = [...]Reason{
	packet.FaultTruncated:   IPTruncated,
	packet.FaultVersion:     IPVersion,
	packet.FaultHeader:      IPHeader,
	packet.FaultLength:      IPLength,
	packet.FaultChecksum:    IPChecksum,
	packet.FaultOptions:     IPOptions,
	packet.FaultSourceRoute: IPSourceRoute,
	packet.FaultExtension:   IPExtension,
	packet.FaultFragment:    IPFragment,
}
