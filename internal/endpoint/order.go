package endpoint

import (
	"net/netip"
	"time"
)

// Order is the checks that an agent is to run. It is exchanged as JSON, like Results.
type Order struct {
	Marker    Marker     `json:"marker"`
	Sequences []Sequence `json:"sequences,omitempty"`
}

// Sequence is checks of one destination that run one after the other. If the first fails,
// the others are skipped: they would fail for the same reason.
type Sequence []Check

// Protocol is the protocol of a check.
type Protocol string

// The protocols.
const (
	TCP  Protocol = "tcp"
	UDP  Protocol = "udp"
	ICMP Protocol = "icmp"
)

// Mode is the expected result for a packet. TCP has none.
type Mode string

// The modes.
const (
	Whole    Mode = "whole"    // not fragmented, and comes back
	Fragment Mode = "fragment" // too big, fragmented, and comes back
	TooBig   Mode = "too-big"  // too big, not fragmented, and reported by an ICMP error
)

// Check is one check.
type Check struct {
	ID       string         `json:"id"`
	Protocol Protocol       `json:"protocol"`
	To       netip.AddrPort `json:"to"` // ICMP ignores the port
	// Size is the size of the payload for TCP, and of the whole IP packet for UDP and ICMP,
	// in bytes.
	Size int  `json:"size"`
	Mode Mode `json:"mode,omitempty"`
	// Source is the address that the server must see; empty: any. ICMP ignores it.
	Source netip.Addr `json:"source,omitzero"`
	// Patience is how long to try, in nanoseconds: a new destination is not known
	// everywhere at once.
	Patience time.Duration `json:"patience"`
}

// Failure is why a check failed.
type Failure string

// The failures. A Result without one is a success.
const (
	Refused      Failure = "refused"       // no process listens on the port
	Unreachable  Failure = "unreachable"   // a router or this node reports that there is no route
	Timeout      Failure = "timeout"       // no reply and no ICMP error
	Big          Failure = "too-big"       // an ICMP error reports that the packet exceeds the path MTU
	Silent       Failure = "too-big-quiet" // a packet above the path MTU is lost without an ICMP error
	Crossed      Failure = "crossed"       // a packet that should be too big came back
	Corrupted    Failure = "corrupted"     // the reply differs from the request
	WrongSource  Failure = "wrong-source"  // the server saw another address
	Closed       Failure = "closed"        // a connection ended early
	NotPermitted Failure = "not-permitted" // this process lacks the permission to send such packets
	NotTried     Failure = "not-tried"     // the first of its sequence failed
)

// Result is the result of a check.
type Result struct {
	ID      string  `json:"id"`
	Failure Failure `json:"failure,omitempty"`
	Detail  string  `json:"detail,omitempty"` // for messages
	Tries   int     `json:"tries,omitempty"`  // attempts, with the last one
	// Interrupted counts the attempts before the last one that failed after they had connected.
	Interrupted int `json:"interrupted,omitempty"`
	// RTT is the round trip of a small packet, or the time to connect, in nanoseconds.
	RTT   time.Duration `json:"rtt,omitempty"`
	Bytes int64         `json:"bytes"` // received bytes
	// MTU is the path MTU of an ICMP error, in bytes; 0: no error.
	MTU int `json:"mtu,omitempty"`
	// MSS is the largest segment of the TCP connection, in bytes.
	MSS int `json:"mss,omitempty"`
	// Source is the address that the server saw.
	Source netip.Addr `json:"source,omitzero"`
	// Silence is the longest time without an echo in a flow, in nanoseconds.
	Silence time.Duration `json:"silence,omitempty"`
}

// failed returns the result with a failure.
func (r Result) failed(f Failure, detail string) Result {
	r.Failure, r.Detail = f, detail
	return r
}
