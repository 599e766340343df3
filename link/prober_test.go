package link

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestProbeSurvivesTheWire(t *testing.T) {
	t.Parallel()
	for _, want := range []Probe{
		{Kind: Hello, MTU: 1420, Sequence: 1<<63 + 7, Arrived: 3, Held: 12345 * time.Microsecond, Silence: 12345 * time.Millisecond},
		{Kind: Leaving, Sequence: 1, Held: maxHeld, Silence: MaxSilence},
		{Kind: AskSize, MTU: 1420, Sequence: 1400},
		{Kind: SizeArrived, Sequence: 1400},
	} {
		b := want.Append(nil)
		for _, tail := range [][]byte{nil, {1, 2, 3}, make([]byte, 100)} { // padding; later versions may append fields
			if got, ok := ParseProbe(append(b, tail...)); !ok || got != want {
				t.Errorf("with %d bytes behind: parsed %+v, %v; want %+v", len(tail), got, ok, want)
			}
		}
	}
}

func TestAProbeHasTheseBytes(t *testing.T) {
	t.Parallel()
	p := Probe{Kind: Leaving, MTU: 1420, Sequence: 0x0102030405060708, Arrived: 9, Held: 259 * time.Microsecond, Silence: 258 * time.Millisecond}
	want := []byte{'S', 'T', 'R', 'P', 1, 2, 0x05, 0x8c, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 1, 3, 0, 0, 1, 2}
	if b := p.Append(nil); !bytes.Equal(b, want) || len(b) != ProbeLen {
		t.Errorf("% x, want % x", b, want)
	}
	p.Held, p.Silence = 1<<62, 1<<62
	if b := p.Append(nil); !bytes.Equal(b[24:], bytes.Repeat([]byte{0xff}, 8)) {
		t.Errorf("% x of times that do not fit", b[24:])
	}
}

func TestMalformedProbesAreIgnored(t *testing.T) {
	t.Parallel()
	good := Probe{Kind: Hello, Sequence: 1}.Append(nil)
	for name, damage := range map[string]func(b []byte) []byte{
		"cut short":     func(b []byte) []byte { return b[:ProbeLen-1] },
		"other magic":   func(b []byte) []byte { b[0]++; return b },
		"version 0":     func(b []byte) []byte { b[4] = 0; return b },
		"kind 0":        func(b []byte) []byte { b[5] = 0; return b },
		"unknown kind":  func(b []byte) []byte { b[5] = 5; return b },
		"nothing there": func([]byte) []byte { return nil },
	} {
		if p, ok := ParseProbe(damage(append([]byte(nil), good...))); ok {
			t.Errorf("%s: taken for %+v", name, p)
		}
	}
}

func FuzzParseProbe(f *testing.F) {
	f.Add(Probe{Kind: Hello, MTU: 1420, Sequence: 1}.Append(nil))
	f.Add(Probe{Kind: Leaving, Sequence: 1 << 40, Arrived: 1 << 40, Silence: MaxSilence}.Append(nil))
	f.Add(Probe{Kind: SizeArrived, Sequence: 7, Held: maxHeld}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := ParseProbe(b)
		if !ok {
			return
		}
		if again, ok := ParseProbe(p.Append(nil)); !ok || again != p {
			t.Errorf("%+v became %+v on the wire", p, again)
		}
		var end Prober
		now := time.Unix(1000, 0)
		if end.Take(p, now); end.Fit(now) != Down {
			t.Errorf("%+v brings a link up that has sent nothing", p)
		}
	})
}

// duplex is a link in virtual time with both of its ends.
type duplex struct {
	now     time.Time
	oneWay  time.Duration
	ends    [2]duplexEnd
	transit []crossing
}

// duplexEnd is one end: what it does, and whether what it sends arrives.
type duplexEnd struct {
	Prober
	received time.Time     // when anything last arrived
	heard    time.Time     // the same at the last tick
	due      time.Time     // of the next tick
	data     time.Duration // between its data packets; 0 = none
	next     time.Time     // when it sends the next one
	cut      bool          // nothing that it sends arrives
	mute     bool          // its probes do not arrive
	lose     int           // so many of its next packets are lost
	leaves   bool
	pause    time.Duration // it runs only at the multiples of this, and then its tick comes before what waits to be received
	was      Fitness
	downs    int
}

// crossing is a packet in transit to an end: a probe, or data.
type crossing struct {
	to    int
	at    time.Time
	probe Probe // kind 0: data
}

