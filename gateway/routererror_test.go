package gateway_test

import (
	"bytes"
	"net/netip"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// router is a router behind node-1 with an address of neither cluster.
func router(w who) string {
	if w == v6 {
		return "2001:db8:64::4"
	}
	return "10.64.0.4"
}

// errorKinds are ICMP errors that routers send.
var errorKinds = map[string]func(f flow, quote []byte) []byte{
	"too big":       func(f flow, quote []byte) []byte { return f.tooBig(1280, quote) },
	"time exceeded": func(f flow, quote []byte) []byte { return f.icmp(11, 3, 0, quote) },
	"unreachable":   flow.unreachable,
}

func TestRFC5508REQ5_PrefixMapsTranslateErrorsOfARouterBehindANode(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for name, kind := range errorKinds {
			for _, to := range []struct{ name, inside, remote, inTunnel string }{
				{"pod", w.podA, w.seenPodB, w.podA},
				{"node", w.node, w.seenPodB, w.nodeOut},
				{"pod, of a node", w.podA, w.seenNodeB, w.podA},
			} {
				for masquerade, edit := range map[string]func(*config.Gateway){
					"no source is masqueraded":    func(*config.Gateway) {},
					"another source is":           func(c *config.Gateway) { c.Masquerade.Sources = []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15")} },
					"every source is masqueraded": masqueradeAll,
				} {
					a := newA(t, edit)
					if masquerade != "no source is masqueraded" {
						a.setFlows(100, 10)
					}
					about := flow{src: to.remote, dst: to.inside, from: 443, to: 12345}.tcp(ack, nil, counting(1300))
					r := a.fromNode(kind(flow{src: router(w), dst: to.remote}, about[:headers(w)]))
					if r.Verdict != gateway.ToTunnel {
						t.Errorf("%s, to a %s, %s: dropped as %q", name, to.name, masquerade, r.Reason)
						continue
					}
					v := receive(t, r.Packet)
					sender := w.podB
					if to.remote == w.seenNodeB {
						sender = w.nodeOut
					}
					if v.src != addr(w.gateOut) || v.dst != addr(sender) {
						t.Errorf("%s, to a %s, %s: from %v to %v, want %s, %s", name, to.name, masquerade, v.src, v.dst, w.gateOut, sender)
					}
					expectQuoted(t, v.upper[8:], sender, to.inTunnel)
					// The other gateway accepts it.
					expectVerdict(t, newB(t).fromTunnel(bytes.Clone(r.Packet)), gateway.ToNode)
				}
			}
		}
	}
}

// A machine behind the node, whose packets are masqueraded: the router that reports the error is not.
func TestRFC5508REQ5_MasqueradeTranslatesErrorsOfARouterBehindANode(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		only := func(c *config.Gateway) {
			c.Masquerade.Sources = []netip.Prefix{netip.PrefixFrom(addr(w.foreign), addr(w.foreign).BitLen())}
		}
		a := newA(t, only)
		a.setFlows(100, 10)
		r := a.fromNode(flow{src: w.foreign, dst: w.seenPodB}.udp(counting(20)))
		expectVerdict(t, r, gateway.ToTunnel)
		out := read(t, r.Packet)
		port := uint16(out.upper[0])<<8 | uint16(out.upper[1])

		about := flow{src: w.seenPodB, dst: w.foreign, from: 443, to: 12345}
		tooBig := flow{src: router(w), dst: w.seenPodB}.tooBig(1280, about.udp(counting(1300))[:headers(w)-12])
		expectDrop(t, a.fromNode2(bytes.Clone(tooBig)), gateway.SpoofedSource) // not behind that node
		r = a.fromNode(tooBig)
		expectVerdict(t, r, gateway.ToTunnel)
		v := receive(t, r.Packet)
		if v.src != addr(w.gateOut) {
			t.Errorf("from %v", v.src)
		}
		quoted := expectQuoted(t, v.upper[8:], w.podB, w.gateOut)
		if got := uint16(quoted.upper[2])<<8 | uint16(quoted.upper[3]); got != port {
			t.Errorf("quotes port %d, want %d", got, port)
		}
		about.to = 12346 // no such flow
		tooBig = flow{src: router(w), dst: w.seenPodB}.tooBig(1280, about.udp(counting(1300))[:headers(w)-12])
		expectDrop(t, a.fromNode(tooBig), gateway.SpoofedSource)
	}
}

