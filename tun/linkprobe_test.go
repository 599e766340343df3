package tun

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/packet"
)

func TestProbeSurvivesTheWire(t *testing.T) {
	t.Parallel()
	for _, want := range []probe{
		{kind: probeAnswer, mtu: 1420, sequence: 1<<63 + 7, silence: 12345 * time.Millisecond},
		{kind: probeAsk, sequence: 1, silence: maxSilence},
		{kind: probeStatement, mtu: 1420, silence: time.Millisecond},
		{kind: probeAsk, sequence: 1, silence: unstated}, // version 1
	} {
		b := want.append(nil)
		for _, tail := range [][]byte{nil, {1, 2, 3}, make([]byte, 100)} { // padding; later versions may append fields
			if got, ok := parseProbe(append(b, tail...)); !ok || got != want {
				t.Errorf("with %d bytes behind: parsed %+v, %v; want %+v", len(tail), got, ok, want)
			}
		}
	}
}

func TestAProbeHasTheseBytes(t *testing.T) {
	t.Parallel()
	p := probe{kind: probeAnswer, mtu: 1420, sequence: 0x0102030405060708, silence: 258 * time.Millisecond, interval: restingProbeInterval}
	want := []byte{'S', 'T', 'R', 'P', 2, 2, 0x05, 0x8c, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1, 2, 28}
	if b := p.append(nil); !bytes.Equal(b, want) || len(b) != probeLen {
		t.Errorf("% x, want % x", b, want)
	}
	if q, ok := parseProbe(want[:probeLen2]); !ok || q.interval != 0 || q.silence != p.silence {
		t.Errorf("without interval: %+v, %t", q, ok)
	}
	p.silence, want = unstated, append(append([]byte("STRP"), 1), want[5:probeLen1]...)
	if b := p.append(nil); !bytes.Equal(b, want) {
		t.Errorf("version 1: % x, want % x", b, want)
	}
}

func TestMalformedProbesAreIgnored(t *testing.T) {
	t.Parallel()
	good := probe{kind: probeAsk, sequence: 1}.append(nil)
	for name, damage := range map[string]func(b []byte) []byte{
		"cut short":              func(b []byte) []byte { return b[:probeLen2-1] },
		"version 1, cut short":   func(b []byte) []byte { b[4] = 1; return b[:probeLen1-1] },
		"later, without silence": func(b []byte) []byte { b[4] = 3; return b[:probeLen1] },
		"other magic":            func(b []byte) []byte { b[0]++; return b },
		"version 0":              func(b []byte) []byte { b[4] = 0; return b },
		"unknown kind":           func(b []byte) []byte { b[5] = 5; return b },
		"nothing there":          func([]byte) []byte { return nil },
	} {
		if p, ok := parseProbe(damage(append([]byte(nil), good...))); ok {
			t.Errorf("%s: taken for %+v", name, p)
		}
	}
}

func FuzzParseProbe(f *testing.F) {
	f.Add(probe{kind: probeAsk, mtu: 1420, sequence: 1}.append(nil))
	f.Add(probe{kind: probeAnswer, sequence: 1 << 40, silence: maxSilence}.append(nil))
	f.Add(probe{kind: probeLeaving, sequence: 7, silence: unstated}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := parseProbe(b)
		if !ok {
			return
		}
		if p.silence != unstated && (p.silence < 0 || p.silence > maxSilence) {
			t.Errorf("a silence of %v", p.silence)
		}
		if again, ok := parseProbe(p.append(nil)); !ok || again != p {
			t.Errorf("%+v became %+v on the wire", p, again)
		}
		var link prober
		link.told(p, time.Unix(1000, 0))
		link.answer(p, time.Unix(1000, 0))
		if link.up(time.Unix(1000, 0)) {
			t.Errorf("%+v brings a link up that has asked nothing", p)
		}
	})
}

// steady is one end of a link with a constant round-trip time, in virtual time.
type steady struct {
	prober
	now     time.Time
	rtt     time.Duration
	due     time.Time // of the next request
	answers []steadyAnswer
	cut     bool // no request is answered
}

type steadyAnswer struct {
	probe
	at time.Time
}