// newDuplex returns a link that is up. The second end begins some time after the first.
func newDuplex(t *testing.T, oneWay, phase time.Duration, change func(ends *[2]duplexEnd)) *duplex {
	t.Helper()
	d := &duplex{now: time.Unix(1000, 0), oneWay: oneWay}
	d.ends[0].due, d.ends[1].due = d.now, d.now.Add(phase)
	if change != nil {
		change(&d.ends)
	}
	d.run(2500*time.Millisecond + 2*oneWay)
	for i := range d.ends {
		if d.ends[i].Fit(d.now) != Up {
			t.Fatalf("end %d is not up", i)
		}
		d.ends[i].downs = 0
	}
	return d
}

func (d *duplex) run(duration time.Duration) {
	for end := d.now.Add(duration); d.now.Before(end); {
		d.step(end)
	}
}

// step goes to the next time at which anything happens, or to a limit.
func (d *duplex) step(limit time.Time) {
	next := limit
	sooner := func(at time.Time) {
		if at.Before(next) {
			next = at
		}
	}
	for _, c := range d.transit {
		sooner(c.at)
	}
	for i := range d.ends {
		e := &d.ends[i]
		sooner(e.due)
		if e.data != 0 {
			sooner(e.next)
		}
	}
	if next.After(d.now) {
		d.now = next
	}
	arrived := d.transit
	d.transit = nil
	for _, c := range arrived {
		if c.at.After(d.now) {
			d.transit = append(d.transit, c)
		} else {
			d.arrive(c)
		}
	}
	for i := range d.ends {
		d.act(i)
	}
}

// act makes an end do what is due.
func (d *duplex) act(i int) {
	e := &d.ends[i]
	if e.data != 0 && !d.now.Before(e.next) {
		e.next = d.now.Add(e.data)
		d.send(i, Probe{})
	}
	if !d.now.Before(e.due) {
		e.due = e.runs(e.due.Add(Interval))
		silence := MaxSilence
		if !e.received.IsZero() {
			silence = d.now.Sub(e.received)
		}
		p := e.Tick(e.received.After(e.heard), silence, 1420, e.leaves, d.now)
		e.heard = e.received
		if !e.mute {
			d.send(i, p)
		}
	}
	fit := e.Fit(d.now)
	if fit == Down && e.was != Down {
		e.downs++
	}
	e.was = fit
}

// runs returns when the end does what is due at a time.
func (e *duplexEnd) runs(at time.Time) time.Time {
	if late := at.UnixNano() % max(int64(e.pause), 1); late != 0 {
		return at.Add(e.pause - time.Duration(late))
	}
	return at
}

func (d *duplex) send(from int, p Probe) {
	e := &d.ends[from]
	if e.lose > 0 {
		e.lose--
	} else if !e.cut {
		at := d.now.Add(d.oneWay)
		if to := &d.ends[1-from]; to.pause != 0 {
			at = to.runs(at).Add(time.Millisecond)
		}
		if p.Kind != 0 { // what it says crosses the wire
			p, _ = ParseProbe(p.Append(nil))
		}
		d.transit = append(d.transit, crossing{1 - from, at, p})
	}
}

func (d *duplex) arrive(c crossing) {
	e := &d.ends[c.to]
	e.received = d.now
	if c.probe.Kind != 0 {
		e.Take(c.probe, d.now)
	}
}

// traffic are the kinds of traffic over a link. The slow one is about as slow as the ticks.
var traffic = map[string][2]time.Duration{
	"no data":      {},
	"data one way": {9 * time.Millisecond, 0},
	"data":         {9 * time.Millisecond, 14 * time.Millisecond},
	"slow data":    {67 * time.Millisecond, 110 * time.Millisecond},
}

// everyDuplex calls test with links of all kinds of traffic, round trips and differences of phase.
func everyDuplex(t *testing.T, test func(d *duplex, name string)) {
	t.Helper()
	for name, data := range traffic {
		for _, oneWay := range []time.Duration{0, 20 * time.Millisecond, 150 * time.Millisecond, time.Second} {
			for phase := time.Duration(0); phase < Interval; phase += 19 * time.Millisecond {
				d := newDuplex(t, oneWay, phase, func(ends *[2]duplexEnd) { ends[0].data, ends[1].data = data[0], data[1] })
				test(d, fmt.Sprintf("%s, one way %v, phase %v", name, oneWay, phase))
			}
		}
	}
}

