package nat_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// sixteen are external addresses for a million mappings.
func sixteen() (all []netip.Addr) {
	a := families[0].external
	for range 16 {
		all = append(all, a)
		a = a.Next()
	}
	return all
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// many makes n flows, perMapping of them with each inside endpoint.
func many(t testing.TB, m *nat.Masquerade, n, perMapping int, now time.Time) {
	for i := range n {
		inside := nthInside(i / perMapping)
		if _, o := m.Out(packet.ProtoUDP, inside, end(families[0].remote, uint16(i%perMapping)), 1, 0, now); o != nat.Translated {
			t.Fatalf("flow %d: outcome %d", i, o)
		}
	}
}

// nthInside is one of 16 endpoints of each of many addresses.
func nthInside(i int) nat.Endpoint {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 0x50000000|uint32(i>>4))
	return end(netip.AddrFrom4(b), uint16(i&15))
}

func TestF20_T10_AMillionFlowsTakeLessThan256MB(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector's own memory counts; run without -race")
	}
	const n = 1_000_000
	for _, perMapping := range []int{1, 4} {
		before := heap()
		m := nat.NewMasquerade(nat.MasqueradeConfig{Flows: n, FlowsPerSource: 4096, Random: rand.NewPCG(1, 1), Epoch: epoch})
		m.Use(sixteen())
		many(t, m, n, perMapping, epoch)
		after := heap()
		s := m.Stats(epoch)
		used := after - before
		t.Logf("%d flows, %d mappings, %d sources: %.1f MB, %d bytes for each flow", s.Flows, s.Mappings, s.Sources, float64(used)/1e6, used/n)
		if s.Flows != n || s.Mappings != n/perMapping || used > 256e6 {
			t.Errorf("%d bytes, %+v", used, s)
		}
		if ended := m.Expire(epoch.Add(time.Hour)); ended != n {
			t.Errorf("%d flows ended", ended)
		}
	}
}

func TestTheDefaultTakesLessThan10MiB(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector's own memory counts; run without -race")
	}
	before := heap()
	m := nat.NewMasquerade(nat.MasqueradeConfig{Flows: 65536, FlowsPerSource: 4096, Random: rand.NewPCG(1, 1), Epoch: epoch})
	m.Use([]netip.Addr{families[0].external, families[1].external})
	used := heap() - before
	t.Logf("%.2f MiB, %d bytes", float64(used)/(1<<20), used)
	if used >= 10<<20 {
		t.Errorf("%d bytes", used)
	}
	runtime.KeepAlive(m)
}