// run sends a request in each interval and takes the answers, until a time.
func (s *steady) run(until time.Time) {
	for {
		next := s.due
		if len(s.answers) > 0 && s.answers[0].at.Before(next) {
			next = s.answers[0].at
		}
		if next.After(until) {
			s.now = until
			return
		}
		s.now = next
		if next.Equal(s.due) {
			q := s.ask(1420, next)
			if !s.cut {
				s.answers = append(s.answers, steadyAnswer{probe{kind: probeAnswer, sequence: q.sequence}, next.Add(s.rtt)})
			}
			s.due = s.due.Add(intervalOf(s.active))
			continue
		}
		s.answer(s.answers[0].probe, next)
		s.answers = s.answers[1:]
	}
}

// goesDown returns when the link is found down, which expires has announced.
func (s *steady) goesDown(t *testing.T) time.Time {
	t.Helper()
	for range 100 {
		at := s.expires(s.now)
		if at.IsZero() || at.After(s.due) {
			at = s.due
		}
		s.run(at)
		if s.settle(at); s.failed {
			return at
		}
	}
	t.Fatal("the link stays up")
	return time.Time{}
}

// newSteady returns a link that has been up for some time.
func newSteady(rtt time.Duration) *steady { return newSteadyLink(rtt, false) }

// newSteadyLink is newSteady for a link that data may cross.
func newSteadyLink(rtt time.Duration, active bool) *steady {
	start := time.Unix(1000, 0)
	s := &steady{now: start, due: start, rtt: rtt}
	s.active = active
	s.run(start.Add(20 * time.Second))
	return s
}

// A link that is cut, at any time between two probes, is down within 0.29 s of the last answer if data crosses, and else within
// 0.5 s.
func TestALinkIsDownWithin290msOfTheLastAnswerWhileDataCrosses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		active bool
		limit  time.Duration
	}{{true, 290 * time.Millisecond}, {false, 500 * time.Millisecond}} {
		for _, rtt := range []time.Duration{100 * time.Microsecond, 10 * time.Millisecond, probeInterval - time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
			var least, most time.Duration
			interval := intervalOf(c.active)
			for phase := time.Duration(0); phase < interval; phase += time.Millisecond {
				s := newSteadyLink(rtt, c.active)
				s.run(s.now.Add(phase))
				if !s.up(s.now) {
					t.Fatalf("active %v, round trip %v: down although probes are answered", c.active, rtt)
				}
				s.cut, s.answers = true, nil
				last := s.answered
				took := s.goesDown(t).Sub(last)
				if least == 0 || took < least {
					least = took
				}
				most = max(most, took)
			}
			t.Logf("active %v, round trip %v: down %v to %v after the last answer", c.active, rtt, least, most)
			if most > c.limit || least < probeMisses*interval {
				t.Errorf("active %v, round trip %v: down %v to %v after the last answer, want %v to %v", c.active, rtt, least, most, probeMisses*interval, c.limit)
			}
		}
	}
}

// Requests follow each other faster, and more slowly, when data begins and ends to cross. That alone brings no link down.
func TestALinkStaysUpWhenDataBeginsAndEndsToCross(t *testing.T) {
	t.Parallel()
	for _, rtt := range []time.Duration{time.Millisecond, 60 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
		for phase := time.Duration(0); phase < probeInterval; phase += time.Millisecond {
			s := newSteady(rtt)
			s.run(s.now.Add(phase))
			for i := range 2000 {
				s.active = i%700 < 350
				s.run(s.now.Add(time.Millisecond))
				if s.settle(s.now); s.failed {
					t.Fatalf("round trip %v, phase %v: down after %d ms", rtt, phase, i)
				}
			}
		}
	}
}

// Two requests in a row may be lost, and an answer comes later than usual, as far as it varied before.
func TestAFewLostOrLateProbesDoNotBringALinkDown(t *testing.T) {
	t.Parallel()
	s := newSteady(20 * time.Millisecond)
	s.cut = true
	s.run(s.now.Add(2*probeInterval - 1)) // with the request in transit: three without an answer
	s.cut = false
	for range 20 {
		s.run(s.now.Add(10 * time.Millisecond))
		if s.settle(s.now); s.failed {
			t.Fatal("down after two lost probes")
		}
	}

	s = newSteady(20 * time.Millisecond)
	for i := range 200 { // varies from 20 to 320 ms
		s.rtt = 20*time.Millisecond + time.Duration(i%4)*100*time.Millisecond
		s.run(s.now.Add(probeInterval))
		if s.settle(s.now); s.failed {
			t.Fatalf("down although every probe is answered: usually within %v, by %v", s.smoothed, s.deviation)
		}
	}
	if s.slack() <= probeSlack {
		t.Errorf("a slack of %v after answers that vary by 0.3 s", s.slack())
	}
}

