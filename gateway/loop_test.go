package gateway_test

import (
	"net/netip"
	"testing"

	"strait.dev/strait/gateway"
)

// The gateway's pod is behind node-1, and its route to the peer leads through the overlay.
func TestNetns10_DatagramsOfTheOwnTunnelDoNotEnterIt(t *testing.T) {
	t.Parallel()
	wireguard := append([]byte{4, 0, 0, 0}, counting(60)...)
	for _, w := range families {
		for _, c := range []struct {
			name    string
			port    uint16 // of the tunnel, 0: any
			b       []byte
			dropped bool
		}{
			{"its own", 51840, flow{src: w.podA, dst: w.seenPodB, from: 51840}.udp(wireguard), true},
			{"its own, of any port", 0, flow{src: w.podA, dst: w.seenPodB, from: 40000}.udp(wireguard), true},
			{"a port after its own", 51840, flow{src: w.podA, dst: w.seenPodB, from: 51841}.udp(wireguard), false},
			{"a port before its own", 51840, flow{src: w.podA, dst: w.seenPodB, from: 51839}.udp(wireguard), false},
			{"no WireGuard", 0, flow{src: w.podA, dst: w.seenPodB, from: 40000}.udp(counting(60)), false},
			{"another host", 51840, flow{src: w.node, dst: w.seenPodB, from: 51840}.udp(wireguard), false},
			{"TCP", 51840, flow{src: w.podA, dst: w.seenPodB, from: 51840}.tcp(ack, nil, wireguard), false},
			{"cut short", 51840, flow{src: w.podA, dst: w.seenPodB, from: 51840}.udp([]byte{1, 2, 3}), false},
		} {
			table := tableOf(t, configured(t, clusterA), mtus)
			table.KeepOut(gateway.Tunnel{Addresses: []netip.Addr{addr(w.podA)}, Port: c.port})
			r := sideOf(table, node1A).fromNode(c.b)
			if got := r.Reason == gateway.FrameLoop; got != c.dropped || !c.dropped && r.Verdict != gateway.ToTunnel {
				t.Errorf("%s: verdict %d, %q", c.name, r.Verdict, r.Reason)
			}
		}
	}
}
