package tun

import (
	"testing"
	"time"
)

func TestProbeSurvivesTheWire(t *testing.T) {
	t.Parallel()
	want := probe{kind: probeAnswer, mtu: 1420, sequence: 1<<63 + 7}
	b := want.append(nil)
	if len(b) != probeLen {
		t.Fatalf("a probe has %d bytes, want %d", len(b), probeLen)
	}
	for _, tail := range [][]byte{nil, {1, 2, 3}} { // later versions may append fields
		if got, ok := parseProbe(append(b, tail...)); !ok || got != want {
			t.Errorf("with %d bytes behind: parsed %+v, %v; want %+v", len(tail), got, ok, want)
		}
	}
}

func TestMalformedProbesAreIgnored(t *testing.T) {
	t.Parallel()
	good := probe{kind: probeAsk, sequence: 1}.append(nil)
	for name, damage := range map[string]func(b []byte) []byte{
		"cut short":     func(b []byte) []byte { return b[:probeLen-1] },
		"other magic":   func(b []byte) []byte { b[0]++; return b },
		"version 0":     func(b []byte) []byte { b[4] = 0; return b },
		"unknown kind":  func(b []byte) []byte { b[5] = 4; return b },
		"nothing there": func([]byte) []byte { return nil },
	} {
		if p, ok := parseProbe(damage(append([]byte(nil), good...))); ok {
			t.Errorf("%s: taken for %+v", name, p)
		}
	}
}

func FuzzParseProbe(f *testing.F) {
	f.Add(probe{kind: probeAsk, mtu: 1420, sequence: 1}.append(nil))
	f.Add(probe{kind: probeAnswer, sequence: 1 << 40}.append(nil))
	f.Add(probe{kind: probeLeaving, sequence: 7}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseProbe(b); ok {
			if again, ok := parseProbe(p.append(nil)); !ok || again != p {
				t.Errorf("%+v became %+v on the wire", p, again)
			}
		}
	})
}

// A link is up only when a probe has crossed both ways, and down when none has lately.
func TestLinkIsUpOnlyWhileProbesCrossBothWays(t *testing.T) {
	t.Parallel()
	var p prober
	now := time.Unix(1000, 0)
	if p.up(now) {
		t.Error("up before any probe")
	}
	q := p.ask(1420, now)
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
	if now = now.Add(probeLost); p.up(now) {
		t.Errorf("up %v after the last answer", probeLost)
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

// Saturation is not failure: while packets of the far end arrive, late answers do not bring the
// link down. They prove one direction only, so it does not stay up for ever.
func TestF19_PacketsKeepALinkUpOnlyForSomeTime(t *testing.T) {
	t.Parallel()
	var p prober
	start := time.Unix(1000, 0)
	p.received = start
	if p.up(start) {
		t.Error("packets alone bring the link up")
	}
	q := p.ask(1420, start)
	p.answer(probe{kind: probeAnswer, sequence: q.sequence}, start)
	for now := start; now.Sub(start) < probeOverdue; now = now.Add(probeInterval) {
		if p.received = now; !p.up(now) {
			t.Fatalf("down after %v although packets arrive", now.Sub(start))
		}
	}
	p.received = start.Add(probeOverdue)
	if p.up(p.received) {
		t.Errorf("up %v after the last answer", probeOverdue)
	}
	p.received = start
	if p.up(start.Add(probeLost)) {
		t.Error("up although nothing arrives")
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
	if want := int(time.Second / (probeInterval / 2)); asked != want {
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
	again := start.Add(time.Second + probeLost)
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
	if p.owesPath(1420, now) {
		t.Error("asks while the link is down")
	}
	answer(p.ask(1420, now))
	if !p.owesPath(1420, now) {
		t.Error("does not ask when the link comes up")
	}
	q := p.askPath(1420, now)
	if p.owesPath(1420, now) {
		t.Error("asks again at once")
	}
	if p.pathMTU(1420, now) != 0 {
		t.Error("counts an answer that has not come")
	}
	answer(q)
	if p.pathMTU(1420, now) != 1420 {
		t.Error("does not count the answer")
	}
	if p.owesPath(1420, now) || !p.owesPath(1400, now) || p.pathMTU(1400, now) != 0 {
		t.Error("another MTU is not another question")
	}
	asked := now
	for now.Sub(asked) < pathInterval {
		now = now.Add(probeInterval)
		answer(p.ask(1420, now))
	}
	if !p.owesPath(1420, now) {
		t.Errorf("does not ask again after %v", pathInterval)
	}
	if p.pathMTU(1420, asked.Add(pathStale-1)) != 1420 || p.pathMTU(1420, asked.Add(pathStale)) != 0 {
		t.Errorf("the answer does not count for %v", pathStale)
	}
	p.askPath(1420, now)
	now = now.Add(2 * probeLost) // the link goes down
	answer(p.ask(1420, now))
	if !p.owesPath(1420, now) {
		t.Error("does not ask when the link is up again")
	}
}

// A path that carries no large packets is no lossy link.
func TestPathQuestionsDoNotCountAsLoss(t *testing.T) {
	t.Parallel()
	var p prober
	now := time.Unix(1000, 0)
	p.askPath(1420, now)
	p.expire(now.Add(time.Hour))
	if p.sent != 0 || p.lost != 0 {
		t.Errorf("%d sent and %d lost", p.sent, p.lost)
	}
	q := p.askPath(1420, now)
	p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now.Add(time.Second))
	if p.rtt != 0 {
		t.Errorf("round trip %v of a large packet", p.rtt)
	}
}