// An end that sends no requests finds nothing down: its goroutines did not run.
func TestAnEndThatAskedNothingFindsNothingDown(t *testing.T) {
	t.Parallel()
	s := newSteady(time.Millisecond)
	if !s.up(s.answered.Add(probeOverdue - 1)) {
		t.Error("down although nothing was asked")
	}
	if s.up(s.answered.Add(probeOverdue)) {
		t.Errorf("up %v after the last answer", probeOverdue)
	}
}

// A link is up only when a probe has crossed both ways.
func TestLinkIsUpOnlyWhileProbesCrossBothWays(t *testing.T) {
	t.Parallel()
	var p prober
	now := time.Unix(1000, 0)
	if p.up(now) {
		t.Error("up before any probe")
	}
	q := p.ask(1420, now)
	p.settle(now)
	if p.up(now) {
		t.Error("up when only asked: the answer has not crossed")
	}
	now = now.Add(30 * time.Millisecond)
	if !p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now) || !p.up(now) {
		t.Error("not up when the answer came")
	}
	if p.rtt != 30*time.Millisecond {
		t.Errorf("round trip %v, want 30ms", p.rtt)
	}
}

// A far end that stood still answers at once what it was asked meanwhile. These are no round trips: the next cut is found as fast as
// any other.
func TestF4_AnswersThatWaitedDoNotMakeALinkPatient(t *testing.T) {
	t.Parallel()
	const trip = 20 * time.Millisecond
	var p prober
	now := time.Unix(1000, 0)
	answered := func(after time.Duration, asked ...probe) {
		now = now.Add(after)
		for _, q := range asked {
			if !p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now) {
				t.Fatalf("the answer %v is refused", q.sequence)
			}
		}
	}
	answered(2*time.Second, p.ask(1420, now)) // waited for a handshake
	for range 30 {
		answered(trip, p.ask(1420, now))
		now = now.Add(probeInterval)
	}
	if p.smoothed != trip || p.slack() != probeSlack {
		t.Fatalf("a round trip of %v is estimated as %v, %v", trip, p.smoothed, p.deviation)
	}
	var asked []probe
	for range 18 {
		asked = append(asked, p.ask(1420, now))
		p.settle(now)
		now = now.Add(probeInterval)
	}
	if p.up(now) {
		t.Fatal("up without an answer")
	}
	if answered(0, asked...); !p.up(now) || p.smoothed != trip || p.slack() != probeSlack {
		t.Errorf("up %t, with an estimate of %v, %v", p.up(now), p.smoothed, p.deviation)
	}
	if answered(2*trip, p.ask(1420, now)); p.smoothed == trip {
		t.Error("a round trip after the link came up does not count")
	}
}

// RFC 6298 section 2, with the numbers of its rules.
func TestRFC6298_TheRoundTripIsEstimated(t *testing.T) {
	t.Parallel()
	var p prober
	p.measure(80*time.Millisecond, false)
	if p.smoothed != 80*time.Millisecond || p.deviation != 40*time.Millisecond {
		t.Errorf("first: %v, %v", p.smoothed, p.deviation)
	}
	p.measure(160*time.Millisecond, false) // deviation: 3/4 of 40 and 1/4 of 80; smoothed: 7/8 of 80 and 1/8 of 160
	if p.smoothed != 90*time.Millisecond || p.deviation != 50*time.Millisecond {
		t.Errorf("second: %v, %v; want 90ms, 50ms", p.smoothed, p.deviation)
	}
	if p.timeout() != 290*time.Millisecond {
		t.Errorf("timeout %v, want 90ms and four times 50ms", p.timeout())
	}
}

