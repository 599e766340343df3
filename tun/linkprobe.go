package tun

import (
	"net/netip"
	"time"
)

// Link probes: packets over UDP inside the tunnel, between the hosts' link addresses. Each end has
// a tick every 140 ms; every 70 ms while data crosses the link; every 280 ms if none does and the link
// has been up for some time. At a tick it sends
//
//   - a request, which the other end answers, if nothing has arrived since the tick before, if the
//     other end said that it receives little or has fewer ticks, if the link is not up, or once per
//     second; while the round trip of a link that is not at rest varies, at each tick, and after 128 of them at
//     every third
//   - else a statement, which has no answer, if no data of this end has crossed since the tick before
//   - else nothing
//
// So what arrives proves that the other end lives, as in RFC 3706, and data replaces probes.
const (
	// probeInterval is the time between ticks. A link that is cut is down within 0.5 s.
	probeInterval = 140 * time.Millisecond
	// activeProbeInterval is the time between ticks while data crosses the link. A link that is cut is
	// down within 0.29 s, before the first retransmission of most TCP connections: Linux starts its timer of
	// 0.2 s anew with each segment that it sends, and a connection that has filled its congestion window
	// retransmits 0.35 to 0.6 s after the loss. The next retransmission comes 0.4 s later.
	activeProbeInterval = 70 * time.Millisecond
	// restingProbeInterval is the time between ticks of a link that has been up for the time settled, and that no data
	// crosses: a gateway has such links to most remote gateways. One that is cut is down within 0.92 s, and within 0.4 s of
	// the first data that crosses it.
	restingProbeInterval = 280 * time.Millisecond
	// probeMisses is the number of consecutive ticks without a proof after which a link is down, unless
	// packets arrive.
	probeMisses = 3
	// requestInterval is the greatest time between requests: they measure the round trip, and prove that the far
	// end's probes are more than packets that arrive.
	requestInterval = time.Second
	// variedTicks is the number of ticks after which a round trip that still varies is no consequence of an outage.
	variedTicks = 128
	// probeSlack is the least time that an answer may take beyond the usual: a link that is cut is down three
	// intervals and this time after the last proof.
	probeSlack = 80 * time.Millisecond
	// lateTicks is the number of ticks in which how late packets came is forgotten, down to 1/e.
	lateTicks = 32
	// probeLost is the least time after which a request without an answer counts as lost.
	probeLost = time.Second
	// probeLate is how late an answer still proves that the link works.
	probeLate = 3 * time.Second
	// probeOverdue is how long any link is up without an answer. Packets that arrive prove only one
	// direction.
	probeOverdue = 5 * time.Second
	// minAnnouncedMTU is the smallest inner MTU accepted from a remote: every IPv4 host accepts
	// 576 bytes (RFC 791 section 3.1).
	minAnnouncedMTU = 576
)

// prober is the probing state of one link: requests and answers. It depends only on its calls
// and the times passed to it; the caller sends, receives and locks.
type prober struct {
	address   netip.Addr    // link address of the far end
	active    bool          // ticks follow each other after activeProbeInterval
	resting   bool          // after restingProbeInterval
	next      uint64        // sequence of the last tick; the first is 1
	asked     [64]asked     // the last ticks, by sequence: those of probeLate and more
	ticked    time.Time     // time of the last tick
	varied    int           // ticks since the round trip began to vary
	requested time.Time     // time of the last ordinary request
	latest    uint64        // the greatest sequence that was answered
	answered  time.Time     // time of the last answer
	received  time.Time     // time of the last authenticated packet of the far end
	heard     time.Time     // received at the last tick
	unheard   int           // ticks since then without another
	late      time.Duration // how late packets of the far end came in the last seconds
	forwarded uint64        // data packets that this end had sent at the last tick
	probes    bool          // the far end has sent a probe, so that it answers them, too
	states    bool          // it states its silence
	theirs    time.Duration // between its ticks, as it said last; 0: it does not say
	doubted   time.Time     // while it says that it receives little: when it last received a packet, or later; else zero
	unreached time.Time     // time of the last probe, if it said that the far end receives nothing
	failed    bool          // found down since the last answer
	leaving   bool          // the last answer said that the far end is about to end the link
	upSince   time.Time     // while up
	mtu       uint16        // the last MTU announced by the far end; 0 = none yet

	path pathProber

	// Of ordinary requests: large ones are lost and delayed differently.
	sent, lost uint64
	roundTrip
}

// asked is a request, or a tick without one.
type asked struct {
	sequence uint64
	at       time.Time
	size     int  // of the padded packet, bytes; 0 = not padded
	open     bool // asked and not answered
	lost     bool // counted as lost
}

