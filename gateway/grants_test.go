package gateway_test

import (
	"net/netip"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

func noLocal(c *config.Gateway) { c.Local.Prefixes = nil }

func noRemote(c *config.Gateway) { c.Remote.Prefixes = nil }

func noNodes(c *config.Gateway) { c.Overlay.Nodes = nil }

// T15: an empty list means nothing, never everything.
func TestT15_EmptyListsGrantNothing(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		out, in := flow{src: w.podA, dst: w.seenPodB}.udp, flow{src: w.podB, dst: w.podA}.udp
		for name, c := range map[string]struct {
			edit    func(*config.Gateway)
			out, in gateway.Reason
		}{
			"local.prefixes":  {noLocal, gateway.SourceNotGranted, gateway.DestinationNotGranted},
			"remote.prefixes": {noRemote, gateway.DestinationNotGranted, gateway.SourceNotGranted},
			"overlay.nodes":   {noNodes, gateway.UnknownSource, gateway.NoNode},
		} {
			a := newA(t, c.edit)
			if r := a.fromNode(out(nil)); r.Verdict != gateway.Drop || r.Reason != c.out {
				t.Errorf("without %s, out: verdict %d, %q", name, r.Verdict, r.Reason)
			}
			if r := a.fromTunnel(in(nil)); r.Verdict != gateway.Drop || r.Reason != c.in {
				t.Errorf("without %s, in: verdict %d, %q", name, r.Verdict, r.Reason)
			}
		}
	}
}

func TestT15_NodesStayReachableWithoutPods(t *testing.T) {
	t.Parallel()
	a := newA(t, noLocal)
	expectVerdict(t, a.fromNode(flow{src: v4.node, dst: v4.seenPodB}.udp(nil)), gateway.ToTunnel)
	expectVerdict(t, a.fromTunnel(flow{src: v4.podB, dst: v4.nodeOut}.udp(nil)), gateway.ToNode)
}

// The edges of every grant: its first and last address pass, their neighbours do not.
func TestT3_GrantsEndWhereTheirPrefixesEnd(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for _, p := range []string{"10.71.0.0/16", "10.73.0.0/16", "fd00:71::/48", "fd00:73::/48"} {
		first, last := edges(netip.MustParsePrefix(p))
		for dst, want := range map[netip.Addr]gateway.Verdict{
			first: gateway.ToTunnel, last: gateway.ToTunnel,
			first.Prev(): gateway.Drop, last.Next(): gateway.Drop,
		} {
			src := v4.podA
			if dst.Is6() {
				src = v6.podA
			}
			if r := a.fromNode(flow{src: src, dst: dst.String()}.udp(nil)); r.Verdict != want {
				t.Errorf("to %v: verdict %d, %q, want %d", dst, r.Verdict, r.Reason, want)
			}
		}
	}
	for _, p := range []string{"10.0.0.0/16", "10.70.0.0/16", "fd00:10::/48", "fd00:70::/48"} {
		first, last := edges(netip.MustParsePrefix(p))
		for src, want := range map[netip.Addr]gateway.Verdict{
			first: gateway.ToNode, last: gateway.ToNode,
			first.Prev(): gateway.Drop, last.Next(): gateway.Drop,
		} {
			dst := v4.podA
			if src.Is6() {
				dst = v6.podA
			}
			if r := a.fromTunnel(flow{src: src.String(), dst: dst}.udp(nil)); r.Verdict != want {
				t.Errorf("from %v: verdict %d, %q, want %d", src, r.Verdict, r.Reason, want)
			}
		}
	}
}

func edges(p netip.Prefix) (first, last netip.Addr) {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ = netip.AddrFromSlice(b)
	return p.Addr(), last
}

// RFC 3704, strict: every node sends only what is behind it.
func TestI11_ANodeSendsOnlyFromWhatIsBehindIt(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for _, w := range families {
		for _, c := range []struct {
			wire wire
			src  string
			want gateway.Verdict
		}{
			{node1A, w.podA, gateway.ToTunnel}, {node2A, w.podA, gateway.Drop},
			{node1A, w.otherPodA, gateway.Drop}, {node2A, w.otherPodA, gateway.ToTunnel},
			{node1A, w.node, gateway.ToTunnel}, {node2A, w.node, gateway.Drop},
		} {
			r := a.send(c.wire, c.wire.frame(flow{src: c.src, dst: w.seenPodB}.udp(nil)))
			if r.Verdict != c.want || c.want == gateway.Drop && r.Reason != gateway.SpoofedSource {
				t.Errorf("%s from VNI %d: verdict %d, %q", c.src, c.wire.vni, r.Verdict, r.Reason)
			}
			if r.Answer != nil {
				t.Errorf("%s from VNI %d: a spoofed source was answered", c.src, c.wire.vni)
			}
		}
	}
}

func TestT3_InternalAddressesAreNotReachedWhateverIsGranted(t *testing.T) {
	t.Parallel()
	granted := func(c *config.Gateway) {
		c.Local.Prefixes = append(c.Local.Prefixes, netip.MustParsePrefix("10.80.0.0/16"), netip.MustParsePrefix("fd00:80::/48"))
	}
	for _, w := range families {
		for _, dst := range []string{w.node, w.nodeWithout, w.gateway} {
			r := newA(t, granted).fromTunnel(flow{src: w.podB, dst: dst}.udp(nil))
			if w == v6 && dst == w.nodeWithout {
				continue // node-2 has no IPv6 address
			}
			expectDrop(t, r, gateway.DestinationNotGranted)
		}
	}
}
