package tun

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// duplex is a link in virtual time with both of its ends.
type duplex struct {
	now     time.Time
	oneWay  time.Duration
	ends    [2]duplexEnd
	transit []crossing
}

// duplexEnd is one end: what it does, and whether what it sends arrives.
type duplexEnd struct {
	prober
	due      time.Time     // of the next tick
	data     time.Duration // between its data packets; 0 = none
	next     time.Time     // when it sends the next one
	cut      bool          // nothing that it sends arrives
	lose     int           // so many of its next packets are lost
	leaves   bool
	old      bool          // a version without statements
	pause    time.Duration // it runs only at the multiples of this, and then its tick comes before what waits to be received
	packets  uint64
	requests int // requests, statements and answers that it has sent
	sent     int
	downs    int
}

// crossing is a packet in transit to an end: a probe, or data.
type crossing struct {
	to    int
	at    time.Time
	probe probe // kind 0: data
}

// newDuplex returns a link that is up. The second end begins some time after the first.
func newDuplex(t *testing.T, oneWay, phase time.Duration, change func(ends *[2]duplexEnd)) *duplex {
	t.Helper()
	d := &duplex{now: time.Unix(1000, 0), oneWay: oneWay}
	d.ends[0].active, d.ends[1].active = true, true
	d.ends[0].due, d.ends[1].due = d.now, d.now.Add(phase)
	change(&d.ends)
	d.run(2500 * time.Millisecond)
	for i := range d.ends {
		if !d.ends[i].up(d.now) {
			t.Fatalf("end %d is not up", i)
		}
		d.ends[i].sent, d.ends[i].requests, d.ends[i].downs = 0, 0, 0
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
	for _, c := range d.transit {
		next = earliest(next, c.at)
	}
	for i := range d.ends {
		e := &d.ends[i]
		next = earliest(earliest(next, e.due), e.expires(d.now))
		if e.data != 0 {
			next = earliest(next, e.next)
		}
	}
	d.now = next
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
		e.packets++
		d.send(i, probe{})
	}
	if !d.now.Before(e.due) {
		e.pace(e.active, d.now)
		e.due = e.runs(e.due.Add(e.interval()))
		if e.old {
			d.send(i, e.ask(1420, d.now))
		} else if p, ok := e.tick(1420, e.packets, e.leaves, d.now); ok {
			d.send(i, p)
		}
	}
	before := e.failed
	if e.settle(d.now); e.failed && !before {
		e.downs++
		d.send(i, e.ask(1420, d.now))
	}
}

// runs returns when the end does what is due at a time.
func (e *duplexEnd) runs(at time.Time) time.Time {
	if late := at.UnixNano() % max(int64(e.pause), 1); late != 0 {
		return at.Add(e.pause - time.Duration(late))
	}
	return at
}

func (d *duplex) send(from int, p probe) {
	e := &d.ends[from]
	if p.kind != 0 {
		e.sent++
	}
	if e.old {
		p.interval = 0
	}
	if p.kind == probeAsk {
		e.requests++
	}
	if e.lose > 0 {
		e.lose--
	} else if !e.cut {
		at := d.now.Add(d.oneWay)
		if to := &d.ends[1-from]; to.pause != 0 {
			at = to.runs(at).Add(time.Millisecond)
		}
		d.transit = append(d.transit, crossing{1 - from, at, p})
	}
}

func (d *duplex) arrive(c crossing) {
	e := &d.ends[c.to]
	e.received = d.now
	switch p := c.probe; p.kind {
	case 0:
	case probeAsk:
		e.told(p, d.now)
		kind := uint8(probeAnswer)
		if e.leaves {
			kind = probeLeaving
		}
		d.send(c.to, probe{kind: kind, mtu: 1420, sequence: p.sequence, silence: e.silence(d.now), interval: e.interval()})
		if e.owesQuestion(d.now) {
			d.send(c.to, e.ask(1420, d.now))
		}
	case probeStatement:
		if !e.old {
			e.told(p, d.now)
		}
	default:
		e.told(p, d.now)
		e.answer(p, d.now)
	}
}