// A link comes up when a probe has crossed in each direction, and no sooner.
func TestALinkIsUpOnlyWhenProbesCrossBothWays(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var p Prober
	if p.Fit(now) != Down {
		t.Error("up before any probe")
	}
	sent := p.Tick(false, MaxSilence, 1420, false, now)
	if p.Take(Probe{Kind: Hello, Sequence: 1}, now); p.Fit(now) != Down {
		t.Error("up although nothing is known to have arrived at the far end")
	}
	if p.Take(Probe{Kind: Hello, Sequence: 2, Arrived: sent.Sequence + 1}, now); p.Fit(now) != Down {
		t.Error("up because of a probe that was never sent")
	}
	at := now.Add(lateNews)
	if p.Take(Probe{Kind: Hello, Sequence: 3, Arrived: sent.Sequence}, at); p.Fit(at) != Down {
		t.Errorf("up because of a probe that took %v", lateNews)
	}
	at = now.Add(30 * time.Millisecond)
	measured := p.Take(Probe{Kind: Hello, Sequence: 4, Arrived: sent.Sequence, Held: 10 * time.Millisecond}, at)
	if measured || p.News != at || p.Fit(at) != Up || p.RTT != 20*time.Millisecond {
		t.Errorf("measured %v, news at %v, fitness %v, round trip %v; want false, %v, %v, 20ms", measured, p.News, p.Fit(at), p.RTT, at, Up)
	}
	if p.Take(Probe{Kind: Hello, Sequence: 5, Arrived: sent.Sequence}, at.Add(time.Millisecond)); p.News != at {
		t.Error("the same probe is news again")
	}
	second := p.Tick(true, 0, 1420, false, at)
	if measured = p.Take(Probe{Kind: Hello, Sequence: 6, Arrived: second.Sequence}, at.Add(time.Millisecond)); !measured || p.RTT != time.Millisecond {
		t.Errorf("measured %v, round trip %v of a probe that was sent while the link was up", measured, p.RTT)
	}
}

// Whatever data crosses, and whenever the link is cut, in one direction or in both: both ends know soon. Then it comes up again.
func TestF22_BothEndsFindACutWithin600msWhateverDataCrosses(t *testing.T) {
	t.Parallel()
	for _, cut := range [][2]bool{{true, true}, {true, false}, {false, true}} {
		var took []time.Duration
		everyDuplex(t, func(d *duplex, name string) {
			for i := range d.ends {
				d.ends[i].cut = cut[i]
			}
			began := d.now
			for d.ends[0].downs == 0 || d.ends[1].downs == 0 {
				if d.step(began.Add(time.Hour)); d.now.Sub(began) > 5*time.Second {
					t.Fatalf("%s, cut %v: down %d and %d times after 5 s", name, cut, d.ends[0].downs, d.ends[1].downs)
				}
			}
			took = append(took, d.now.Sub(began)-2*d.oneWay)
			for i := range d.ends {
				d.ends[i].cut = false
			}
			d.run(time.Second + 4*d.oneWay)
			if d.ends[0].Fit(d.now) != Up || d.ends[1].Fit(d.now) != Up || d.ends[0].downs+d.ends[1].downs > 2 {
				t.Fatalf("%s, cut %v: not up again for good", name, cut)
			}
		})
		t.Logf("cut %v: both down %v to %v after a round trip", cut, slices.Min(took), slices.Max(took))
		limit := 600 * time.Millisecond
		if cut[0] && cut[1] {
			limit = 400 * time.Millisecond
		}
		if slices.Max(took) > limit {
			t.Errorf("cut %v: down after %v and a round trip, want %v", cut, slices.Max(took), limit)
		}
	}
}

// Two packets in a row may be lost, in any direction.
func TestTwoLostPacketsDoNotBringALinkDown(t *testing.T) {
	t.Parallel()
	for _, lose := range [][2]int{{2, 0}, {0, 2}, {2, 2}} {
		everyDuplex(t, func(d *duplex, name string) {
			d.ends[0].lose, d.ends[1].lose = lose[0], lose[1]
			d.run(time.Second)
			if d.ends[0].downs != 0 || d.ends[1].downs != 0 {
				t.Fatalf("%s, lost %v: down", name, lose)
			}
		})
	}
}

// A process with little CPU time, as with a limit of the container, runs for some of every 100 ms. What it has not received yet is
// not missing.
func TestF19_AnEndWithLittleCPUTimeFindsNothingDown(t *testing.T) {
	t.Parallel()
	for name, data := range traffic {
		for phase := time.Duration(0); phase < Interval; phase += 11 * time.Millisecond {
			d := newDuplex(t, 2*time.Millisecond, phase, func(ends *[2]duplexEnd) {
				ends[0].data, ends[1].data = data[0], data[1]
				ends[0].pause, ends[1].pause = 95*time.Millisecond, 240*time.Millisecond
			})
			if d.run(30 * time.Second); d.ends[0].downs+d.ends[1].downs > 0 {
				t.Errorf("%s, phase %v: down %d and %d times", name, phase, d.ends[0].downs, d.ends[1].downs)
			}
		}
	}
}