func TestT2_ErrorsOfARouterDoNotOpenSpoofing(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		quoted := func(src, dst string) []byte {
			return flow{src: src, dst: dst, from: 443, to: 12345}.tcp(ack, nil, counting(1300))[:headers(w)]
		}
		tooBig := func(src, dst string, quote []byte) []byte { return flow{src: src, dst: dst}.tooBig(1280, quote) }
		good := quoted(w.seenPodB, w.podA)
		damaged := tooBig(router(w), w.seenPodB, good)
		damaged[len(damaged)-1] ^= 1
		for name, c := range map[string]struct {
			b    []byte
			want gateway.Reason
		}{
			"about a packet to a pod of another node":        {tooBig(router(w), w.seenPodB, quoted(w.seenPodB, w.otherPodA)), gateway.SpoofedSource},
			"about a packet to a pod without a grant":        {tooBig(router(w), w.seenPodB, quoted(w.seenPodB, w.ungrantedPodA)), gateway.SpoofedSource},
			"about a packet to the gateway":                  {tooBig(router(w), w.seenPodB, quoted(w.seenPodB, w.gateway)), gateway.SpoofedSource},
			"about a packet to an address behind no node":    {tooBig(router(w), w.seenPodB, quoted(w.seenPodB, w.foreign)), gateway.SpoofedSource},
			"about a packet of this cluster":                 {tooBig(router(w), w.seenPodB, quoted(w.otherPodA, w.podA)), gateway.SpoofedSource},
			"about a packet of a host outside both clusters": {tooBig(router(w), w.foreign, quoted(w.foreign, w.podA)), gateway.SpoofedSource},
			"to another host than the quoted sender":         {tooBig(router(w), w.absentSeenPod, good), gateway.SpoofedSource},
			"from a pod of another node":                     {tooBig(w.otherPodA, w.seenPodB, good), gateway.SpoofedSource},
			"from another node":                              {tooBig(w.nodeWithout, w.seenPodB, good), gateway.SpoofedSource},
			"from an external address":                       {tooBig(w.nodeOut, w.seenPodB, good), gateway.SpoofedSource},
			"from the gateway":                               {tooBig(w.gateway, w.seenPodB, good), gateway.SpoofedSource},
			"from a host of the remote cluster":              {tooBig(w.seenNodeB, w.seenPodB, good), gateway.SpoofedSource},
			"from a multicast address":                       {tooBig(w.multicast, w.seenPodB, good), gateway.Martian},
			"with a wrong checksum":                          {damaged, gateway.SpoofedSource},
			"with a quote cut short":                         {tooBig(router(w), w.seenPodB, good[:12]), gateway.SpoofedSource},
			"a ping instead of an error":                     {flow{src: router(w), dst: w.seenPodB}.echo(good), gateway.SpoofedSource},
			"a UDP packet instead of an error":               {flow{src: router(w), dst: w.seenPodB}.udp(good), gateway.SpoofedSource},
		} {
			r := newA(t).fromNode(c.b)
			if r.Verdict != gateway.Drop || r.Reason != c.want || r.Answer != nil {
				t.Errorf("%s, %s: verdict %d, reason %q, want a drop as %q", w.podA, name, r.Verdict, r.Reason, c.want)
			}
		}
		// The same from another node, and to a gateway that has no external address to send it from.
		expectDrop(t, newA(t).fromNode2(tooBig(router(w), w.seenPodB, good)), gateway.SpoofedSource)
		without := newA(t, func(c *config.Gateway) { c.Overlay.ExternalAddresses = nil })
		expectDrop(t, without.fromNode(tooBig(router(w), w.seenPodB, good)), gateway.SpoofedSource)
	}
}
