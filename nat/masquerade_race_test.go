package nat_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// crowd is what the goroutines of a race test agree on: the flow with a number
// has one inside and one remote, so the receiver of a translation can tell whether
// it is the right one.
type crowd struct{}

func (c crowd) inside(i uint32) nat.Endpoint {
	return end(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 0xcb000000|i>>2))), uint16(1000+i&3))
}

func (c crowd) remote(i uint32) nat.Endpoint {
	return end(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 0x0a470000|i%500))), uint16(i))
}

func (c crowd) origin(i uint32) uint32 { return i * 7 }

// seen is an external endpoint that a flow had at some time.
type seen struct {
	flow     uint32
	external nat.Endpoint
}

// One goroutine makes flows, three look them up as packets come in and errors do,
// one ends them, and one lists them, in a table so full that entries are used again
// all the time. Some flows are kept alive: those must be found every time, the
// others rightly or not at all. Some mappings always have a flow with a remote
// address, though never the same for long: those must be open to it every time.
func TestNoFlowGetsTheTranslationOfAnother(t *testing.T) {
	t.Parallel()
	const steady, transient, size = 50, 20000, 400
	var c crowd
	f := families[0]
	m := nat.NewMasquerade(nat.MasqueradeConfig{Flows: size, FlowsPerSource: size, Random: rand.NewPCG(7, 7), Epoch: epoch})
	m.Use([]netip.Addr{f.external, f.external2})

	var clock atomic.Int64 // seconds
	now := func() time.Time { return epoch.Add(time.Duration(clock.Load()) * time.Second) }
	var lately [256]atomic.Pointer[seen]
	var kept, open [steady]seen
	out := func(i uint32, port uint16) (nat.Endpoint, nat.Outcome) {
		return m.Out(packet.ProtoUDP, c.inside(i), end(c.remote(i).Addr, port), c.origin(i), 0, now())
	}
	for i := range uint32(steady) {
		external, _ := out(i, c.remote(i).Port)
		kept[i] = seen{i, external}
		external, _ = out(steady+i, 0)
		open[i] = seen{steady + i, external}
	}

	var stop atomic.Bool
	var wg sync.WaitGroup
	beside := func(work func(r *rand.Rand)) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, rand.Uint64()))
			for !stop.Load() {
				work(r)
			}
		})
	}
	check := func(s seen, must bool) {
		remote := c.remote(s.flow)
		inside, from, o := m.In(packet.ProtoUDP, remote, s.external, 0, now())
		if must && o != nat.Translated {
			t.Errorf("flow %d was not found", s.flow)
			stop.Store(true)
		}
		if o == nat.Translated && (inside != c.inside(s.flow) || from != c.origin(s.flow)) {
			t.Errorf("flow %d led to %v from %d, want %v from %d", s.flow, inside, from, c.inside(s.flow), c.origin(s.flow))
			stop.Store(true)
		}
		inside, from, ok := m.Inside(packet.ProtoUDP, remote, s.external)
		if must && !ok || ok && (inside != c.inside(s.flow) || from != c.origin(s.flow)) {
			t.Errorf("an error of flow %d led to %v from %d, %t", s.flow, inside, from, ok)
			stop.Store(true)
		}
		external, ok := m.Outside(packet.ProtoUDP, c.inside(s.flow), remote)
		if must && (!ok || external != s.external) {
			t.Errorf("flow %d is %v, %t, want %v", s.flow, external, ok, s.external)
			stop.Store(true)
		}
	}
	for range 3 {
		beside(func(r *rand.Rand) {
			check(kept[r.IntN(steady)], true)
			s := open[r.IntN(steady)]
			if inside, from, o := m.In(packet.ProtoUDP, end(c.remote(s.flow).Addr, 65000), s.external, 0, now()); o != nat.Translated || inside != c.inside(s.flow) || from != c.origin(s.flow) {
				t.Errorf("what is open led to %v from %d, outcome %d", inside, from, o)
				stop.Store(true)
			}
			if s := lately[r.IntN(len(lately))].Load(); s != nil {
				check(*s, false)
			}
		})
	}
	beside(func(*rand.Rand) { m.Expire(now()) })
	beside(func(*rand.Rand) {
		for x := range m.Flows {
			i := binary.BigEndian.Uint32(x.Inside.Addr.AsSlice())&0xffffff<<2 | uint32(x.Inside.Port-1000)
			if x.Remote.Addr != c.remote(i).Addr || x.Origin != c.origin(i) {
				t.Errorf("flow %d is listed as %+v", i, x)
				stop.Store(true)
			}
		}
		m.Stats(now())
	})

	// The clock runs with this goroutine's rounds, so that kept flows never time out.
	r := random()
	made, refused, port := 0, 0, [steady]uint16{}
	for round := 0; round < 30000 && !stop.Load(); round++ {
		if round%50 == 0 {
			clock.Add(40)
			for i := range uint32(steady) {
				if external, o := out(i, c.remote(i).Port); o != nat.Translated || external != kept[i].external {
					t.Fatalf("flow %d became %v, outcome %d", i, external, o)
				}
				if round%500 == 0 {
					if _, o := out(steady+i, port[i]+1); o == nat.Translated {
						port[i]++
					}
				}
				out(steady+i, port[i])
			}
		}
		i := 2*steady + r.Uint32N(transient)
		external, o := out(i, c.remote(i).Port)
		if o != nat.Translated {
			refused++
			continue
		}
		made++
		lately[r.IntN(len(lately))].Store(&seen{i, external})
	}
	stop.Store(true)
	wg.Wait()
	if made < 1000 || port[0] < 10 {
		t.Errorf("only %d flows were made, %d refused, and %d one after the other: this proves nothing", made, refused, port[0])
	}
	t.Logf("%d flows made, %d refused, %+v", made, refused, m.Stats(now()))
}

