package trace

import (
	"net/netip"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// Schema is the version of the JSON form of a Report. Fields may be added; changes and
// removals get a new number.
const Schema = "strait.dev/trace/1"

// Report is the result of a trace.
type Report struct {
	Schema string        `json:"schema"`
	From   string        `json:"from"`   // the pod: namespace/name
	Packet gateway.Probe `json:"packet"` // as the pod sends it
	Hops   []Hop         `json:"hops"`   // of the packet
	Reply  []Hop         `json:"reply"`  // of the reply, if there is one

	Verdict Verdict `json:"verdict"` // of both
	Stage   Stage   `json:"stage,omitempty"`
	Cluster string  `json:"cluster,omitempty"`
	Back    bool    `json:"back,omitempty"` // the stage belongs to the reply
	Reason  string  `json:"reason,omitempty"`
	Message string  `json:"message,omitempty"` // why, for people
	Remedy  string  `json:"remedy,omitempty"`
}

// Verdict is the result at a hop, or of the whole trace.
type Verdict string

// The verdicts. A hop is passed, dropped or unknown; the packet is delivered, dropped or
// unknown.
const (
	Passed    Verdict = "passed"
	Delivered Verdict = "delivered"
	Dropped   Verdict = "dropped"
	Unknown   Verdict = "unknown"
)

// Stage is a section of the path.
type Stage string

// The stages, in the order in which a packet passes them in the sending cluster, and in
// reverse order in the receiving cluster.
const (
	StagePod     Stage = "pod"
	StageNode    Stage = "node"
	StageOverlay Stage = "overlay" // between node and gateway
	StageGateway Stage = "gateway"
	StageTunnel  Stage = "tunnel" // between gateways
)

// Hop is the result at one stage.
type Hop struct {
	Stage   Stage  `json:"stage"`
	Cluster string `json:"cluster"` // ID; for the tunnel: that of the sending cluster
	// Where is the name of the pod, node or gateway; for overlays and tunnels, of both
	// ends.
	Where   string  `json:"where"`
	Verdict Verdict `json:"verdict"`
	// Packet is the packet as it leaves the hop; nil if it is dropped or not known.
	Packet  *gateway.Probe  `json:"packet,omitempty"`
	Outer   *Outer          `json:"outer,omitempty"`   // outer header on the overlay
	Entries []gateway.Entry `json:"entries,omitempty"` // matching entries of the gateway's table
	Notes   []string        `json:"notes,omitempty"`   // why, for people
	Reason  string          `json:"reason,omitempty"`  // of a drop, one machine-readable word
	Remedy  string          `json:"remedy,omitempty"`
}

// Outer is the outer header of a packet on the overlay.
type Outer struct {
	Source        netip.Addr           `json:"source,omitzero"`
	Destination   netip.Addr           `json:"destination,omitzero"`
	VNI           uint32               `json:"vni"`
	Encapsulation config.Encapsulation `json:"encapsulation"`
}

// conclude sets the verdict: that of the first hop that dropped the packet, or else of the
// first unknown hop.
func (r *Report) conclude() {
	r.Verdict = Delivered
	for _, verdict := range []Verdict{Dropped, Unknown} {
		for i, hops := range [][]Hop{r.Hops, r.Reply} {
			for _, h := range hops {
				if h.Verdict != verdict {
					continue
				}
				r.Verdict, r.Stage, r.Cluster, r.Back = verdict, h.Stage, h.Cluster, i == 1
				r.Reason, r.Message, r.Remedy = h.Reason, last(h.Notes), h.Remedy
				return
			}
		}
	}
}

func last(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return notes[len(notes)-1]
}
