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

func TestRFC6888REQ4_RFC6888REQ5_T10_ASourceHasNoMoreFlowsThanItsQuota(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			m := newMasquerade(t, 100, 10, f.external)
			greedy := func(n uint16, want nat.Outcome) {
				t.Helper()
				if _, o := m.Out(packet.ProtoUDP, end(f.inside, n), end(f.remote, n%3), 1, 0, m.now); o != want {
					t.Fatalf("flow %d: outcome %d, want %d", n, o, want)
				}
			}
			for n := range uint16(10) {
				greedy(n, nat.Translated)
			}
			for n := uint16(10); n < 30; n++ {
				greedy(n, nat.Quota)
			}
			for n := range uint16(10) {
				greedy(n, nat.Translated) // those that are there go on
				m.out(packet.ProtoUDP, end(f.inside2, n), end(f.remote, 1), 0)
			}
			if s := m.Stats(m.now); s.RefusedQuota != 20 || s.Flows != 20 || s.Sources != 2 {
				t.Errorf("%+v", s)
			}
			m.pass(6 * time.Minute)
			greedy(99, nat.Translated)
			if s := m.Stats(m.now); s.Sources != 1 || s.Expired != 20 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestRFC6888REQ11_RFC5508REQ8_T10_F19_AFullTableRefusesAndLeavesFlowsAlone(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			const n = 200
			m := newMasquerade(t, n, n, f.external)
			var external [n]nat.Endpoint
			for i := range external {
				external[i] = m.out(packet.ProtoUDP, end(f.inside, uint16(i)), end(f.remote, 53), 0)
				m.in(packet.ProtoUDP, end(f.remote, 53), external[i], 0)
			}
			m.pass(4 * time.Minute) // long idle, but answered
			inside := f.inside2
			for range 1000 {
				if _, o := m.Out(packet.ProtoUDP, end(inside, 1), end(f.remote, 53), 1, 0, m.now); o != nat.Exhausted {
					t.Fatalf("outcome %d", o)
				}
				inside = inside.Next()
			}
			for i := range external {
				if got := m.in(packet.ProtoUDP, end(f.remote, 53), external[i], 0); got != end(f.inside, uint16(i)) {
					t.Fatalf("%v leads to %v", external[i], got)
				}
				if got := m.out(packet.ProtoUDP, end(f.inside, uint16(i)), end(f.remote, 53), 0); got != external[i] {
					t.Fatalf("%v became %v", external[i], got)
				}
			}
			if s := m.Stats(m.now); s.RefusedFlows != 1000 || s.Evicted != 0 || s.Flows != n || s.Sources != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestT10_AFullTableEvictsUnansweredFlows(t *testing.T) {
	t.Parallel()
	f := families[0]
	const n = 256
	m := newMasquerade(t, n, n, f.external)
	for i := range uint16(n) {
		external := m.out(packet.ProtoUDP, end(f.inside, i), end(f.remote, 53), 0)
		if i%2 == 0 {
			m.in(packet.ProtoUDP, end(f.remote, 53), external, 0)
		}
	}
	try := func(port uint16) nat.Outcome {
		_, o := m.Out(packet.ProtoUDP, end(f.inside2, port), end(f.remote, 53), 1, 0, m.now)
		return o
	}
	m.pass(2 * time.Minute)
	if o := try(1); o != nat.Exhausted {
		t.Errorf("after 2 minutes: outcome %d", o)
	}
	m.pass(time.Second)
	for port := range uint16(20) {
		if o := try(port); o != nat.Translated {
			t.Errorf("after more than 2 minutes: outcome %d", o)
		}
	}
	answered := 0
	for x := range m.Flows {
		if x.Answered {
			answered++
		}
	}
	if s := m.Stats(m.now); answered != n/2 || s.Evicted != 20 || s.Flows != n || s.Expired != 0 {
		t.Errorf("%d answered, %+v", answered, s)
	}
	// What has timed out goes first, whether Expire has come or not.
	m.now = m.now.Add(time.Hour)
	if o := try(1000); o != nat.Translated {
		t.Errorf("an hour later: outcome %d", o)
	}
	if s := m.Stats(m.now); s.Expired != 1 {
		t.Errorf("%+v", s)
	}
}

func TestRFC6888REQ8_APortRestsForTwoMinutes(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("one goroutine only; run without -race")
	}
	t.Parallel()
	// All ports but a few are in use, so that those that come free are found.
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			const ports = 65536 - 1024
			m := newMasquerade(t, ports+10, ports+10, f.external)
			for i := range ports {
				m.out(packet.ProtoUDP, end(f.inside, uint16(i)), end(f.remote, 53), 0)
			}
			another := func(want nat.Outcome) nat.Endpoint {
				t.Helper()
				external, o := m.Out(packet.ProtoUDP, end(f.inside2, 7), end(f.remote, 53), 1, 0, m.now)
				if o != want {
					t.Fatalf("outcome %d, want %d", o, want)
				}
				return external
			}
			another(nat.Exhausted)
			if s := m.Stats(m.now); s.RefusedPorts != 1 || s.Mappings != ports || s.Resting != 0 {
				t.Fatalf("%+v", s)
			}

			// One of them ends.
			m.now = m.now.Add(5 * time.Minute)
			for i := 1; i < ports; i++ {
				m.out(packet.ProtoUDP, end(f.inside, uint16(i)), end(f.remote, 53), 0)
			}
			m.pass(time.Second)
			if s := m.Stats(m.now); s.Mappings != ports-1 || s.Resting != 1 {
				t.Fatalf("%+v", s)
			}
			m.pass(time.Minute)
			another(nat.Exhausted)
			m.pass(time.Minute)
			another(nat.Exhausted)
			m.pass(time.Second)
			if s := m.Stats(m.now); s.Resting != 0 {
				t.Fatalf("%+v", s)
			}
			another(nat.Translated)
			if s := m.Stats(m.now); s.Mappings != ports {
				t.Fatalf("%+v", s)
			}
		})
	}
}