// Several goroutines make the same flows at once, as the links of a gateway do when a source's packets
// arrive at several: each inside endpoint gets one external endpoint, and each flow the origin of one of
// its packets.
func TestSeveralGoroutinesMakeFlows(t *testing.T) {
	t.Parallel()
	const links, insides, size = 4, 300, 4000
	var c crowd
	f := families[0]
	m := nat.NewMasquerade(nat.MasqueradeConfig{Flows: size, FlowsPerSource: size, Random: rand.NewPCG(7, 8), Epoch: epoch})
	m.Use([]netip.Addr{f.external, f.external2})
	got := make([][insides]nat.Endpoint, links)
	var wg sync.WaitGroup
	for link := range uint32(links) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(link), 1))
			for range 20 {
				for _, i := range r.Perm(insides) {
					inside, remote := c.inside(uint32(i)), c.remote(uint32(i)+r.Uint32N(3))
					external, o := m.Out(packet.ProtoUDP, inside, remote, uint32(i)*links+link, 0, epoch)
					if o != nat.Translated || got[link][i].Addr.IsValid() && external != got[link][i] {
						t.Errorf("endpoint %d becomes %v, outcome %d; it was %v", i, external, o, got[link][i])
						return
					}
					got[link][i] = external
					if back, origin, o := m.In(packet.ProtoUDP, remote, external, 0, epoch); o != nat.Translated || back != inside || origin/links != uint32(i) {
						t.Errorf("a reply to endpoint %d goes to %v from %d, outcome %d", i, back, origin, o)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	taken := make(map[nat.Endpoint]bool)
	for i := range insides {
		for link := range links {
			if got[link][i] != got[0][i] {
				t.Errorf("endpoint %d is %v for one link and %v for another", i, got[0][i], got[link][i])
			}
		}
		if taken[got[0][i]] {
			t.Errorf("%v has two endpoints", got[0][i])
		}
		taken[got[0][i]] = true
	}
}