func TestOnlyAnswersToOpenQuestionsCount(t *testing.T) {
	t.Parallel()
	var p prober
	now := time.Unix(1000, 0)
	q := p.ask(1420, now)
	for name, a := range map[string]probe{
		"never asked": {kind: probeAnswer, sequence: q.sequence + 1},
		"same slot":   {kind: probeAnswer, sequence: q.sequence + uint64(len(p.asked))},
		"sequence 0":  {kind: probeAnswer},
	} {
		if p.answer(a, now) {
			t.Errorf("%s: counted", name)
		}
	}
	if !p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now) {
		t.Error("the right answer does not count")
	}
	if p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now) {
		t.Error("the same answer counts twice")
	}
}

func TestUnansweredProbesAreCountedLostOnce(t *testing.T) {
	t.Parallel()
	var p prober
	now := time.Unix(1000, 0)
	for range 100 {
		p.ask(1420, now)
		now = now.Add(probeInterval)
	}
	p.expire(now.Add(time.Hour))
	p.expire(now.Add(2 * time.Hour))
	if p.sent != 100 || p.lost != 100 {
		t.Errorf("%d sent and %d lost, want 100 and 100", p.sent, p.lost)
	}
}

// A late answer still proves that the link works.
func TestLateAnswerIsALostProbe(t *testing.T) {
	t.Parallel()
	var p prober
	now := time.Unix(1000, 0)
	early, late := p.ask(1420, now), p.ask(1420, now)
	if now = now.Add(probeLost); !p.answer(probe{kind: probeAnswer, sequence: early.sequence}, now) || !p.up(now) {
		t.Error("a late answer does not bring the link up")
	}
	if p.lost != 2 || p.rtt != probeLost {
		t.Errorf("%d lost, round trip %v", p.lost, p.rtt)
	}
	if p.answer(probe{kind: probeAnswer, sequence: late.sequence}, now.Add(probeLate-probeLost)) {
		t.Error("a very late answer counts")
	}
	if p.lost != 2 {
		t.Errorf("%d lost, want 2", p.lost)
	}
}

// unanswered is a link that was up, and whose last requests are overdue.
func unanswered() (p *prober, now time.Time) {
	s := newSteady(time.Millisecond)
	s.cut, s.answers = true, nil
	s.run(s.now.Add((probeMisses + 1) * probeInterval))
	return &s.prober, s.now
}

// Saturation is not failure: while packets of the far end arrive, late answers do not bring the
// link down. They prove one direction only, so it does not stay up for ever.
func TestF19_PacketsKeepALinkUpOnlyForSomeTime(t *testing.T) {
	t.Parallel()
	p, now := unanswered()
	if p.up(now) {
		t.Error("up although nothing arrives")
	}
	for ; now.Sub(p.answered) < probeOverdue; now = now.Add(probeInterval) {
		p.received = now
		p.told(probe{silence: probeInterval}, now) // a request
		if p.settle(now); !p.up(now) {
			t.Fatalf("down %v after the last answer although packets arrive", now.Sub(p.answered))
		}
		p.ask(1420, now)
	}
	if p.received = now; p.up(now) {
		t.Errorf("up %v after the last answer", now.Sub(p.answered))
	}
}

func TestPacketsAloneBringNoLinkUp(t *testing.T) {
	t.Parallel()
	var never prober
	now := time.Unix(1000, 0)
	never.received = now
	if never.up(now) {
		t.Error("up without any answer")
	}
	p, now := unanswered()
	p.settle(now)
	if p.received = now; p.up(now) {
		t.Error("a link that was found down is up again without an answer")
	}
	q := p.ask(1420, now)
	if p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now); !p.up(now) {
		t.Error("an answer does not bring it up")
	}
}

// A far end whose packets arrive, and which says that it receives nothing, is not reached.
func TestF22_ALinkThatIsCutInOneDirectionIsDownAtBothEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silence time.Duration
		up      bool
	}{
		"it receives":                       {100 * time.Millisecond, true},
		"it has received nothing for long":  {5 * time.Second, false},
		"it has never received anything":    {maxSilence, false},
		"it does not say: an older version": {unstated, true},
	} {
		p, now := unanswered()
		p.received = now
		p.told(probe{kind: probeAsk, silence: c.silence}, now)
		if p.up(now) != c.up {
			t.Errorf("%s: up %v, want %v", name, !c.up, c.up)
		}
	}
	// An answer is a better proof than what the far end said before it came.
	s := newSteady(time.Millisecond)
	if s.told(probe{kind: probeAsk, silence: 5 * time.Second}, s.now); !s.up(s.now) {
		t.Error("down although probes are answered")
	}
}

