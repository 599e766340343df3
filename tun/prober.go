package tun

import "time"

// Link probes are packets over UDP inside the tunnel, between the hosts' link addresses. Each end sends
// one every 80 ms, whatever else crosses the link, as in the asynchronous mode of BFD (RFC 5880
// section 3.2). A probe says which probe of the other end was the last to arrive, and for how long
// nothing at all has arrived. It has no answer.
//
//	event                                                            the link is
//	a probe brings news: another probe of the last 3 s has arrived   up
//	4 ticks pass, and nothing arrives                                down
//	4 ticks pass without news, and the far end receives nothing      down: cut in one direction
//	5 s pass without news, whatever arrives                          down
//
// Under load, probes are late or lost before the data that delays them, so that data keeps a link up
// for 5 s. Ticks are counted, not measured: an end that does not run finds nothing down.
const (
	// probeInterval is the time between ticks. A link that is cut is down 0.32 to 0.4 s later.
	probeInterval = 80 * time.Millisecond
	// probeMisses is the number of ticks after which a link is down.
	probeMisses = 4
	// probeOverdue is how long a link is up without news.
	probeOverdue = 5 * time.Second
	// probeLate is how long a probe may take to be news.
	probeLate = 3 * time.Second
)

// prober decides whether a link is up. It depends only on its calls and the times passed to it; the
// caller sends, receives and locks.
type prober struct {
	sent     uint64        // sequence of the last probe; the first is 1
	sentAt   [64]time.Time // of the last probes, by sequence: all of the last probeLate and more
	arrived  uint64        // the last one of which the far end said that it has arrived
	news     time.Time     // when it said so
	last     probe         // of the far end; kind 0: none has arrived
	lastAt   time.Time     // when that arrived
	quiet    int           // ticks in a row before which nothing had arrived since the tick before
	awaiting int           // ticks since news
	upSince  time.Time     // zero: down
	rtt      time.Duration // of the last news; 0 = none yet
	lost     uint64        // probes of the far end, while the link was up
}

// tick returns the probe that is due. received says whether an authenticated packet has arrived since
// the tick before, silence for how long none has. mtu is the inner MTU of this end, and leaving whether it is about to
// end the link.
func (p *prober) tick(received bool, silence time.Duration, mtu int, leaving bool, now time.Time) probe {
	p.quiet++
	if received {
		p.quiet = 0
	}
	p.awaiting++
	p.check(now)
	p.sent++
	*p.at(p.sent) = now
	due := probe{kind: probeHello, mtu: uint16(mtu), sequence: p.sent, silence: silence}
	if leaving {
		due.kind = probeLeaving
	}
	if p.last.kind != 0 {
		due.arrived, due.held = p.last.sequence, now.Sub(p.lastAt)
	}
	return due
}

// take processes a probe of the far end. news says that it is the first to say that a probe of this end has arrived, measured
// that the link was up when that one was sent: else it may have waited for a handshake, which is no round trip.
func (p *prober) take(q probe, now time.Time) (news, measured bool) {
	switch before := p.last.sequence; {
	case q.sequence <= before && before-q.sequence < reordered:
		return false, false
	case q.sequence > before && !p.upSince.IsZero(): // an outage is no loss
		p.lost += q.sequence - before - 1
	}
	p.last, p.lastAt = q, now
	if news = q.arrived > p.arrived && p.recent(q.arrived, now) && !q.unreached(); news {
		p.arrived, p.news, p.awaiting = q.arrived, now, 0
		at := *p.at(q.arrived)
		p.rtt = max(now.Sub(at)-q.held, 0)
		if measured = !p.upSince.IsZero() && !at.Before(p.upSince); p.upSince.IsZero() {
			p.upSince, p.quiet = now, 0
		}
	}
	p.check(now)
	return news, measured
}

// unreached reports whether the sender says that it receives nothing.
func (q probe) unreached() bool { return q.silence >= probeMisses*probeInterval }

// reordered is by how much a sequence that is less than the last one belongs to a probe that was overtaken. Less than
// that, the far end has started anew.
const reordered = 8

// at returns when the probe with a sequence was sent, if it is one of the last.
func (p *prober) at(sequence uint64) *time.Time { return &p.sentAt[sequence%uint64(len(p.sentAt))] }

// recent reports whether a sequence is that of a probe which this end has sent within probeLate.
func (p *prober) recent(sequence uint64, now time.Time) bool {
	return sequence <= p.sent && p.sent-sequence < uint64(len(p.sentAt)) && now.Sub(*p.at(sequence)) < probeLate
}

// check notes if the link is down.
func (p *prober) check(now time.Time) {
	if p.quiet >= probeMisses || p.awaiting >= probeMisses && p.last.unreached() || p.overdue(now) {
		p.upSince = time.Time{}
	}
}

func (p *prober) overdue(now time.Time) bool { return now.Sub(p.news) >= probeOverdue }

// fitness ranks links for forwarding.
type fitness int

const (
	down   fitness = iota
	ending         // up, but its far end is about to end it
	up
)

// fit returns the fitness of the link.
func (p *prober) fit(now time.Time) fitness {
	switch {
	case p.upSince.IsZero() || p.overdue(now):
		return down
	case p.last.kind == probeLeaving:
		return ending
	}
	return up
}

// steady returns how long the link had been up when the last news came. The time since then does not
// count: the link may have failed again, which is not known yet.
func (p *prober) steady() time.Duration {
	if p.upSince.IsZero() {
		return 0
	}
	return p.news.Sub(p.upSince)
}
