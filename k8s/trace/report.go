package trace

import (
	"net/netip"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// Schema names the form of a Report. A field may come; none changes or goes without
// another number.
const Schema = "strait.dev/trace/1"

// Report is what becomes of a packet.
type Report struct {
	Schema string        `json:"schema"`
	From   string        `json:"from"`   // the pod: namespace/name
	Packet gateway.Probe `json:"packet"` // as the pod sends it
	Hops   []Hop         `json:"hops"`   // there
	Reply  []Hop         `json:"reply"`  // and back, as far as there is somebody who answers

	Verdict Verdict `json:"verdict"` // of both
	Stage   Stage   `json:"stage,omitempty"`
	Cluster string  `json:"cluster,omitempty"`
	Back    bool    `json:"back,omitempty"` // the stage is one of the reply
	Reason  string  `json:"reason,omitempty"`
	Message string  `json:"message,omitempty"` // why, for people
	Remedy  string  `json:"remedy,omitempty"`
}

// Verdict is what became of a packet: at a hop, or in all.
type Verdict string

// The verdicts. A hop is passed or not, or nobody knows; the packet is delivered or not,
// or nobody knows.
const (
	Passed    Verdict = "passed"
	Delivered Verdict = "delivered"
	Dropped   Verdict = "dropped"
	Unknown   Verdict = "unknown"
)

// Stage is a part of the way.
type Stage string

// The stages. A packet meets them in this order in the cluster that it leaves, and the
// other way round in the one that it comes to.
const (
	StagePod     Stage = "pod"
	StageNode    Stage = "node"
	StageOverlay Stage = "overlay" // between node and gateway
	StageGateway Stage = "gateway"
	StageTunnel  Stage = "tunnel" // between gateways
)

// Hop is what one of them does with the packet.
type Hop struct {
	Stage   Stage  `json:"stage"`
	Cluster string `json:"cluster"` // ID; of the tunnel: that which the packet leaves
	// Where is the name of the pod, node or gateway; of both ends of overlays and tunnels.
	Where   string  `json:"where"`
	Verdict Verdict `json:"verdict"`
	// Packet is as it leaves the hop; nil if it does not, or nobody knows.
	Packet  *gateway.Probe  `json:"packet,omitempty"`
	Outer   *Outer          `json:"outer,omitempty"`   // around it, on the overlay
	Entries []gateway.Entry `json:"entries,omitempty"` // of the gateway's table, that decided
	Notes   []string        `json:"notes,omitempty"`   // why, for people
	Reason  string          `json:"reason,omitempty"`  // of a drop, one word for programs
	Remedy  string          `json:"remedy,omitempty"`
}

// Outer is what is around a packet on the overlay.
type Outer struct {
	Source        netip.Addr           `json:"source,omitzero"`
	Destination   netip.Addr           `json:"destination,omitzero"`
	VNI           uint32               `json:"vni"`
	Encapsulation config.Encapsulation `json:"encapsulation"`
}

// conclude says what the hops come to: the first that dropped the packet, or else the
// first of which nobody knows.
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