// What the far end said before the requests that it did not answer may be about a gap of this end, which sent
// nothing then.
func TestF4_ASilenceStatedBeforeTheUnansweredRequestsDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newSteady(time.Millisecond)
	s.run(s.now.Add(probeInterval / 2))
	s.cut = true
	s.run(s.due) // one request after that answer
	s.told(probe{kind: probeAsk, silence: 2 * time.Second}, s.now)
	s.run(s.now.Add((probeMisses + 1) * probeInterval))
	s.received = s.now
	if s.settle(s.now); !s.up(s.now) {
		t.Error("down because of what the far end said before the last request")
	}
	if s.told(probe{kind: probeAsk, silence: 2 * time.Second}, s.now); s.up(s.now) {
		t.Error("up although the far end says after the last request that it receives nothing")
	}
}

func TestAProbeStatesTheTimeWithoutPackets(t *testing.T) {
	t.Parallel()
	var p prober
	now := time.Unix(1000, 0)
	if q := p.ask(1420, now); q.silence != maxSilence {
		t.Errorf("%v before any packet", q.silence)
	}
	p.received = now
	if q := p.ask(1420, now.Add(1500*time.Microsecond)); q.silence != time.Millisecond {
		t.Errorf("%v after 1.5 ms", q.silence)
	}
	if q := p.ask(1420, now.Add(1000*time.Hour*24)); q.silence != maxSilence {
		t.Errorf("%v after 1000 days", q.silence)
	}
	if q := p.ask(1420, now.Add(-time.Second)); q.silence != 0 {
		t.Errorf("%v for a packet that arrived just now", q.silence)
	}
}

// Asking back when asked brings a link up sooner. It must never become a storm:
// each of two ends that are down would ask because the other did.
func TestAskingBackIsBounded(t *testing.T) {
	t.Parallel()
	var p prober
	now := time.Unix(1000, 0)
	asked := 0
	for range 1000 { // a question from the far end every millisecond
		if p.owesQuestion(now) {
			p.ask(1420, now)
			asked++
		}
		now = now.Add(time.Millisecond)
	}
	if want := 1 + int(time.Second/(probeInterval/2)); asked != want {
		t.Errorf("asked back %d times in a second, want %d", asked, want)
	}
	q := p.ask(1420, now)
	p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now)
	if p.owesQuestion(now.Add(probeInterval)) {
		t.Error("asks back on a link that is up")
	}
}

func TestALinkIsUpSinceItCameUpLast(t *testing.T) {
	t.Parallel()
	var p prober
	start := time.Unix(1000, 0)
	answer := func(now time.Time) {
		t.Helper()
		if q := p.ask(1420, now); !p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now) {
			t.Fatal("not answered")
		}
	}
	answer(start)
	answer(start.Add(time.Second))
	if !p.upSince.Equal(start) {
		t.Errorf("up since %v, want %v", p.upSince, start)
	}
	again := start.Add(time.Second)
	for range probeMisses {
		again = again.Add(probeInterval)
		p.ask(1420, again)
	}
	again = again.Add(probeLate)
	answer(again)
	if !p.upSince.Equal(again) {
		t.Errorf("up since %v after being down, want %v", p.upSince, again)
	}
}

