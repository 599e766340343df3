package nat_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// full is a masquerade with n flows, each of another inside endpoint, and their
// external endpoints.
func full(b *testing.B, n int) (m *nat.Masquerade, external []nat.Endpoint) {
	m = nat.NewMasquerade(nat.MasqueradeConfig{Flows: n + 1, FlowsPerSource: 4096, Random: rand.NewPCG(1, 1), Epoch: epoch})
	m.Use(sixteen())
	external = make([]nat.Endpoint, n)
	for i := range external {
		external[i], _ = m.Out(packet.ProtoUDP, nthInside(i), end(families[0].remote, 53), 1, 0, epoch)
	}
	b.ReportAllocs()
	return m, external
}

var sizes = []struct {
	name string
	n    int
}{{"1flow", 1}, {"64Kflows", 1 << 16}, {"512Kflows", 1 << 19}}

func BenchmarkMasqueradeOut(b *testing.B) {
	for _, s := range sizes {
		b.Run(s.name, func(b *testing.B) {
			m, _ := full(b, s.n)
			i := 0
			for b.Loop() {
				i = (i + 7919) % s.n
				m.Out(packet.ProtoUDP, nthInside(i), end(families[0].remote, 53), 1, 0, epoch)
			}
		})
	}
}

func BenchmarkMasqueradeIn(b *testing.B) {
	for _, s := range sizes {
		b.Run(s.name, func(b *testing.B) {
			m, external := full(b, s.n)
			i := 0
			for b.Loop() {
				i = (i + 7919) % s.n
				m.In(packet.ProtoUDP, end(families[0].remote, 53), external[i], 0, epoch)
			}
		})
	}
}

// A new flow each time; every 64 K of them time out, uncounted.
func BenchmarkMasqueradeOutMakesAFlow(b *testing.B) {
	const n = 1 << 16
	m := nat.NewMasquerade(nat.MasqueradeConfig{Flows: n, FlowsPerSource: 4096, Random: rand.NewPCG(1, 1), Epoch: epoch})
	m.Use(sixteen())
	b.ReportAllocs()
	now, i := epoch, 0
	for b.Loop() {
		if i == n {
			b.StopTimer()
			now, i = now.Add(time.Hour), 0
			m.Expire(now)
			b.StartTimer()
		}
		m.Out(packet.ProtoUDP, nthInside(i), end(families[0].remote, 53), 1, 0, now)
		i++
	}
}

func BenchmarkMasqueradeOutRefused(b *testing.B) {
	m, _ := full(b, 1<<16)
	m.Out(packet.ProtoUDP, nthInside(1<<20), end(families[0].remote, 53), 1, 0, epoch)
	for b.Loop() {
		m.Out(packet.ProtoUDP, nthInside(1<<20), end(families[0].remote2, 53), 1, 0, epoch)
	}
}

func BenchmarkMasqueradeExpireOf512KThatStay(b *testing.B) {
	m, _ := full(b, 1<<19)
	for b.Loop() {
		m.Expire(epoch)
	}
}

func BenchmarkMasqueradeExpireOf512KThatEnd(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		m, _ := full(b, 1<<19)
		b.StartTimer()
		m.Expire(epoch.Add(time.Hour))
	}
}

func BenchmarkMasqueradeStatsOf16Addresses(b *testing.B) {
	m, _ := full(b, 1)
	for b.Loop() {
		m.Stats(epoch)
	}
}
