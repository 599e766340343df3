package tun

import (
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/test/wait"
)

// A relayed connection counts as data, too.
func TestLinksAreProbedMoreOftenWhileDataCrosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Fabric{Gateway: gateway.New(new(gateway.Table))}
		f.links.Store(new([]*Link))
		host := gateway.NewOrigin(f.Gateway)
		for _, c := range []struct {
			data bool
			wait time.Duration // before
			want time.Duration
		}{{false, time.Minute, probeInterval}, {true, 0, activeProbeInterval}, {false, 2*time.Second - 1, activeProbeInterval}, {false, 1, probeInterval}, {true, time.Second, activeProbeInterval}} {
			time.Sleep(c.wait)
			if c.data {
				host.MarkActive(time.Now())
			}
			if got := f.tick(time.Now()); got != c.want {
				t.Errorf("data %v, %v later: the next probe follows after %v, want %v", c.data, c.wait, got, c.want)
			}
		}
	})
}

// Most links of a gateway with many carry nothing: to probe all of them as often as those that do takes CPU time for nothing.
func TestALinkWithoutDataIsProbedAsAtRestWhileOthersCarryData(t *testing.T) {
	t.Parallel()
	l := &Link{tun: &Device{Egress: new(gateway.Egress), Ingress: new(gateway.Ingress)}}
	now := time.Unix(1000, 0)
	ticks := func(active bool, span time.Duration) (count int) {
		interval := intervalOf(active)
		for end := now.Add(span); now.Before(end); now = now.Add(interval) {
			if l.due(active, now) {
				l.tick(testMTU, false, now)
				count++
			}
		}
		return count
	}
	const span = 10 * probeInterval
	for _, c := range []struct {
		state  string
		active bool
		data   func()
		want   int
	}{
		{"the gateway is at rest", false, func() {}, 10},
		{"data crosses other links", true, func() {}, 10},
		{"data of a node was sent", true, func() { l.tun.Egress.CountForwarded(1, 1) }, 20},
		{"data was sent within 2 s", true, func() {}, 9 + 10/2},
		{"data arrived", true, func() { l.tun.Ingress.CountForwarded(1, 1) }, 20},
		{"data was relayed", true, func() { now = now.Add(gateway.ActiveFor); l.tun.relayed.Add(1) }, 20},
		{"data crosses other links again", true, func() { now = now.Add(gateway.ActiveFor) }, 10},
	} {
		c.data()
		if got := ticks(c.active, span); got != c.want {
			t.Errorf("%s: %d ticks in %v, want %d", c.state, got, span, c.want)
		}
	}
}

// A link that has been up for some time without data rests, if the far end says how often it has ticks: one of an earlier version
// could take it for down.
func TestALinkWithoutDataHasHalfAsManyTicksOnceItIsUpForSomeTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		theirs time.Duration // between the ticks of the far end
		data   bool
		want   time.Duration
	}{
		{restingProbeInterval, false, restingProbeInterval},
		{activeProbeInterval, false, restingProbeInterval},
		{0, false, probeInterval},
		{restingProbeInterval, true, activeProbeInterval},
	} {
		l := &Link{tun: &Device{Egress: new(gateway.Egress), Ingress: new(gateway.Ingress)}}
		began := time.Unix(1000, 0)
		const span = 20 * restingProbeInterval
		var early, late int // ticks while the link has not settled, and in the span after that
		for now := began; now.Before(began.Add(settled + span)); now = now.Add(activeProbeInterval) {
			if c.data {
				l.tun.Egress.CountForwarded(1, 1)
			}
			if !l.due(true, now) {
				continue
			}
			if now.Before(began.Add(settled)) {
				early++
			} else {
				late++
			}
			p, _ := l.tick(testMTU, false, now)
			l.took(probe{kind: probeAnswer, sequence: p.sequence, interval: c.theirs}, now.Add(time.Millisecond))
		}
		if most := int(span/c.want) + 1; late < most-1 || late > most || early < int(settled/probeInterval) {
			t.Errorf("the far end has ticks each %v, data %v: %d ticks in %v, want %d; %d before that", c.theirs, c.data, late, span, most, early)
		}
	}
}

// An answer that waited for a handshake, or is padded, is no round trip. It was counted as one of up to 3 s.
func TestOnlyRoundTripsAreObserved(t *testing.T) {
	t.Parallel()
	const trip = 20 * time.Millisecond
	l := &Link{tun: &Device{Egress: new(gateway.Egress), Ingress: new(gateway.Ingress)}}
	now := time.Unix(1000, 0)
	answered := func(q probe, after time.Duration) taken {
		now = now.Add(after)
		return l.took(probe{kind: probeAnswer, sequence: q.sequence}, now)
	}
	if r := answered(l.prober.ask(testMTU, now), 2*time.Second); !r.answered || r.measured {
		t.Errorf("of the first answer, which waited: %+v", r)
	}
	for range 2 {
		if r := answered(l.prober.ask(testMTU, now), trip); !r.measured || r.rtt != trip {
			t.Errorf("a round trip of %v: %+v", trip, r)
		}
	}
	if r := answered(l.prober.question(testMTU, testMTU, now), time.Second); !r.answered || r.measured {
		t.Errorf("of a padded packet: %+v", r)
	}
	if r := l.took(probe{kind: probeStatement}, now); r.answered || r.measured {
		t.Errorf("of a statement: %+v", r)
	}
}

// Replaced links have no announcement yet. Nodes would change the MTU of their routes, and change it back.
func TestTheMTUOfTheRemoteHoldsUntilANewLinkAnnouncesOne(t *testing.T) {
	t.Parallel()
	var announced []int
	f := &Fabric{options: Options{AnnounceMTU: func(mtu int) { announced = append(announced, mtu) }}}
	for _, mtus := range [][]uint16{{}, {0}, {1390, 1400}, {0, 1400}, {0, 0}, {0, 1380}, {1400, 1}, {}} {
		var links []*Link
		for _, mtu := range mtus {
			links = append(links, &Link{prober: prober{mtu: mtu}})
		}
		f.links.Store(&links)
		f.announce(time.Now())
	}
	if want := []int{1390, 1400, 1380, minAnnouncedMTU, 0}; !slices.Equal(announced, want) {
		t.Errorf("announced %v, want %v", announced, want)
	}
}

// heldSettings are settings of WireGuard that do not end until they are released. WireGuard holds the lock of its settings
// while it reads them.
type heldSettings struct{ read, release chan struct{} }

func (h heldSettings) Read([]byte) (int, error) {
	close(h.read)
	<-h.release
	return 0, io.EOF
}

// A link that ends waits, with that lock held, for the goroutine that decrypts.
func TestAProbeIsAnsweredWhileWireGuardIsConfigured(t *testing.T) {
	t.Parallel()
	a, _ := joined(t)
	l := (*a.fabric.links.Load())[0]
	h, configured := heldSettings{make(chan struct{}), make(chan struct{})}, make(chan error)
	go func() { configured <- l.wg.IpcSetOperation(h) }()
	<-h.read
	defer func() {
		close(h.release)
		if err := <-configured; err != nil {
			t.Error(err)
		}
	}()
	l.tun.peerKnown.Store(false) // as before the first tick of an end that does not initiate
	var answered atomic.Bool
	go func() {
		a.fabric.receiveProbe(probe{kind: probeAsk, mtu: testMTU, sequence: 1}, l)
		answered.Store(true)
	}()
	wait.Until(t, "the probe is answered", answered.Load)
}