// traffic are the kinds of traffic over a link. The slow one is about as slow as the ticks.
var traffic = map[string][2]time.Duration{
	"no data":      {},
	"data one way": {9 * time.Millisecond, 0},
	"data":         {9 * time.Millisecond, 14 * time.Millisecond},
	"slow data":    {67 * time.Millisecond, 110 * time.Millisecond},
	"one slow way": {0, 100 * time.Millisecond},
}

// everyDuplex calls test with links of all kinds of traffic, round trips and differences of phase.
func everyDuplex(t *testing.T, change func(ends *[2]duplexEnd), test func(d *duplex, name string)) {
	t.Helper()
	for name, data := range traffic {
		for _, oneWay := range []time.Duration{0, 20 * time.Millisecond, 90 * time.Millisecond} {
			for phase := time.Duration(0); phase < activeProbeInterval; phase += 5 * time.Millisecond {
				d := newDuplex(t, oneWay, phase, func(ends *[2]duplexEnd) {
					ends[0].data, ends[1].data = data[0], data[1]
					if change != nil {
						change(ends)
					}
				})
				test(d, fmt.Sprintf("%s, one way %v, phase %v", name, oneWay, phase))
			}
		}
	}
}

// Data takes the place of probes: what arrives proves that the far end lives, and that it does not complain proves the
// other direction (RFC 3706 has the idea). Nothing is asked twice.
func TestRFC3706_DataTakesThePlaceOfProbes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]int{ // probes of each end in 10 s, at most: 143 ticks, and 10 answers
		"no data":      {153, 153},
		"data one way": {20, 153},
		"data":         {20, 20},
	} {
		for phase := time.Duration(0); phase < activeProbeInterval; phase += 3 * time.Millisecond {
			d := newDuplex(t, 20*time.Millisecond, phase, func(ends *[2]duplexEnd) {
				ends[0].data, ends[1].data = traffic[name][0], traffic[name][1]
			})
			d.run(10 * time.Second)
			t.Logf("%s, phase %v: %d probes in 10 s", name, phase, d.ends[0].sent+d.ends[1].sent)
			for i, e := range d.ends {
				if e.sent > want[i]+2 {
					t.Errorf("%s, phase %v: end %d sends %d probes, %d of them requests, want at most %d", name, phase, i, e.sent, e.requests, want[i])
				}
				if e.requests < 9 || e.lost != 0 {
					t.Errorf("%s, phase %v: end %d sends %d requests, and loses %d", name, phase, i, e.requests, e.lost)
				}
			}
		}
	}
}

// A process with little CPU time, as with a limit of the container, runs for some of every 100 ms. What it has not received yet is
// not missing, and the round trips that vary by that time are measured at some of the ticks.
func TestF19_AnEndWithLittleCPUTimeAsksAtEachThirdTick(t *testing.T) {
	t.Parallel()
	for name, data := range traffic {
		for phase := time.Duration(0); phase < activeProbeInterval; phase += 3 * time.Millisecond {
			d := newDuplex(t, 2*time.Millisecond, phase, func(ends *[2]duplexEnd) {
				ends[0].data, ends[1].data = data[0], data[1]
				ends[0].pause, ends[1].pause = 95*time.Millisecond, 95*time.Millisecond
			})
			d.run(30 * time.Second)
			for i, e := range d.ends {
				if ticks := 30_000 / 95; e.requests > ticks/3+variedTicks || e.downs > 0 {
					t.Errorf("%s, phase %v: end %d sends %d requests at %d ticks, and is down %d times", name, phase, i, e.requests, ticks, e.downs)
				}
			}
		}
	}
}

