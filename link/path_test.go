package link

import (
	"math/rand/v2"
	"testing"
	"time"

	"strait.dev/strait/packet"
)

// narrowLink is a link over a path that drops packets larger than it carries, in virtual time. No error reports them.
type narrowLink struct {
	path    Path
	now     time.Time
	carries int          // bytes of inner packet
	loses   func() bool  // whether a large packet is lost whatever its size; nil: none is
	sent    map[int]uint // probes, by size

	announced int // MTU of the far end; 0 = none
}

func newNarrowLink(carries int) *narrowLink {
	return &narrowLink{now: time.Unix(1000, 0), carries: carries, sent: map[int]uint{}}
}

// run probes as Fabric does.
func (l *narrowLink) run(ceiling int, span time.Duration) {
	for end := l.now.Add(span); l.now.Before(end); l.now = l.now.Add(Interval) {
		for answered := true; answered; {
			answered = false
			target := ceiling
			if l.announced != 0 {
				target = min(target, l.announced)
			}
			size, smaller := l.path.Ask(target, ceiling, Interval, l.now)
			for _, s := range []int{size, smaller} {
				if s != 0 {
					l.sent[s]++
					answered = l.cross(s) || answered
				}
			}
		}
	}
}

// cross answers a probe that fits the path.
func (l *narrowLink) cross(size int) bool {
	if size > l.carries || l.loses != nil && l.loses() {
		return false
	}
	l.path.Answer(size, l.now)
	return true
}

func (l *narrowLink) check(t *testing.T, limit, carries int) {
	t.Helper()
	p := &l.path
	if p.Limit != limit || p.Carries(carries, l.now) != carries {
		t.Errorf("limit %d, want %d; %d bytes cross: %v", p.Limit, limit, carries, p.Carries(carries, l.now) != 0)
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
	l.path.restart(1440, 1440)     // the link comes up
	if p := &l.path; p.Settled || p.Limit != 1328 {
		t.Errorf("settled %v with the limit %d when the link comes up", p.Settled, p.Limit)
	}
	l.run(1440, 12*time.Second)
	l.check(t, 1328, 1328)
	if !l.path.Settled {
		t.Error("not settled after a search")
	}
}

// The other end announces what it found, so both ends use the smaller size. Each still finds out when its own path carries
// more.
func TestALimitEndsAlthoughTheFarEndAnnouncesItToo(t *testing.T) {
	t.Parallel()
	l := newNarrowLink(1340)
	l.run(1440, 12*time.Second)
	l.announced = 1328
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
	if p := &l.path; p.Limit != 0 || p.Carries(1440, l.now) != 0 {
		t.Errorf("limit %d, crosses %v", p.Limit, p.Carries(1440, l.now))
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
		if got := l.path.Limit; got != 0 {
			t.Errorf("with a loss of %v, the path is limited to %d", loss, got)
		}
	}
}

// Probes of the path are few, and the size that links need to be up is one that every path carries.
func TestRFC8899_ProbesOfThePathAreFew(t *testing.T) {
	t.Parallel()
	const minutes = 10
	for _, carries := range []int{1440, 1340, 1000, 500} {
		l := newNarrowLink(carries)
		l.run(1440, minutes*time.Minute-time.Second) // without the next search
		sent := uint(0)
		for _, n := range l.sent {
			sent += n
		}
		if most := uint(2*minutes*time.Minute/pathInterval + 6*pathTries); sent > most {
			t.Errorf("%d large probes in %d minutes over a path that carries %d, want at most %d: %v", sent, minutes, carries, most, l.sent)
		}
	}
	if base := packet.IPv6HeaderLen + packet.UDPHeaderLen + ProbeLen; base > packet.MinIPv6MTU || base > pathBase {
		t.Errorf("a link needs packets of %d bytes to be up", base)
	}
	if pathInterval < Interval || pathStale < 2*pathInterval {
		t.Error("one lost probe is enough for a path that is too small")
	}
}

func TestPathIsProbedAtOnceAndAgain(t *testing.T) {
	t.Parallel()
	const wait = 100 * time.Millisecond
	var p Path
	now := time.Unix(1000, 0)
	sizes := func(mtu int) [2]int {
		size, smaller := p.Ask(mtu, mtu, wait, now)
		return [2]int{size, smaller}
	}
	if got := sizes(1420); got != [2]int{1420, pathBase} {
		t.Fatalf("asks %v when the link comes up, want the MTU and a smaller size", got)
	}
	if sizes(1420) != [2]int{} || p.Carries(1420, now) != 0 {
		t.Error("asks again at once, or counts an answer that has not come")
	}
	if p.Answer(1420, now); p.Carries(1420, now) != 1420 || sizes(1420) != [2]int{} {
		t.Error("asks again although the size has crossed")
	}
	begun := now
	now = now.Add(pathInterval)
	if got := sizes(1420); got != [2]int{1420} {
		t.Errorf("asks %v after %v", got, pathInterval)
	}
	if p.Carries(1420, begun.Add(pathStale-1)) != 1420 || p.Carries(1420, begun.Add(pathStale)) != 0 {
		t.Errorf("the answer does not count for %v", pathStale)
	}
	if got := sizes(1400); got[0] != 1400 {
		t.Errorf("asks %v of another MTU", got)
	}
}
