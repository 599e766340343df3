package endpoint

import (
	"net/netip"
	"time"
)

// Order is what an agent shall try. It has this form as JSON, and Results too.
type Order struct {
	Marker    Marker     `json:"marker"`
	Sequences []Sequence `json:"sequences,omitempty"`
}

// Sequence are checks of one destination that are tried one after the other. What follows
// is not tried if the first fails: it would fail for the same reason.
type Sequence []Check

// Protocol is what a check speaks.
type Protocol string

// The protocols.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	ICMP Protocol = "icmp"
)

// Mode is what is to become of a packet. TCP has none.
type Mode string

// The modes.
const (
	Whole    Mode = "whole"    // it may not be fragmented, and comes back
	Fragment Mode = "fragment" // it is too big, may be fragmented, and comes back
	TooBig   Mode = "too-big"  // it may not be fragmented, is too big, and somebody says so
)

// Check is one thing to try.
type Check struct {
	ID       string         `json:"id"`
	Protocol Protocol       `json:"protocol"`
	To       netip.AddrPort `json:"to"` // ICMP does without the port
	// Size is that of the payload of TCP, and that of the whole IP packet of UDP and
	// ICMP, in bytes.
	Size int  `json:"size"`
	Mode Mode `json:"mode,omitempty"`
	// Source is the address that the server must see; none: any. ICMP does without.
	Source netip.Addr `json:"source,omitzero"`
	// Patience is how long to try, in nanoseconds: a destination that is new is not known
	// everywhere at once.
	Patience time.Duration `json:"patience"`
}

// Failure is why a check failed.
type Failure string

// The failures. A Result without one is well.
const (
	Refused      Failure = "refused"       // nobody listens there
	Unreachable  Failure = "unreachable"   // somebody on the way, or this node, says that there is no way
	Timeout      Failure = "timeout"       // nothing came back, and nobody says why
	Big          Failure = "too-big"       // somebody says that the packet is larger than the path
	Silent       Failure = "too-big-quiet" // a packet that is too big vanishes, and nobody says so
	Crossed      Failure = "crossed"       // a packet that was to be too big came back
	Corrupted    Failure = "corrupted"     // other bytes came back than were sent
	WrongSource  Failure = "wrong-source"  // the server saw another address
	Closed       Failure = "closed"        // a connection ended early
	NotPermitted Failure = "not-permitted" // this process may not send such packets
	NotTried     Failure = "not-tried"     // the first of its sequence failed
)

// Result is what became of a check.
type Result struct {
	ID      string  `json:"id"`
	Failure Failure `json:"failure,omitempty"`
	Detail  string  `json:"detail,omitempty"` // for people
	// RTT is that of a small packet, or how long it took to connect, in nanoseconds.
	RTT   time.Duration `json:"rtt,omitempty"`
	Bytes int64         `json:"bytes"` // that came back
	// MTU is what somebody said that the path carries, in bytes; 0: nobody did.
	MTU int `json:"mtu,omitempty"`
	// MSS is the largest segment that TCP ended up with, in bytes.
	MSS int `json:"mss,omitempty"`
	// Source is the address that the server saw.
	Source netip.Addr `json:"source,omitzero"`
	// Silence is the longest time for which nothing of a flow came back, in nanoseconds.
	Silence time.Duration `json:"silence,omitempty"`
}

// failed is the result with a failure.
func (r Result) failed(f Failure, detail string) Result {
	r.Failure, r.Detail = f, detail
	return r
}