// A gateway has links at rest to most remote gateways. That their round trips vary costs nothing: no flow waits for a cut to be found.
func TestF19_ALinkAtRestIsNotAskedMoreOftenBecauseItsRoundTripVaries(t *testing.T) {
	t.Parallel()
	for phase := time.Duration(0); phase < restingProbeInterval; phase += 7 * time.Millisecond {
		d := newDuplex(t, 2*time.Millisecond, phase, func(ends *[2]duplexEnd) {
			ends[0].active, ends[1].active = false, false
			ends[0].pause, ends[1].pause = 95*time.Millisecond, 240*time.Millisecond
		})
		d.run(30 * time.Second)
		if e := d.ends[0]; e.varies() <= probeSlack || e.requests > 45 || e.downs > 0 { // one for each second, and some for packets that came late
			t.Errorf("phase %v: the round trip varies by %v; %d requests in 30 s, and down %d times", phase, e.varies(), e.requests, e.downs)
		}
	}
}

// An end with little CPU time sends late as soon as it has much to do. How late its packets came is how late they may come again,
// for some seconds.
func TestF19_PacketsThatCameLateMayComeLateAgain(t *testing.T) {
	t.Parallel()
	missing := func(d *duplex, ticks time.Duration) {
		d.ends[1].cut = true
		d.run(ticks * activeProbeInterval)
		d.ends[1].cut = false
		d.run(300 * time.Millisecond)
	}
	for phase := time.Duration(0); phase < activeProbeInterval; phase += 3 * time.Millisecond {
		d := newDuplex(t, time.Millisecond, phase, func(ends *[2]duplexEnd) { ends[0].data = 5 * time.Millisecond })
		e := &d.ends[0]
		if missing(d, 3); e.downs != 0 {
			t.Fatalf("phase %v: down when the packets of 3 ticks are missing", phase)
		}
		if missing(d, 4); e.downs != 0 {
			t.Fatalf("phase %v: down when those of 4 are missing after those of 3", phase)
		}
		d.run(variedTicks * activeProbeInterval)
		if missing(d, 4); e.downs == 0 {
			t.Errorf("phase %v: up when those of 4 are missing, and none before", phase)
		}
		if e.slack() > probeSlack {
			t.Errorf("phase %v: patient for %v after an outage", phase, e.patience())
		}
	}
}

// Whatever data crosses, and whenever the link is cut, in one direction or in both: both ends know soon.
func TestF22_BothEndsFindACutWithin400msWhateverDataCrosses(t *testing.T) {
	t.Parallel()
	for _, cut := range [][2]bool{{true, true}, {true, false}, {false, true}} {
		var took []time.Duration
		everyDuplex(t, nil, func(d *duplex, name string) {
			for i := range d.ends {
				d.ends[i].cut = cut[i]
			}
			began := d.now
			for d.ends[0].downs == 0 || d.ends[1].downs == 0 {
				if d.step(began.Add(time.Hour)); d.now.Sub(began) > 2*time.Second {
					t.Fatalf("%s, cut %v: down %d and %d times after 2 s", name, cut, d.ends[0].downs, d.ends[1].downs)
				}
			}
			took = append(took, d.now.Sub(began)-2*d.oneWay)
			for i := range d.ends {
				d.ends[i].cut = false
			}
			d.run(time.Second)
			if !d.ends[0].up(d.now) || !d.ends[1].up(d.now) || d.ends[0].downs+d.ends[1].downs > 2 {
				t.Fatalf("%s, cut %v: not up again for good", name, cut)
			}
		})
		t.Logf("cut %v: both down %v to %v after a round trip", cut, slices.Min(took), slices.Max(took))
		limit := 400 * time.Millisecond
		if cut[0] && cut[1] {
			limit = 290 * time.Millisecond
		}
		if slices.Max(took) > limit {
			t.Errorf("cut %v: down after %v and a round trip, want %v", cut, slices.Max(took), limit)
		}
	}
}

