package gateway_test

import (
	"bytes"
	"net/netip"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// proxying returns cluster B with a proxy for pods behind no node.
func proxying(t *testing.T) *side {
	t.Helper()
	return newB(t, func(c *config.Gateway) {
		c.Proxy.Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/17"), netip.MustParsePrefix("fd00:10::/49")}
		c.Proxy.Except = []netip.Prefix{netip.MustParsePrefix("10.0.98.0/24"), netip.MustParsePrefix("fd00:10:0:98::/64")}
	})
}

func TestPodsBehindNoNodeAreReachedByTheHost(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		b := proxying(t)
		r := b.fromTunnel(flow{src: w.podA, dst: w.absentPod}.udp(nil))
		expectVerdict(t, r, gateway.ToHost)
		expect(t, r.Packet, w.seenPodA, w.absentPod, 64)
		expectVerdict(t, b.fromTunnel(flow{src: w.podA, dst: w.podB}.udp(nil)), gateway.ToNode)

		r = b.origin.Packet(flow{src: w.absentPod, dst: w.seenPodA}.udp(nil))
		expectVerdict(t, r, gateway.ToTunnel)
		expect(t, r.Packet, w.absentPod, w.podA, 64)
	}
}

// All gateways are the host of a proxied pod. One gets the SYN, the others copies: a connection that they accept too ends both.
func TestTheHostGetsNoCopyOfASYN(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		b := proxying(t)
		whole := flow{src: w.podA, dst: w.absentPod}.tcp(syn, mss(1000), nil)
		expectDrop(t, b.fromTunnel(withoutTTL(bytes.Clone(whole))), gateway.NoReason)
		expectVerdict(t, b.fromTunnel(whole), gateway.ToHost)
	}
}

// A remote cluster reaches nothing by the proxy but what it is granted and is proxied, and nodes nothing at all.
func TestTheProxyReachesNothingElse(t *testing.T) {
	t.Parallel()
	for i, w := range families {
		excepted, unproxied, ungranted := []string{"10.0.98.9", "fd00:10:0:98::9"}[i], []string{"10.0.200.9", "fd00:10:0:9000::9"}[i], []string{"10.9.99.9", "fd00:19::9"}[i]
		for dst, want := range map[string]gateway.Reason{
			excepted: gateway.DestinationNotGranted, unproxied: gateway.NoNode, ungranted: gateway.DestinationNotGranted, w.gateway: gateway.DestinationNotGranted,
		} {
			b := proxying(t)
			if r := b.fromTunnel(flow{src: w.podA, dst: dst}.udp(nil)); r.Verdict != gateway.Drop || r.Reason != want {
				t.Errorf("from the tunnel to %s: %v, %v; want %v", dst, r.Verdict, r.Reason, want)
			}
		}
		for _, dst := range []string{w.absentPod, excepted} {
			b := proxying(t)
			if r := b.fromNode(flow{src: w.podB, dst: dst}.echo(nil)); r.Verdict != gateway.Drop || r.Reason != gateway.DestinationNotGranted {
				t.Errorf("from a node to %s: %v, %v", dst, r.Verdict, r.Reason)
			}
		}
	}
}

func TestTheHostConnectsFromAnAddressToWhichRepliesComeBack(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := newA(t)
		to := netip.MustParseAddr(w.seenPodB)
		from := a.Table().Source(to)
		r := a.origin.Packet(flow{src: from.String(), dst: w.seenPodB}.udp(nil))
		expectVerdict(t, r, gateway.ToTunnel)
		expect(t, r.Packet, w.gateOut, w.podB, 64)
		b := newB(t)
		r = b.fromTunnel(r.Packet)
		expectVerdict(t, r, gateway.ToNode)

		without := newA(t, func(c *config.Gateway) { c.Overlay.ExternalAddresses = nil })
		if from := without.Table().Source(to); from.IsValid() {
			t.Errorf("%v without an external address", from)
		}
	}
}
