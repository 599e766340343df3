package localsocket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// TracePath is the path on the gateway's local socket that takes a TraceQuestion as JSON and returns a TraceAnswer.
const TracePath = "/trace"

// TraceQuestion asks a gateway what it would do with a packet.
type TraceQuestion struct {
	Probe      gateway.Probe `json:"probe"`                // as it arrives at the gateway
	FromTunnel bool          `json:"fromTunnel,omitempty"` // false: from a node
	// Outer describes the node's frame. Nil: the frame of the node behind which the source lies, or of any node if there is
	// none.
	Outer *TraceOuter `json:"outer,omitempty"`
}

// TraceOuter identifies a node to a gateway.
type TraceOuter struct {
	Source        netip.Addr           `json:"source"`
	VNI           uint32               `json:"vni"`
	Encapsulation config.Encapsulation `json:"encapsulation"`
}

// TraceAnswer is what a gateway does with the packet by its current table. No packet is sent and nothing is counted.
type TraceAnswer struct {
	Cluster string          `json:"cluster"`
	Remote  string          `json:"remote"`           // cluster
	Verdict TraceVerdict    `json:"verdict"`          //
	Reason  string          `json:"reason,omitempty"` // why it is dropped: one of gateway.Reasons
	Node    *TraceNode      `json:"node,omitempty"`   // the sender or receiver; nil: no known node
	Before  gateway.Probe   `json:"before"`
	After   *gateway.Probe  `json:"after,omitempty"`  // nil: dropped
	Pieces  []int           `json:"pieces,omitempty"` // sizes of the fragments in bytes; empty: it leaves whole
	Error   *TraceError     `json:"error,omitempty"`  // the ICMP error that is returned
	Entries []gateway.Entry `json:"entries"`          // the table entries that decided
	MTU     int             `json:"mtu"`              // of the next leg, bytes
	Links   []TraceLink     `json:"links"`            // through the tunnel
}

// TraceVerdict is the destination of a packet.
type TraceVerdict string

// The verdicts.
const (
	TraceToTunnel TraceVerdict = "tunnel"
	TraceToNode   TraceVerdict = "node"
	TraceToHost   TraceVerdict = "host" // the gateway itself
	TraceDropped  TraceVerdict = "dropped"
)

// TraceNode is a node in the gateway's table.
type TraceNode struct {
	Name string `json:"name"`
	TraceOuter
}

// TraceError is an ICMP error.
type TraceError struct {
	Source      netip.Addr `json:"source"`
	Destination netip.Addr `json:"destination"`
	MTU         int        `json:"mtu,omitempty"` // the MTU in a packet-too-big error, bytes
}

// TraceLink is one tunnel of the gateway.
type TraceLink struct {
	Name          string         `json:"name"`
	Gateway       string         `json:"gateway,omitempty"` // the remote one
	OwnKey        string         `json:"ownKey"`            // public, in base64
	RemoteKey     string         `json:"remoteKey"`         // public, in base64
	Active        bool           `json:"active"`            // traffic from nodes uses it
	Up            bool           `json:"up"`
	RTT           time.Duration  `json:"rttNanoseconds,omitempty"`
	PathMTU       int            `json:"pathMTU,omitempty"` // bytes; 0: no packet of full size has crossed recently
	LastHandshake time.Time      `json:"lastHandshake,omitzero"`
	Endpoint      netip.AddrPort `json:"endpoint,omitzero"` // address of the remote gateway; omitted while unknown
}

// AskTrace sends a question to the gateway behind a local socket.
func AskTrace(ctx context.Context, socket string, q TraceQuestion) (*TraceAnswer, error) {
	question, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	body, err := Call(ctx, socket, TracePath, strings.NewReader(string(question)))
	if err != nil {
		return nil, err
	}
	a := new(TraceAnswer)
	if err := errors.Join(json.NewDecoder(body).Decode(a), body.Close()); err != nil {
		return nil, fmt.Errorf("the gateway's answer cannot be read: %w; use the strait of the gateway's own version", err)
	}
	return a, nil
}

// TraceTable returns what a gateway with a table would do with a packet, without clusters and links.
func TraceTable(t gateway.Tracer, q TraceQuestion, now time.Time) (*TraceAnswer, error) {
	if err := q.Probe.Check(); err != nil {
		return nil, err
	}
	a := &TraceAnswer{Links: []TraceLink{}}
	b := q.Probe.Packet()
	a.Before, _ = gateway.ReadProbe(b)
	var tr gateway.Trace
	if q.FromTunnel {
		a.MTU = t.OverlayMTU()
		tr = t.TracePacket(b, now)
	} else {
		a.MTU = t.MTU()
		sender := q.sender(t)
		tr = t.TraceFrame(t.Frame(sender, b), sender.Outer(), now)
	}
	a.Verdict = [...]TraceVerdict{
		gateway.Drop: TraceDropped, gateway.ToTunnel: TraceToTunnel, gateway.ToNode: TraceToNode, gateway.ToHost: TraceToHost,
	}[tr.Verdict]
	a.Reason, a.Pieces, a.Entries = tr.Reason.String(), tr.Pieces, append([]gateway.Entry{}, tr.Entries...)
	if after, ok := gateway.ReadProbe(tr.Packet); ok {
		a.After = &after
	}
	if n := tr.Node; n != nil {
		a.Node = &TraceNode{n.Name, TraceOuter{n.Underlay, n.VNI, encapsulationName(n.Encapsulation)}}
	}
	var ip packet.IP
	if packet.Parse(tr.Answer, &ip) == packet.FaultNone {
		a.Error = &TraceError{Source: ip.Src, Destination: ip.Dst}
		if tr.Reason == gateway.TooBig {
			a.Error.MTU = a.MTU
		}
	}
	return a, nil
}

// sender returns the node key of the frame in the question.
func (q TraceQuestion) sender(t gateway.Tracer) gateway.NodeKey {
	if q.Outer == nil {
		k, _ := t.KeyOf(q.Probe.Source)
		return k
	}
	k := gateway.NodeKey{Underlay: q.Outer.Source, VNI: q.Outer.VNI}
	if q.Outer.Encapsulation == config.VXLAN {
		k.Encapsulation = gateway.VXLAN
	}
	return k
}

func encapsulationName(e gateway.Encapsulation) config.Encapsulation {
	if e == gateway.VXLAN {
		return config.VXLAN
	}
	return config.Geneve
}
