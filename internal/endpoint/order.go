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

func (r Result) failed(f Failure, detail string) Result {
	r.Failure, r.Detail = f, detail
	return r
}

// FlowOrder is a connection on which an agent is to send continuously.
type FlowOrder struct {
	Marker   Marker         `json:"marker"`
	To       netip.AddrPort `json:"to"`
	Source   netip.Addr     `json:"source,omitzero"` // the address that the server must see; empty: any
	Patience time.Duration  `json:"patience"`        // time limit for connecting, in nanoseconds
	Longest  time.Duration  `json:"longest"`         // time limit of the flow, in nanoseconds
}

// StreamsOrder is flows that an agent is to keep busy.
type StreamsOrder struct {
	Marker  Marker           `json:"marker"`
	To      []netip.AddrPort `json:"to"`
	TCP     int              `json:"tcp"`     // flows to each destination
	UDP     int              `json:"udp"`     // the same
	Longest time.Duration    `json:"longest"` // time limit, in nanoseconds
}

// StreamsResult is what flows have lost since the result before.
type StreamsResult struct {
	Flows int           `json:"flows"`
	Hit   int           `json:"hit"` // flows that got no answer for 200 ms or more
	Gap   time.Duration `json:"gap"` // the longest time without an answer in a flow, in nanoseconds
	Sent  int64         `json:"sent"`
	Lost  int64         `json:"lost"` // of the datagrams sent: without an answer within a second
	// Duplicated is the number of answers that arrived again.
	Duplicated int64 `json:"duplicated"`
	Broken     int   `json:"broken"` // connections that ended; they are opened again
	Moved      int   `json:"moved"`  // flows of datagrams that another gateway of either cluster carried for a time
}

// Add adds the result of other flows in the same time.
func (r *StreamsResult) Add(o StreamsResult) {
	r.Flows, r.Hit, r.Gap = r.Flows+o.Flows, r.Hit+o.Hit, max(r.Gap, o.Gap)
	r.Sent, r.Lost, r.Duplicated = r.Sent+o.Sent, r.Lost+o.Lost, r.Duplicated+o.Duplicated
	r.Broken, r.Moved = r.Broken+o.Broken, r.Moved+o.Moved
}
