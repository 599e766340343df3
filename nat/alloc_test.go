package nat_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

func TestTranslationAllocatesNothing(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates; run without -race")
	}
	for _, a := range []struct{ src, dst netip.Addr }{{podA, seenB}, {podA6, seenB6}} {
		m := mapFor(t, a.dst, a.src, 16)
		back := m.Reverse()
		var h, q packet.IP
		b := whole(packet.ProtoTCP, a.src, a.dst, make([]byte, 100))
		about := icmpError(a.dst, a.src, b)
		for name, run := range map[string]func(){
			"Translate": func() { m.Translate(a.dst) },
			"Rewrite": func() {
				packet.Parse(b, &h)
				nat.Rewrite(b, &h, nil, m)
				nat.Rewrite(b, &h, nil, back)
			},
			"RewriteQuote": func() {
				packet.Parse(about, &h)
				quote, _ := packet.ParseQuote(about, &h, &q)
				nat.RewriteQuote(about, &h, quote, &q, nil, m)
				nat.RewriteQuote(about, &h, quote, &q, nil, back)
			},
		} {
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("%s, IPv%d: %v allocations", name, h.Version, n)
			}
		}
	}
}

func TestMasqueradingAllocatesNothing(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates; run without -race")
	}
	for _, f := range families {
		const size = 64
		m := nat.NewMasquerade(nat.MasqueradeConfig{Flows: size, FlowsPerSource: size / 2, Random: rand.NewPCG(1, 2), Epoch: epoch})
		m.Use([]netip.Addr{f.external, f.external2})
		now, n := epoch, uint16(0)
		inside, remote := end(f.inside, 9), end(f.remote, 80)
		external, _ := m.Out(packet.ProtoTCP, inside, remote, 1, syn, now)
		b := whole(packet.ProtoTCP, f.inside, f.remote, make([]byte, 100))
		about := icmpError(f.remote, f.inside, b)
		var h, q packet.IP
		for name, run := range map[string]func(){
			"Out":     func() { m.Out(packet.ProtoTCP, inside, remote, 1, ack, now) },
			"In":      func() { m.In(packet.ProtoTCP, remote, external, ack, now) },
			"Inside":  func() { m.Inside(packet.ProtoTCP, remote, external) },
			"Outside": func() { m.Outside(packet.ProtoTCP, inside, remote) },
			"Out of a new flow, and Expire": func() {
				now, n = now.Add(3*time.Second), n+1
				m.Out(packet.ProtoUDP, end(f.inside2, n/2), end(f.remote, n), 1, 0, now)
				m.Expire(now)
			},
			"Out in a full table": func() {
				for range size {
					n++
					for _, source := range []netip.Addr{f.inside, f.inside2, f.remote2} {
						m.Out(packet.ProtoUDP, end(source, n/8), end(f.remote, n), 1, 0, now)
					}
				}
				now = now.Add(150 * time.Second)
			},
			"Replace": func() {
				packet.Parse(b, &h)
				nat.ReplaceSource(b, &h, external)
				nat.ReplaceDestination(b, &h, remote)
			},
			"ReplaceQuoted": func() {
				packet.Parse(about, &h)
				quote, _ := packet.ParseQuote(about, &h, &q)
				nat.ReplaceQuotedSource(about, &h, quote, &q, inside)
				nat.ReplaceQuotedDestination(about, &h, quote, &q, remote)
			},
		} {
			if n := testing.AllocsPerRun(200, run); n != 0 {
				t.Errorf("%s, %s: %v allocations", name, f.name, n)
			}
		}
		if s := m.Stats(now); s.Expired == 0 || s.Evicted == 0 || s.RefusedQuota == 0 || s.RefusedFlows == 0 {
			t.Errorf("%s: not everything was tried: %+v", f.name, s)
		}
	}
}
