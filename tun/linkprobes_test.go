package tun

import (
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"strait.dev/strait/link"
	"strait.dev/strait/test/wait"
)

// A probe that waited for a handshake gives no round trip. It was counted as one of up to 3 s.
func TestOnlyRoundTripsAreObserved(t *testing.T) {
	t.Parallel()
	const trip = 20 * time.Millisecond
	var s linkState
	now := time.Unix(1000, 0)
	crosses := func(after time.Duration) taken {
		sent := s.tick(time.Time{}, testMTU, false, now)
		now = now.Add(after)
		return s.took(link.Probe{Kind: link.Hello, Sequence: sent.Sequence, Arrived: sent.Sequence}, now)
	}
	if r := crosses(2 * time.Second); !r.changed || r.rtt != 0 {
		t.Errorf("of the first probe, which waited: %+v", r)
	}
	for range 2 {
		if r := crosses(trip); r.rtt != trip {
			t.Errorf("a round trip of %v: %+v", trip, r)
		}
	}
	if r := s.took(link.Probe{Kind: link.Hello, Sequence: 10, Arrived: 3}, now.Add(time.Second)); r.rtt != 0 {
		t.Errorf("of a probe that says nothing new: %+v", r)
	}
}

// Replaced links have no announcement yet. Nodes would change the MTU of their routes, and change it back.
func TestTheMTUOfTheRemoteHoldsUntilANewLinkAnnouncesOne(t *testing.T) {
	t.Parallel()
	var announced []int
	m := &mtus{links: new(linkList), announce: func(mtu int) { announced = append(announced, mtu) }}
	for _, mtus := range [][]uint16{{}, {0}, {1390, 1400}, {0, 1400}, {0, 0}, {0, 1380}, {1400, 1}, {}} {
		var links []*Link
		for _, mtu := range mtus {
			links = append(links, &Link{state: linkState{prober: link.Prober{Last: link.Probe{MTU: mtu}}}})
		}
		m.links.set(links)
		m.update(time.Now())
	}
	if want := []int{1390, 1400, 1380, link.MinMTU, 0}; !slices.Equal(announced, want) {
		t.Errorf("announced %v, want %v", announced, want)
	}
}

// Each change builds a table, writes a log line and makes all nodes change their routes, and a far end sends 12 probes a second.
func TestT10_AFarEndThatChangesItsMTUAllTheTimeChangesItSeldom(t *testing.T) {
	t.Parallel()
	var announced []int
	l := &Link{}
	m := &mtus{links: new(linkList), announce: func(mtu int) { announced = append(announced, mtu) }}
	m.links.set([]*Link{l})
	now := time.Unix(1000, 0)
	const minutes = 10
	for tick := range minutes * time.Minute / link.Interval {
		l.state.prober.Last.MTU = uint16(1300 + tick%100)
		m.update(now.Add(tick * link.Interval))
	}
	if most := mtuBurst + int(minutes*time.Minute/mtuInterval); len(announced) < most-1 || len(announced) > most {
		t.Errorf("%d changes in %d minutes, want %d", len(announced), minutes, most)
	}
	// What it says in the end counts.
	l.state.prober.Last.MTU = 1234
	m.update(now.Add(minutes*time.Minute + mtuInterval))
	if last := announced[len(announced)-1]; last != 1234 {
		t.Errorf("in effect is %d", last)
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
	l := a.fabric.links.all()[0]
	h, configured := heldSettings{make(chan struct{}), make(chan struct{})}, make(chan error)
	go func() { configured <- l.wg.device.IpcSetOperation(h) }()
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
		a.fabric.prober.receive(link.Probe{Kind: link.AskSize, MTU: testMTU, Sequence: 1}, l)
		answered.Store(true)
	}()
	wait.Until(t, "the probe is answered", answered.Load)
}