func TestPathIsProbedAtOnceAndAgain(t *testing.T) {
	t.Parallel()
	var p prober
	now := time.Unix(1000, 0)
	answer := func(q probe) { p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now) }
	sizes := func(mtu int) (all []int) {
		for _, q := range p.askPath(mtu, mtu, now) {
			all = append(all, q.size)
		}
		return all
	}
	if p.askPath(1420, 1420, now) != nil {
		t.Error("asks while the link is down")
	}
	answer(p.ask(1420, now))
	asked := p.askPath(1420, 1420, now)
	if len(asked) != 2 || asked[0].size != 1420 || asked[1].size != pathBase {
		t.Fatalf("asks %v when the link comes up, want the MTU and a smaller size", asked)
	}
	if sizes(1420) != nil {
		t.Error("asks again at once")
	}
	if p.path.carries(1420, now) != 0 {
		t.Error("counts an answer that has not come")
	}
	answer(asked[0].probe)
	if p.path.carries(1420, now) != 1420 {
		t.Error("does not count the answer")
	}
	if sizes(1420) != nil {
		t.Error("asks again although the size has crossed")
	}
	begun := now
	for now.Sub(begun) < pathInterval {
		now = now.Add(probeInterval)
		answer(p.ask(1420, now))
	}
	if got := sizes(1420); !slices.Equal(got, []int{1420}) {
		t.Errorf("asks %v after %v", got, pathInterval)
	}
	if p.path.carries(1420, begun.Add(pathStale-1)) != 1420 || p.path.carries(1420, begun.Add(pathStale)) != 0 {
		t.Errorf("the answer does not count for %v", pathStale)
	}
	if got := sizes(1400); len(got) == 0 || got[0] != 1400 {
		t.Errorf("asks %v of another MTU", got)
	}
	for range probeMisses {
		p.ask(1420, now)
	}
	now = now.Add(probeLate) // the link goes down
	answer(p.ask(1420, now))
	if sizes(1400) == nil {
		t.Error("does not ask when the link is up again")
	}
}

// The far end's MTU is the size in question, but not one that no host may have.
func TestPathIsProbedForWhatBothEndsCarry(t *testing.T) {
	t.Parallel()
	for announced, want := range map[uint16]int{0: 1440, 1390: 1390, 9000: 1440, 1: minAnnouncedMTU} {
		p := prober{mtu: announced}
		now := time.Unix(1000, 0)
		p.answer(probe{kind: probeAnswer, sequence: p.ask(1440, now).sequence}, now)
		if asked := p.askPath(1440, 1440, now); len(asked) == 0 || asked[0].size != want || asked[0].mtu != 1440 {
			t.Errorf("a far end with %d is asked %+v, want %d bytes", announced, asked, want)
		}
	}
}

// A path that carries no large packets is no lossy link.
func TestPathQuestionsDoNotCountAsLoss(t *testing.T) {
	t.Parallel()
	var p prober
	now := time.Unix(1000, 0)
	p.question(1420, 1420, now)
	p.expire(now.Add(time.Hour))
	if p.sent != 0 || p.lost != 0 {
		t.Errorf("%d sent and %d lost", p.sent, p.lost)
	}
	q := p.question(1420, 1420, now)
	p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now.Add(time.Second))
	if p.rtt != 0 {
		t.Errorf("round trip %v of a large packet", p.rtt)
	}
}

// What is no probe of the link goes to the host stack, which decides what to answer.
func TestOnlyPacketsBetweenTheEndsOfALinkAreItsProbes(t *testing.T) {
	t.Parallel()
	own, far, other := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2"), netip.MustParseAddr("fe80::3")
	l := &Link{own: own}
	l.prober.address = far
	udp := func(src, dst netip.Addr, port uint16) []byte {
		return packet.AppendUDP(nil, netip.AddrPortFrom(src, probePort), netip.AddrPortFrom(dst, port), probe{kind: probeAsk}.append(nil))
	}
	tcp := udp(far, own, probePort)
	tcp[6] = packet.ProtoTCP
	for name, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"a probe":                     {udp(far, own, probePort), true},
		"no probe at its port":        {packet.AppendUDP(nil, netip.AddrPortFrom(far, 1), netip.AddrPortFrom(own, probePort), []byte("?")), true},
		"an empty datagram":           {packet.AppendUDP(nil, netip.AddrPortFrom(far, 1), netip.AddrPortFrom(own, probePort), nil), true},
		"another port":                {udp(far, own, claimPort), false},
		"from another address":        {udp(other, own, probePort), false},
		"for another address":         {udp(far, other, probePort), false},
		"another protocol":            {tcp, false},
		"IPv4":                        {udp(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), probePort), false},
		"the header of IPv6 and less": {udp(far, own, probePort)[:packet.IPv6HeaderLen+1], false},
	} {
		if got := l.isProbe(c.b); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
