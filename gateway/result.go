package gateway

import "strait.dev/strait/packet"

// Verdict is what the caller must do with a packet.
type Verdict uint8

// The verdicts.
const (
	Drop     Verdict = iota // nothing, except to send an Answer; the drop is counted already
	ToTunnel                // forward the Pieces of Packet into the tunnel
	ToNode                  // forward the Pieces of Packet to Node, behind Node.Header
	ToHost                  // deliver the Pieces of Packet to the gateway's own host stack
)

// Result is the outcome of one packet. All slices alias the packet or the journey's own memory
// and are valid until the journey's next call.
type Result struct {
	Verdict Verdict
	Reason  Reason // why, when Verdict is Drop; NoReason for a request that Answer answers
	Node    *Node  // with ToNode: the destination. With an Answer from Egress: the node to answer
	Owner   Exit   // with ToTunnel: the owner of the destination, nil if it has none (SetOwners)
	Packet  []byte // with all verdicts but Drop: the IP packet
	Version uint8  // its IP version, 4 or 6
	Hash    uint32 // packet.FlowHash of it, as this cluster sees the flow
	ECN     uint8  // with ToNode: the ECN field of the outer header, RFC 6040 section 4.1

	// Reassembled is true if Packet lies in the journey's own memory, which the
	// next reassembled packet overwrites, and not in that of the packet given.
	Reassembled bool

	// Pieces, if not nil, is sent instead of Packet: fragments, or the segments of a
	// super-packet.
	Pieces *packet.Pieces

	// Hint, if not nil, is a copy of Packet with TTL 0, for the other gateways of the remote cluster: they learn
	// from it what segments the flow accepts (segmentHints), and forward nothing. It comes with ToTunnel only.
	Hint []byte

	// Answer is sent back to the source of the packet: an ICMP error, an ARP reply or a
	// neighbour advertisement. Egress: to Node, after AnswerHeader. Ingress: into the tunnel,
	// without a header. It comes with Drop only.
	Answer, AnswerHeader []byte
}

func drop(r Reason) Result { return Result{Reason: r} }
