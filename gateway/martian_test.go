package gateway_test

import (
	"net/netip"
	"testing"

	"strait.dev/strait/gateway"
)

// martianRanges are addresses that never cross a router (RFC 1812 section 5.3.7,
// RFC 4291 section 2.5), by family.
var martianRanges = map[bool][]string{
	true:  {"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "240.0.0.0/4"},
	false: {"::/128", "::1/128", "fe80::/10"},
}

var groupRanges = map[bool][]string{true: {"224.0.0.0/4"}, false: {"ff00::/8"}}

// samples of a prefix: its ends and something between.
func samples(p string) []string {
	prefix := netip.MustParsePrefix(p)
	first, last := edges(prefix)
	all := []string{first.String(), last.String()}
	if prefix.Bits() < prefix.Addr().BitLen()-1 {
		all = append(all, first.Next().String(), last.Prev().String())
	}
	return all
}

// expectSilence drops a packet from a node, from the tunnel and from the gateway's
// own host, without an answer.
func expectSilence(t *testing.T, f flow, want gateway.Reason) {
	t.Helper()
	for from, send := range map[string]func(*side, []byte) gateway.Result{
		"a node": (*side).fromNode, "the tunnel": (*side).fromTunnel,
		"the host": func(s *side, b []byte) gateway.Result { return s.origin.Packet(b) },
	} {
		r := send(newA(t), f.udp(counting(20)))
		if r.Verdict != gateway.Drop || r.Reason != want || r.Answer != nil {
			t.Errorf("%s to %s from %s: verdict %d, %q, answer % x; want a silent drop for %q", f.src, f.dst, from, r.Verdict, r.Reason, r.Answer, want)
		}
	}
}

func TestI7_MartianSourcesAreDroppedSilentlyOnEverySide(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		is4 := addr(w.podA).Is4()
		for _, p := range append(martianRanges[is4], groupRanges[is4]...) {
			for _, src := range samples(p) {
				for _, dst := range []string{w.podA, w.nodeOut, w.gateOut, w.gateway, w.seenPodB} {
					a := newA(t)
					for from, r := range map[string]gateway.Result{
						"a node":     a.fromNode(flow{src: src, dst: dst}.udp(nil)),
						"the tunnel": a.fromTunnel(flow{src: src, dst: dst}.udp(nil)),
					} {
						if r.Verdict != gateway.Drop || r.Reason != gateway.Martian || r.Answer != nil {
							t.Errorf("%s to %s from %s: verdict %d, %q, answer % x", src, dst, from, r.Verdict, r.Reason, r.Answer)
						}
					}
				}
				if r := newA(t).origin.Packet(flow{src: src, dst: w.seenPodB}.udp(nil)); r.Verdict != gateway.Drop || r.Reason != gateway.Martian {
					t.Errorf("%s from the host into the tunnel: verdict %d, %q", src, r.Verdict, r.Reason)
				}
			}
		}
	}
}

func TestI7_MartianDestinationsGoNowhere(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		is4 := addr(w.podA).Is4()
		for _, p := range martianRanges[is4] {
			for _, dst := range samples(p) {
				if dst == "255.255.255.255" {
					continue // a broadcast, see below
				}
				for from, r := range map[string]gateway.Result{
					"a node":     newA(t).fromNode(flow{src: w.podA, dst: dst}.udp(nil)),
					"the tunnel": newA(t).fromTunnel(flow{src: w.podB, dst: dst}.udp(nil)),
				} {
					expectDrop(t, r, gateway.Martian)
					if oneHost(dst) == nil && r.Answer != nil {
						t.Errorf("to %s from %s: answered", dst, from)
					}
				}
			}
		}
		groups := append([]string{}, groupRanges[is4]...)
		if is4 {
			groups = append(groups, "255.255.255.255/32")
		}
		for _, p := range groups {
			for _, dst := range samples(p) {
				expectSilence(t, flow{src: w.podA, dst: dst}, gateway.Multicast)
				expectSilence(t, flow{src: w.podB, dst: dst}, gateway.Multicast)
			}
		}
	}
}

// The neighbours of the ranges are not martians but ordinary addresses.
func TestI7_TheNeighboursOfMartiansAreOrdinaryAddresses(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"1.0.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "::2", "fec0::", "fe7f:ffff::1"} {
		w := v4
		if addr(src).Is6() {
			w = v6
		}
		expectDrop(t, newA(t).fromNode(flow{src: src, dst: w.seenPodB}.udp(nil)), gateway.SpoofedSource)
		expectDrop(t, newA(t).fromTunnel(flow{src: src, dst: w.podA}.udp(nil)), gateway.SourceNotGranted)
	}
}

// Addresses of the gateway, of nodes, and of the other cluster as seen here belong to no other source.
func TestI7_T2_AddressesOfTheGatewayAndTheRemoteClusterAreRejectedAsSources(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, src := range []string{w.gateway, w.gateOut, w.nodeOut, w.seenPodB, w.seenNodeB, w.seenGatewayB, w.nodeWithout} {
			for _, dst := range []string{w.seenPodB, w.gateway, w.gateOut} {
				r := newA(t).fromNode(flow{src: src, dst: dst}.udp(nil))
				expectDrop(t, r, gateway.SpoofedSource)
				if r.Answer != nil {
					t.Errorf("%s to %s from a node: answered", src, dst)
				}
			}
		}
		for _, src := range []string{w.gateway, w.node, w.nodeWithout, w.seenPodB, w.seenNodeB} {
			for _, dst := range []string{w.podA, w.gateOut, w.nodeOut} {
				r := newA(t).fromTunnel(flow{src: src, dst: dst}.udp(nil))
				expectDrop(t, r, gateway.SourceNotGranted)
				if r.Answer != nil {
					t.Errorf("%s to %s from the tunnel: answered", src, dst)
				}
			}
		}
	}
}
