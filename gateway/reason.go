package gateway

import "strait.dev/strait/packet"

// Reason says why a packet went no further. The zero value means that it did.
type Reason uint8

// Reasons, in the order in which a packet meets them. Each is counted apart and
// exported under its String as the label "reason".
const (
	NoReason Reason = iota

	// The frame around it, from a node.
	UnknownSource  // outer source is the address of no node
	WrongVNI       // outer source is a node, but not with this VNI and encapsulation
	FrameTruncated // shorter than its headers
	GeneveVersion  // RFC 8926 section 3.4: version is not 0
	GeneveControl  // control packet (O bit), carries no payload to forward
	GeneveCritical // critical option (C bit or option class), none is known here
	GeneveOptions  // option lengths do not add up
	GeneveProtocol // payload is not Ethernet
	VXLANFlags     // RFC 7348 section 5: I flag is not set
	FrameLoop      // sent by the gateway itself: it, or a datagram of its tunnel, came back
	FrameEtherType // neither IPv4, IPv6 nor ARP
	FrameNeighbour // ARP or neighbour discovery that asks nothing of the gateway
	ECN            // congestion on the way, and a sender that cannot be told, RFC 6040 section 4.2

	// The IP packet, whichever side it comes from.
	IPTruncated
	IPVersion
	IPHeader
	IPLength
	IPChecksum
	IPOptions     // malformed options
	IPSourceRoute // source route option or type 0 routing header
	IPExtension   // IPv6 extension header chain cut short, too long or malformed
	IPFragment    // a fragment that cannot be part of any datagram
	Multicast     // multicast or broadcast destination: joins no clusters
	Martian       // source or destination that never crosses a router

	// Who may talk to whom.
	SpoofedSource         // inner source is not behind the node that sent it
	SourceNotGranted      // source outside what this side exports, or the remote was given
	NoExternalAddress     // a node or gateway without an address in the other cluster
	DestinationNotGranted // destination outside of the grant
	NoNode                // granted, but no node has it

	// Masquerade.
	FragmentMemory  // no room to wait for the rest of the datagram
	FragmentOverlap // fragments that overlap or do not make a datagram, RFC 5722
	FragmentTimeout // the rest of the datagram did not come
	NATProtocol     // neither TCP, UDP nor an ICMP query
	NATQuota        // the source has all the flows that one may have, RFC 6888 REQ-4
	NATExhausted    // no flow or no port is left, RFC 5508 REQ-8
	NATNoMapping    // nothing here has sent there, RFC 4787 REQ-8

	// Forwarding it.
	TTLExceeded
	TooBig        // larger than the next leg carries, and may not be fragmented
	UpperHeader   // TCP, UDP or ICMP header cut short where it has to be edited
	ICMPChecksum  // ICMP error with a wrong checksum, RFC 5508 REQ-3
	ICMPQuote     // ICMP error whose quoted packet cannot be read
	ICMPUnrelated // ICMP error about a packet that cannot have crossed this gateway, RFC 5508 REQ-4

	// The way out.
	NoPeer       // nobody knows yet where the remote gateway is
	TunnelQueue  // too many packets of the gateway's own wait for the tunnel
	UnderlaySend // the kernel did not take the datagram
	Panic        // a fault of this program, contained
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
	FragmentMemory: "fragment_memory", FragmentOverlap: "fragment_overlap", FragmentTimeout: "fragment_timeout",
	NATProtocol: "nat_protocol", NATQuota: "nat_quota", NATExhausted: "nat_exhausted", NATNoMapping: "nat_no_mapping",
	TTLExceeded: "ttl_exceeded", TooBig: "too_big", UpperHeader: "upper_header",
	ICMPChecksum: "icmp_checksum", ICMPQuote: "icmp_quote", ICMPUnrelated: "icmp_unrelated",
	NoPeer: "no_peer", TunnelQueue: "tunnel_queue", UnderlaySend: "underlay_send", Panic: "panic",
}

func (r Reason) String() string { return reasonNames[r] }

// reasonOf maps what packet.Parse finds.
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
