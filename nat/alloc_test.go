package nat_test

import (
	"net/netip"
	"testing"

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