// tick returns the probe that is due at a tick, if any. forwarded is how many data packets this end has sent through
// the link, leaving whether it is shutting down.
func (p *prober) tick(mtu int, forwarded uint64, leaving bool, now time.Time) (due probe, ok bool) {
	silent := forwarded == p.forwarded
	quiet := !p.received.After(p.ticked) // not for a time: what arrived while this end did not run still waits at a late tick
	p.forwarded, p.ticked = forwarded, now
	p.follow(quiet)
	if p.varied++; p.varies() <= probeSlack {
		p.varied = 0
	}
	sparse, every := quiet || p.theirs > p.interval(), p.requestEvery()
	if leaving { // which requests do not say
		sparse, every = false, requestInterval
	}
	if sparse || now.Sub(p.requested) >= every || !p.implies() || !p.up(now) {
		return p.ask(mtu, now), true
	}
	p.note(0, false, now)
	due = probe{kind: probeStatement, mtu: uint16(mtu), silence: p.silence(now), interval: p.interval()}
	if leaving {
		due.kind = probeLeaving
	}
	return due, silent || leaving
}

// follow notes how late packets of the far end come. Those of an end with little CPU time are late as soon as it has much to
// do, before round trips can tell. An interval in which this end did not run counts as one and a half.
func (p *prober) follow(quiet bool) {
	p.late -= p.late / lateTicks
	gap := p.received.Sub(p.heard)
	p.heard = p.received
	if quiet {
		p.unheard++
		return
	}
	if p.unheard > 0 {
		interval := p.interval()
		p.late = max(p.late, min(gap, time.Duration(p.unheard+1)*interval*3/2)-interval)
	}
	p.unheard = 0
}

// requestEvery returns the greatest time between requests. While the round trip varies, a cut is found late until it is known how
// much: after an overload, late answers make it vary for some seconds. If it varies for longer, that is how the link is. On a link
// at rest, a cut may be found late.
func (p *prober) requestEvery() time.Duration {
	switch {
	case p.varied == 0 || p.resting:
		return requestInterval
	case p.varied <= variedTicks:
		return 0
	}
	return probeMisses * p.interval()
}

// ask returns the next request.
func (p *prober) ask(mtu int, now time.Time) probe {
	p.sent++
	p.requested = now
	return p.question(mtu, 0, now)
}

// pathProbe is a request that is padded to a size, in bytes of IP packet.
type pathProbe struct {
	probe
	size int
}

// askPath returns the next requests that probe the path. own is the MTU that this end announces, and ceiling the one that its
// interfaces have.
func (p *prober) askPath(own, ceiling int, now time.Time) (all []pathProbe) {
	if !p.up(now) {
		return nil
	}
	target := ceiling
	if p.mtu != 0 {
		target = min(target, max(int(p.mtu), minAnnouncedMTU))
	}
	size, smaller := p.path.ask(target, ceiling, max(p.timeout(), probeInterval), now)
	for _, s := range []int{size, smaller} {
		if s != 0 {
			all = append(all, pathProbe{p.question(own, s, now), s})
		}
	}
	return all
}

func (p *prober) question(mtu, size int, now time.Time) probe {
	p.note(size, true, now)
	return probe{kind: probeAsk, mtu: uint16(mtu), sequence: p.next, silence: p.silence(now), interval: p.interval()}
}

// note adds a tick or a request.
func (p *prober) note(size int, open bool, now time.Time) {
	p.expire(now)
	p.next++
	p.asked[p.next%uint64(len(p.asked))] = asked{sequence: p.next, at: now, size: size, open: open}
}

// owesQuestion reports whether to send a request at once when the far end sends one: if the link
// is not up and no request was sent recently. Two ends that both see the link down must not
// answer every request with another.
func (p *prober) owesQuestion(now time.Time) bool {
	return !p.up(now) && now.Sub(p.requested) >= probeInterval/2
}

// expire counts the requests whose answer timed out.
func (p *prober) expire(now time.Time) {
	timeout := p.lostAfter()
	for i := range p.asked {
		if a := &p.asked[i]; a.open && !a.lost && now.Sub(a.at) >= timeout {
			a.lost = true
			if a.size == 0 {
				p.lost++
			}
		}
	}
}

// told processes what any probe of the far end says about its end.
func (p *prober) told(q probe, now time.Time) {
	implied, interval := p.implies(), p.interval()
	p.mtu, p.probes, p.states, p.unreached, p.theirs = q.mtu, true, q.silence != unstated, time.Time{}, q.interval
	if q.kind == probeLeaving {
		p.leaving = true
	}
	switch {
	case q.silence < interval*3/2: // at most one packet of this end was lost
		p.doubted = time.Time{}
	case implied:
		// Until now, packets that arrived proved both directions: too much. No more than the time in which it
		// could not say so is taken back: it may speak of a time in which this end did not run.
		p.doubted = now.Add(-min(q.silence, 2*interval))
	case p.doubted.IsZero():
		p.doubted = now.Add(-q.silence)
	}
	if q.silence >= p.patience() {
		p.unreached = now
	}
}

// implies reports whether packets of the far end prove that both directions work: it would say if it received little.
func (p *prober) implies() bool { return p.states && p.doubted.IsZero() }

// implied returns when both directions last worked, as far as packets of the far end and their absence prove it.
func (p *prober) implied() time.Time {
	switch {
	case !p.states:
		return time.Time{}
	case p.doubted.IsZero():
		return p.received
	}
	return p.doubted
}

