package tun

import (
	"math/rand/v2"
	"testing"
	"time"

	"strait.dev/strait/packet"
)

// narrowLink is a link over a path that drops packets larger than it carries, in virtual time. No error reports them.
type narrowLink struct {
	prober  prober
	now     time.Time
	carries int          // bytes of inner packet
	loses   func() bool  // whether a large packet is lost whatever its size; nil: none is
	sent    map[int]uint // large packets, by size
}

func newNarrowLink(carries int) *narrowLink {
	return &narrowLink{now: time.Unix(1000, 0), carries: carries, sent: map[int]uint{}}
}

// run probes as Fabric does.
func (l *narrowLink) run(ceiling int, span time.Duration) {
	for end := l.now.Add(span); l.now.Before(end); l.now = l.now.Add(probeInterval) {
		l.cross(l.prober.ask(ceiling, l.now), 0)
		for asked := l.prober.askPath(ceiling, ceiling, l.now); len(asked) > 0; {
			answered := false
			for _, q := range asked {
				l.sent[q.size]++
				answered = l.cross(q.probe, q.size) || answered
			}
			if asked = nil; answered {
				asked = l.prober.askPath(ceiling, ceiling, l.now)
			}
		}
	}
}

// cross answers a probe that fits the path.
func (l *narrowLink) cross(q probe, size int) bool {
	if size > l.carries || size > 0 && l.loses != nil && l.loses() {
		return false
	}
	l.prober.answer(probe{kind: probeAnswer, sequence: q.sequence}, l.now)
	return true
}

func (l *narrowLink) check(t *testing.T, limit, carries int) {
	t.Helper()
	p := &l.prober.path
	if p.limit != limit || p.carries(carries, l.now) != carries {
		t.Errorf("limit %d, want %d; %d bytes cross: %v", p.limit, limit, carries, p.carries(carries, l.now) != 0)
	}
	if !l.prober.up(l.now) {
		t.Error("the link is down, though small packets cross")
	}
}

// Azure's network carries 1400 bytes between interfaces of 1500: 1340 inside of WireGuard.
func TestRFC8899_ASmallerPathIsFoundWithinSeconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ ceiling, carries, limit int }{
		{1440, 1340, 1328}, {1420, 1419, 1408}, {1440, 1200, 1200}, {1440, 1216, 1216}, {8940, 1440, 1440}, {1217, 1216, 1216}, {1217, 1215, 1200},
	} {
		l := newNarrowLink(c.carries)
		l.run(c.ceiling, 12*time.Second)
		l.check(t, c.limit, c.limit)
		l = newNarrowLink(c.ceiling)
		l.run(c.ceiling, time.Second)
		l.check(t, 0, c.ceiling)
	}
}

func TestRFC8899_APathThatChangesIsFoundAndTriedAgain(t *testing.T) {
	t.Parallel()
	l := newNarrowLink(1440)
	l.run(1440, time.Second)
	l.check(t, 0, 1440)
	l.carries = 1344 // the route changed
	l.run(1440, 20*time.Second)
	l.check(t, 1344, 1344)
	l.carries = 1300
	l.run(1440, 20*time.Second)
	l.check(t, 1296, 1296)
	l.carries = 1440
	l.run(1440, pathRaise+10*time.Second)
	l.check(t, 0, 1440)
}

// A limit that was found holds for a link that comes up again until it is known to be another one.
func TestALimitHoldsUntilAnotherIsFound(t *testing.T) {
	t.Parallel()
	l := newNarrowLink(1340)
	l.run(1440, 12*time.Second)
	l.now = l.now.Add(time.Minute) // nothing is answered
	l.prober.settle(l.now)
	l.cross(l.prober.ask(1440, l.now), 0)
	if p := &l.prober.path; p.settled || p.limit != 1328 {
		t.Errorf("settled %v with the limit %d when the link comes up", p.settled, p.limit)
	}
	l.run(1440, 12*time.Second)
	l.check(t, 1328, 1328)
	if !l.prober.path.settled {
		t.Error("not settled after a search")
	}
}

// The other end announces what it found, so both ends use the smaller size. Each still finds out when its own path carries
// more.
func TestALimitEndsAlthoughTheFarEndAnnouncesItToo(t *testing.T) {
	t.Parallel()
	l := newNarrowLink(1340)
	l.run(1440, 12*time.Second)
	l.prober.mtu = 1328
	l.run(1440, 12*time.Second)
	l.check(t, 1328, 1328)
	l.carries = 1440
	l.run(1440, pathRaise+10*time.Second)
	l.check(t, 0, 1440)
}

// Where not even the base size crosses, the search goes down to what every IPv4 host accepts. Below that, nothing says which
// size would cross.
func TestRFC8899_APathBelowTheBaseSizeIsFound(t *testing.T) {
	t.Parallel()
	l := newNarrowLink(1000)
	l.run(1440, time.Minute)
	l.check(t, 992, 992)
	l = newNarrowLink(500)
	l.run(1440, time.Minute)
	if p := &l.prober.path; p.limit != 0 || p.carries(1440, l.now) != 0 || !l.prober.up(l.now) {
		t.Errorf("limit %d, crosses %v", p.limit, p.carries(1440, l.now))
	}
}

// In overload, large packets are lost whatever their size. That is no reason to send smaller ones.
func TestRFC8899_LossInOverloadIsNoSmallerPath(t *testing.T) {
	t.Parallel()
	for _, loss := range []float64{0.1, 0.5, 0.94} {
		random := rand.New(rand.NewPCG(1, 2))
		l := newNarrowLink(1440)
		l.run(1440, time.Second)
		l.loses = func() bool { return random.Float64() < loss }
		l.run(1440, 10*time.Minute)
		if got := l.prober.path.limit; got != 0 {
			t.Errorf("with a loss of %v, the path is limited to %d", loss, got)
		}
	}
}

// Probes of the path are few, count as no loss, and the size that links need to be up is one that every path carries.
func TestRFC8899_ProbesOfThePathAreFewAndNoLoss(t *testing.T) {
	t.Parallel()
	const minutes = 10
	for _, carries := range []int{1440, 1340, 1000, 500} {
		l := newNarrowLink(carries)
		l.run(1440, minutes*time.Minute-time.Second) // without the next search
		if l.prober.lost != 0 {
			t.Errorf("%d probes count as lost on a link that loses only large packets", l.prober.lost)
		}
		sent := l.prober.next - l.prober.sent
		if most := uint64(2*minutes*time.Minute/pathInterval + 6*pathTries); sent > most {
			t.Errorf("%d large probes in %d minutes over a path that carries %d, want at most %d: %v", sent, minutes, carries, most, l.sent)
		}
	}
	if base := probeHeaders + probeLen; base > packet.MinIPv6MTU || base > pathBase {
		t.Errorf("a link needs packets of %d bytes to be up", base)
	}
	if pathInterval < probeInterval || pathStale < 2*pathInterval {
		t.Error("one lost probe is enough for a path that is too small")
	}
}
