package tun

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"strait.dev/strait/gateway"
	"strait.dev/strait/underlay"
)

// Tap sees packets in transit. It is called on the packet path, by several goroutines
// concurrently: it must not block, allocate, change the packet, or keep it.
//
// The payload of a datagram is head followed by body; local is the gateway's end, whose address
// is unspecified where the socket listens on all. An IP packet is in body alone.
type Tap func(at gateway.Stage, local, remote netip.AddrPort, head, body []byte)

// taps are all taps by stage. Immutable.
type taps [gateway.Stages][]Tap

func (t *taps) see(at gateway.Stage, local, remote netip.AddrPort, head, body []byte) {
	for _, tap := range t[at] {
		tap(at, local, remote, head, body)
	}
}

// seeIP passes an IP packet to the taps.
func (t *taps) seeIP(at gateway.Stage, ip []byte) {
	t.see(at, netip.AddrPort{}, netip.AddrPort{}, nil, ip)
}

// tapping holds the taps. Readers load now once per batch of packets.
type tapping struct {
	now atomic.Pointer[taps] // nil: no taps
	mu  sync.Mutex           // protects all
	all []*tapped
}

type tapped struct {
	at  []gateway.Stage
	tap Tap
}

// Tap passes packets at some stages to a tap, until remove is called. Packets in flight may
// still reach the tap after that. Without taps, a batch of packets costs one load.
func (f *Fabric) Tap(tap Tap, at ...gateway.Stage) (remove func()) {
	one := &tapped{slices.Clone(at), tap}
	f.setTaps(func(all []*tapped) []*tapped { return append(all, one) })
	return sync.OnceFunc(func() {
		f.setTaps(func(all []*tapped) []*tapped {
			return slices.DeleteFunc(all, func(other *tapped) bool { return other == one })
		})
	})
}

// setTaps replaces the taps by what edit returns, also in the journeys and in WireGuard's sockets.
func (f *Fabric) setTaps(edit func([]*tapped) []*tapped) {
	t := &f.Overlay.tapping
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = edit(t.all)
	next := new(taps)
	for _, one := range t.all {
		for _, at := range one.at {
			next[at] = append(next[at], one.tap)
		}
	}
	var inJourneys gateway.Tap
	if next[gateway.FromNode] != nil {
		inJourneys = func(s gateway.Stage, ip []byte) {
			if s == gateway.FromNode {
				next.seeIP(gateway.FromNode, ip)
			}
		}
	}
	var inSockets underlay.Tap
	if next[gateway.WireGuardIn] != nil || next[gateway.WireGuardOut] != nil {
		inSockets = func(sent bool, local, remote netip.AddrPort, datagram []byte) {
			at := gateway.WireGuardIn
			if sent {
				at = gateway.WireGuardOut
			}
			next.see(at, local, remote, nil, datagram)
		}
	}
	f.Gateway.SetTap(inJourneys)
	f.mux.SetTap(inSockets)
	if len(t.all) == 0 {
		next = nil
	}
	t.now.Store(next)
}