// A link that rests has half as many ticks. If it is cut, data that begins to cross it, as when another link has failed, is not lost
// for longer than the data of any other link.
func TestF22_ACutOfALinkAtRestIsFoundWithin920msOrSoonAfterDataBegins(t *testing.T) {
	t.Parallel()
	for _, oneWay := range []time.Duration{time.Millisecond, 90 * time.Millisecond} {
		for _, begins := range []time.Duration{0, 50 * time.Millisecond, 290 * time.Millisecond, time.Second} {
			var took []time.Duration
			for phase := time.Duration(0); phase < restingProbeInterval; phase += 7 * time.Millisecond {
				d := newDuplex(t, oneWay, phase, func(ends *[2]duplexEnd) { ends[0].active, ends[1].active = false, false })
				d.run(time.Second + phase)
				if d.ends[0].sent > 7 {
					t.Fatalf("phase %v: %d probes in %v at rest", phase, d.ends[0].sent, time.Second+phase)
				}
				d.ends[0].cut, d.ends[1].cut = true, true
				cut := d.now
				for d.ends[0].downs == 0 && d.now.Sub(cut) < 2*time.Second {
					if e := &d.ends[0]; !e.active && d.now.Sub(cut) >= begins {
						e.active, e.data, e.next = true, 9*time.Millisecond, d.now
						e.due = d.now.Add(activeProbeInterval) // of the gateway
					}
					d.step(d.now.Add(10 * time.Millisecond))
				}
				took = append(took, d.now.Sub(cut)-2*oneWay)
			}
			t.Logf("one way %v, data begins after %v: down %v to %v after a round trip", oneWay, begins, slices.Min(took), slices.Max(took))
			if limit := min(begins+400*time.Millisecond, 920*time.Millisecond); slices.Max(took) > limit {
				t.Errorf("one way %v, data begins after %v: down after %v and a round trip, want %v", oneWay, begins, slices.Max(took), limit)
			}
		}
	}
}

// Two packets in a row may be lost, in any direction.
func TestTwoLostPacketsDoNotBringALinkDown(t *testing.T) {
	t.Parallel()
	for _, lose := range [][2]int{{2, 0}, {0, 2}, {1, 1}} {
		everyDuplex(t, nil, func(d *duplex, name string) {
			d.ends[0].lose, d.ends[1].lose = lose[0], lose[1]
			d.run(time.Second)
			if d.ends[0].downs != 0 || d.ends[1].downs != 0 {
				t.Fatalf("%s, lost %v: down", name, lose)
			}
		})
	}
}

// Ends that see data at different times have different intervals, and older versions know no statements.
func TestALinkStaysUpBetweenEndsThatProbeDifferently(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(ends *[2]duplexEnd){
		"the second end is inactive": func(ends *[2]duplexEnd) { ends[1].active = false },
		"both ends are inactive":     func(ends *[2]duplexEnd) { ends[0].active, ends[1].active = false, false },
		"the second end is older":    func(ends *[2]duplexEnd) { ends[1].old = true },
		"it is older and inactive":   func(ends *[2]duplexEnd) { ends[1].old, ends[1].active = true, false },
	} {
		everyDuplex(t, change, func(d *duplex, what string) {
			d.run(3 * time.Second)
			d.ends[0].lose, d.ends[1].lose = 1, 1
			d.run(time.Second)
			if d.ends[0].downs != 0 || d.ends[1].downs != 0 {
				t.Fatalf("%s, %s: down", name, what)
			}
		})
	}
}

// After an outage, answers that come late make the round trip vary. A cut soon after it is found as fast as any other.
func TestF22_ACutIsFoundAsFastSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	everyDuplex(t, nil, func(d *duplex, name string) {
		usual := d.oneWay
		d.oneWay = time.Second
		d.run(3 * time.Second)
		d.oneWay = usual
		d.run(4 * time.Second)
		for i := range d.ends {
			if e := &d.ends[i]; e.slack() > probeSlack || e.smoothed > 2*usual+probeSlack {
				t.Errorf("%s: end %d is patient for %v, with a round trip of %v", name, i, e.patience(), e.smoothed)
			}
		}
	})
}

func TestAnEndThatShutsDownSaysSoAtItsNextTickWhateverDataCrosses(t *testing.T) {
	t.Parallel()
	everyDuplex(t, nil, func(d *duplex, name string) {
		d.ends[0].leaves, d.ends[0].deviation = true, time.Second // which also makes it ask
		d.run(2*activeProbeInterval + d.oneWay + time.Millisecond)
		if !d.ends[1].leaving {
			t.Fatalf("%s: not known", name)
		}
	})
}
