package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// tracePath is where a gateway's local socket takes a TraceQuestion as JSON, and answers
// with a TraceAnswer.
const tracePath = "/trace"

// TraceQuestion asks a gateway what it would do with a packet.
type TraceQuestion struct {
	Probe      gateway.Probe `json:"probe"`                // as it comes to the gateway
	FromTunnel bool          `json:"fromTunnel,omitempty"` // or from a node
	// Outer is what the node's frame has around the packet. Nil: what that of the node
	// has behind which the source lies, or that of any node if it lies behind none.
	Outer *TraceOuter `json:"outer,omitempty"`
}

// TraceOuter is what a gateway knows a node by.
type TraceOuter struct {
	Source        netip.Addr           `json:"source"`
	VNI           uint32               `json:"vni"`
	Encapsulation config.Encapsulation `json:"encapsulation"`
}

// TraceAnswer is what a gateway does with the packet by the table that is in force. Only
// a question was asked: no packet was sent, and nothing was counted.
type TraceAnswer struct {
	Cluster string          `json:"cluster"`
	Remote  string          `json:"remote"`           // cluster
	Verdict TraceVerdict    `json:"verdict"`          //
	Reason  string          `json:"reason,omitempty"` // why it is dropped: one of gateway.Reasons
	Node    *TraceNode      `json:"node,omitempty"`   // that sent it, or that gets it; nil: no node that the gateway knows
	Before  gateway.Probe   `json:"before"`
	After   *gateway.Probe  `json:"after,omitempty"`  // nil: dropped
	Pieces  []int           `json:"pieces,omitempty"` // sizes of the fragments, bytes; none: it leaves whole
	Error   *TraceError     `json:"error,omitempty"`  // the ICMP error that goes back
	Entries []gateway.Entry `json:"entries"`          // of the table, that decided
	MTU     int             `json:"mtu"`              // of the leg that it would go on by, bytes
	Links   []TraceLink     `json:"links"`            // through the tunnel
}

// TraceVerdict is where a packet goes.
type TraceVerdict string

// The verdicts.
const (
	TraceToTunnel TraceVerdict = "tunnel"
	TraceToNode   TraceVerdict = "node"
	TraceToHost   TraceVerdict = "host" // the gateway itself
	TraceDropped  TraceVerdict = "dropped"
)

// TraceNode is a node as the gateway knows it.
type TraceNode struct {
	Name string `json:"name"`
	TraceOuter
}

// TraceError is an ICMP error.
type TraceError struct {
	Source      netip.Addr `json:"source"`
	Destination netip.Addr `json:"destination"`
	MTU         int        `json:"mtu,omitempty"` // that it tells, if it says that the packet is too big, bytes
}

// TraceLink is one tunnel of the gateway.
type TraceLink struct {
	Name          string         `json:"name"`
	Gateway       string         `json:"gateway,omitempty"` // the remote one
	OwnKey        string         `json:"ownKey"`            // public, in base64
	RemoteKey     string         `json:"remoteKey"`         // public, in base64
	Active        bool           `json:"active"`            // what nodes send goes through it
	Up            bool           `json:"up"`
	RTT           time.Duration  `json:"rttNanoseconds,omitempty"`
	PathMTU       int            `json:"pathMTU,omitempty"` // bytes; 0: no packet of full size has crossed lately
	LastHandshake time.Time      `json:"lastHandshake,omitzero"`
	Endpoint      netip.AddrPort `json:"endpoint,omitzero"` // where the remote gateway is; left out while nobody knows
}

// Trace says what the gateway would do with a packet.
func (d *Daemon) Trace(q TraceQuestion, now time.Time) (*TraceAnswer, error) {
	a, err := TraceTable(d.fabric.Gateway.Table(), q, now)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	a.Cluster, a.Remote = d.config.Cluster, d.config.Remote.Cluster
	d.mu.Unlock()
	for _, l := range d.fabric.Status() {
		a.Links = append(a.Links, TraceLink{
			Name: l.Name, Gateway: l.Gateway, OwnKey: l.OwnKey.String(), RemoteKey: l.RemoteKey.String(), Active: l.Active, Up: l.Up,
			RTT: l.RTT, PathMTU: l.PathMTU, LastHandshake: l.LastHandshake, Endpoint: l.Endpoint,
		})
	}
	return a, nil
}

// TraceTable says what a gateway with a table would do with a packet. It knows of no
// clusters and links.
func TraceTable(t *gateway.Table, q TraceQuestion, now time.Time) (*TraceAnswer, error) {
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

// sender is what the frame of the question is known by.
func (q TraceQuestion) sender(t *gateway.Table) gateway.NodeKey {
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

// traceLimit is the size of the longest question, bytes.
const traceLimit = 4096

// serveTrace answers a TraceQuestion on the local socket.
func serveTrace(d *Daemon, w http.ResponseWriter, r *http.Request) {
	var q TraceQuestion
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, traceLimit))
	decoder.DisallowUnknownFields()
	a, err := (*TraceAnswer)(nil), decoder.Decode(&q)
	if err != nil {
		err = fmt.Errorf("the question cannot be read: %w; use the strait of the gateway's own version", err)
	} else {
		a, err = d.Trace(q, time.Now())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // who asked has gone
}

// AskTrace asks the gateway behind a local socket.
func AskTrace(ctx context.Context, socket string, q TraceQuestion) (*TraceAnswer, error) {
	question, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	body, err := CallSocket(ctx, socket, tracePath, strings.NewReader(string(question)))
	if err != nil {
		return nil, err
	}
	a := new(TraceAnswer)
	if err := errors.Join(json.NewDecoder(body).Decode(a), body.Close()); err != nil {
		return nil, fmt.Errorf("the gateway's answer cannot be read: %w; use the strait of the gateway's own version", err)
	}
	return a, nil
}