// Saturation is not failure: while packets of the far end arrive, lost probes do not bring the link
// down. Packets prove one direction only, so it does not stay up for ever, and they alone never bring it up.
func TestF19_PacketsKeepALinkUpOnlyForSomeTime(t *testing.T) {
	t.Parallel()
	d := newDuplex(t, time.Millisecond, 30*time.Millisecond, func(ends *[2]duplexEnd) { ends[0].data, ends[1].data = 9*time.Millisecond, 9*time.Millisecond })
	d.ends[0].mute, d.ends[1].mute = true, true
	d.run(Overdue - Interval)
	if d.ends[0].downs+d.ends[1].downs > 0 {
		t.Errorf("down within %v although packets arrive", Overdue)
	}
	d.run(2 * Interval)
	for i := range d.ends {
		if d.ends[i].Fit(d.now) != Down {
			t.Errorf("end %d is up %v after the last probe", i, Overdue)
		}
	}
	if d.run(10 * time.Second); d.ends[0].downs != 1 || d.ends[1].downs != 1 {
		t.Errorf("down %d and %d times, though only packets arrived", d.ends[0].downs, d.ends[1].downs)
	}
}

// What the far end last said may be about a time in which this end did not run. It counts after ticks without news only.
func TestF4_ASilenceStatedAboutAGapDoesNotCount(t *testing.T) {
	t.Parallel()
	for phase := time.Duration(0); phase < Interval; phase += 7 * time.Millisecond {
		d := newDuplex(t, time.Millisecond, phase, nil)
		e := &d.ends[0]
		e.due = d.now.Add(450 * time.Millisecond) // it does not run
		d.run(450 * time.Millisecond)
		if d.ends[1].downs != 1 {
			t.Fatalf("phase %v: the far end is down %d times, want once", phase, d.ends[1].downs)
		}
		if d.run(time.Second); e.downs != 0 || d.ends[1].Fit(d.now) != Up {
			t.Errorf("phase %v: down %d times; the far end is up again: %v", phase, e.downs, d.ends[1].Fit(d.now) == Up)
		}
	}
}

func TestProbesOfTheFarEndThatDoNotArriveAreLost(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		sequences []uint64
		lost      uint64
	}{
		"none":                     {[]uint64{1, 2, 3}, 0},
		"two, and one":             {[]uint64{1, 4, 6}, 3},
		"one that comes late":      {[]uint64{1, 3, 2, 4}, 1},
		"the far end starts again": {[]uint64{1, 2, 701, 1, 2, 4}, 698 + 1},
	} {
		p := Prober{News: now, UpSince: now}
		for _, s := range c.sequences {
			p.Take(Probe{Kind: Hello, Sequence: s}, now)
		}
		if p.Lost != c.lost || p.Last.Sequence != c.sequences[len(c.sequences)-1] {
			t.Errorf("%s: %d lost, and %d is the last; want %d lost", name, p.Lost, p.Last.Sequence, c.lost)
		}
	}
}

// Both ends may start again at any time: what one says about probes of the other's former life proves nothing.
func TestAnEndThatStartsAgainIsUpOnlyByItsOwnProbes(t *testing.T) {
	t.Parallel()
	d := newDuplex(t, 10*time.Millisecond, 30*time.Millisecond, nil)
	d.run(10 * time.Second)
	d.ends[0].Prober = Prober{}
	d.step(d.now.Add(time.Hour))
	if d.ends[0].Fit(d.now) != Down {
		t.Fatal("up before any of its probes")
	}
	if d.run(3 * Interval); d.ends[0].Fit(d.now) != Up || d.ends[1].Fit(d.now) != Up {
		t.Errorf("not up after %v", 3*Interval)
	}
}

func TestALinkIsUpSinceItCameUpLast(t *testing.T) {
	t.Parallel()
	d := newDuplex(t, time.Millisecond, 0, nil)
	since := d.ends[0].UpSince
	if d.run(time.Second); !d.ends[0].UpSince.Equal(since) {
		t.Errorf("up since %v, want %v", d.ends[0].UpSince, since)
	}
	d.ends[0].cut, d.ends[1].cut = true, true
	d.run(time.Second)
	d.ends[0].cut, d.ends[1].cut = false, false
	again := d.now
	if d.run(time.Second); d.ends[0].UpSince.Before(again) {
		t.Errorf("up since %v after an outage until %v", d.ends[0].UpSince, again)
	}
}

func TestAnEndThatShutsDownSaysSoAtItsNextTick(t *testing.T) {
	t.Parallel()
	everyDuplex(t, func(d *duplex, name string) {
		d.ends[0].leaves = true
		if d.run(Interval + d.oneWay + time.Millisecond); d.ends[1].Fit(d.now) != Ending {
			t.Fatalf("%s: not known", name)
		}
	})
}