// counting is a source of randomness that tells how much was taken.
type counting struct {
	rand.Source
	taken int
}

func (c *counting) Uint64() uint64 { c.taken++; return c.Source.Uint64() }

func TestT10_PortsKnownToBeTakenAreNotSearched(t *testing.T) {
	t.Parallel()
	f := families[0]
	const ports = 65536 - 1024
	random := &counting{Source: rand.NewPCG(1, 1)}
	m := nat.NewMasquerade(nat.MasqueradeConfig{Flows: 2 * ports, FlowsPerSource: 2 * ports, Random: random, Epoch: epoch})
	m.Use([]netip.Addr{f.external})
	for i := range ports + 1 {
		m.Out(packet.ProtoUDP, end(f.inside, uint16(i)), end(f.remote, 53), 1, 0, epoch)
	}
	before := random.taken
	for i := range 1000 {
		for _, inside := range []nat.Endpoint{end(f.inside, 65000), end(f.inside2, uint16(i))} {
			if _, o := m.Out(packet.ProtoUDP, inside, end(f.remote, 53), 1, 0, epoch.Add(time.Minute)); o != nat.Exhausted {
				t.Fatalf("outcome %d", o)
			}
		}
	}
	if random.taken != before {
		t.Errorf("%d random numbers were taken for nothing", random.taken-before)
	}
}

func TestAnotherExternalAddressHelpsWhenPortsRunOut(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("one goroutine only; run without -race")
	}
	t.Parallel()
	f := families[0]
	const ports = 65536 - 1024
	m := newMasquerade(t, 2*ports, 2*ports, f.external, f.external2)
	first := m.out(packet.ProtoUDP, end(f.inside, 0), end(f.remote, 53), 0).Addr
	for i := 1; i < ports; i++ {
		m.out(packet.ProtoUDP, end(f.inside, uint16(i)), end(f.remote, 53), 0)
	}
	if _, o := m.Out(packet.ProtoUDP, end(f.inside, ports), end(f.remote, 53), 1, 0, m.now); o != nat.Exhausted {
		t.Errorf("a source that has an address gets another: outcome %d", o)
	}
	if got := m.out(packet.ProtoTCP, end(f.inside, ports), end(f.remote, 53), syn).Addr; got != first {
		t.Errorf("TCP of %v leaves as %v", f.inside, got)
	}
	inside := f.inside2
	for range 50 {
		if got := m.out(packet.ProtoUDP, end(inside, 1), end(f.remote, 53), 0).Addr; got == first {
			t.Errorf("%v has a port of %v, which has none", inside, got)
		}
		inside = inside.Next()
	}
}

func TestRFC6888REQ15_PortsAreHardToGuess(t *testing.T) {
	t.Parallel()
	inEachFamily(t, func(t *testing.T, f family, _ *masquerade) {
		const n, bins = 20000, 16
		m := newMasquerade(t, 3*n, 3*n, f.external)
		for _, proto := range f.protos() {
			first := 1024
			if proto == f.icmp {
				first = 1
			}
			var spread, step [bins]int
			last := 0
			for i := range uint16(n) {
				port := int(m.out(proto, end(f.inside, i), f.to(proto, f.remote, 53), syn).Port)
				if port < first {
					t.Fatalf("protocol %d: port %d", proto, port)
				}
				spread[(port-first)*bins/(65536-first)]++
				step[(port-last+65536)%65536*bins/65536]++
				last = port
			}
			// Each bin expects 1250 of 20000, with a deviation below 35.
			for b := range bins {
				if spread[b] < 1000 || spread[b] > 1500 || step[b] < 1000 || step[b] > 1500 {
					t.Errorf("protocol %d: ports %v, steps %v", proto, spread, step)
					break
				}
			}
		}
		other := nat.NewMasquerade(nat.MasqueradeConfig{Flows: 10, FlowsPerSource: 10, Random: rand.NewPCG(1, 2), Epoch: epoch})
		other.Use([]netip.Addr{f.external})
		m = newMasquerade(t, 10, 10, f.external)
		same := 0
		for i := range uint16(10) {
			a, _ := other.Out(packet.ProtoUDP, end(f.inside, i), end(f.remote, 53), 1, 0, epoch)
			if a == m.out(packet.ProtoUDP, end(f.inside, i), end(f.remote, 53), 0) {
				same++
			}
		}
		if same > 1 {
			t.Errorf("with another seed %d of 10 ports are the same", same)
		}
	})
}

func TestATableWithoutCapacityRefusesEveryFlow(t *testing.T) {
	t.Parallel()
	f := families[0]
	for _, c := range []struct {
		flows, perSource int
		want             nat.Outcome
	}{{0, 10, nat.Quota}, {-1, -1, nat.Quota}, {10, 0, nat.Quota}, {1, 10, nat.Translated}} {
		m := newMasquerade(t, c.flows, c.perSource, f.external)
		if _, o := m.Out(packet.ProtoUDP, end(f.inside, 1), end(f.remote, 53), 1, 0, m.now); o != c.want {
			t.Errorf("%d flows, %d for each source: outcome %d", c.flows, c.perSource, o)
		}
		m.refuses(packet.ProtoUDP, end(f.remote2, 53), end(f.external, 1024), 0)
		m.pass(time.Hour)
	}
}