// proven returns when it was last proven that both directions work.
func (p *prober) proven() time.Time { return later(p.answered, p.implied()) }

// answer processes an answer and reports whether it matches a request. An answer proves that the
// link works in both directions. A late one does too, but its request counts as lost.
func (p *prober) answer(a probe, now time.Time) bool {
	p.expire(now)
	q := &p.asked[a.sequence%uint64(len(p.asked))]
	if !q.open || q.sequence != a.sequence || now.Sub(q.at) >= probeLate {
		return false
	}
	q.open = false
	if !p.up(now) {
		p.upSince = now
		p.path.restart(p.path.target, p.path.ceiling)
	}
	if q.size == 0 {
		p.measure(now.Sub(q.at), q.at.Before(p.upSince))
	} else {
		p.path.answer(q.size, now)
	}
	p.latest = max(p.latest, a.sequence)
	p.answered, p.failed, p.leaving = now, false, a.kind == probeLeaving
	return true
}

// slack returns how much longer than usual an answer may take: as late as packets have come, they may come again.
func (p *prober) slack() time.Duration { return min(max(probeSlack, p.varies(), p.late), probeLate) }

// timeout returns how long an answer may take.
func (p *prober) timeout() time.Duration { return min(p.smoothed+p.slack(), probeLate) }

// lostAfter returns when a request without an answer counts as lost.
func (p *prober) lostAfter() time.Duration { return max(probeLost, p.timeout()) }

// patience returns how long nothing may arrive on a link that works: each end sends a packet in every interval.
func (p *prober) patience() time.Duration { return probeMisses*p.interval() + p.slack() }

// pace decides how often ticks are due from now on. active says that data crosses the link. A far end that does not say how often
// it has ticks could take one that rests for down.
func (p *prober) pace(active bool, now time.Time) {
	p.active = active
	p.resting = !active && p.theirs != 0 && p.up(now) && now.Sub(p.upSince) >= settled
}

// interval returns the time between ticks.
func (p *prober) interval() time.Duration {
	if p.resting {
		return restingProbeInterval
	}
	return intervalOf(p.active)
}

// intervalOf returns the time between the ticks of a gateway, and of links that do not rest, while data crosses, or does not.
func intervalOf(active bool) time.Duration {
	if active {
		return activeProbeInterval
	}
	return probeInterval
}

// silence returns for how long nothing of the far end has arrived.
func (p *prober) silence(now time.Time) time.Duration {
	if p.received.IsZero() {
		return maxSilence
	}
	return min(max(now.Sub(p.received), 0).Truncate(time.Millisecond), maxSilence)
}

// missed returns when the last of probeMisses ticks in a row without a proof was. It is false if there were fewer
// after the last proof: an end that does not run finds nothing down.
func (p *prober) missed() (at time.Time, ok bool) {
	first := p.latest + 1
	if size := uint64(len(p.asked)); p.next > size {
		first = max(first, p.next-size+1)
	}
	proven := p.implied().Add(-p.smoothed) // what was sent after that may be in transit
	misses := 0
	for s := first; s <= p.next; s++ {
		a := &p.asked[s%uint64(len(p.asked))]
		if a.size != 0 || !a.at.After(proven) {
			continue
		}
		if misses++; misses == probeMisses {
			return a.at, true
		}
	}
	return time.Time{}, false
}

// overdue returns until when a proof is expected, after the ticks without one.
func (p *prober) overdue(missed time.Time) time.Time {
	return later(missed.Add(p.timeout()), p.implied().Add(p.patience()))
}

// up reports whether the link works. A recent answer proves both directions, and so do packets of a far end that
// would say if it received little. Under load, they are late or lost before the data that keeps them waiting: while any
// authenticated packet arrives, the link stays up for probeOverdue after the last answer, unless the far end says that
// it receives nothing. It must say so after all ticks without a proof: what it said before may be about a time in
// which this end did not run. Packets alone never bring it up.
func (p *prober) up(now time.Time) bool {
	if p.failed || p.answered.IsZero() || now.Sub(p.answered) >= probeOverdue {
		return false
	}
	at, ok := p.missed()
	return !ok || now.Before(p.overdue(at)) || p.unreached.Before(at) && p.receives(p.patience(), now)
}

// settle makes a link that is not up stay down until the next answer.
func (p *prober) settle(now time.Time) {
	if p.failed = !p.up(now); p.failed {
		p.unheard = 0 // an outage is not late
	}
}

// expires returns when a link that is up would be found down, or would be up only because packets
// arrive, if nothing happened until then. It is zero if the link is down.
func (p *prober) expires(now time.Time) time.Time {
	if !p.up(now) {
		return time.Time{}
	}
	at, ok := p.missed()
	if ok {
		if at = p.overdue(at); !now.Before(at) {
			at = p.received.Add(p.patience())
		}
	}
	return earliest(p.answered.Add(probeOverdue), at)
}

// earliest returns the earlier of two times. Zero stands for no time.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// receives reports whether an authenticated packet of the far end has arrived within a time.
func (p *prober) receives(within time.Duration, now time.Time) bool {
	return !p.received.IsZero() && now.Sub(p.received) < within
}
