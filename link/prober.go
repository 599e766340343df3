package link

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
	// Interval is the time between ticks. A link that is cut is down 0.32 to 0.4 s later.
	Interval = 80 * time.Millisecond
	// Misses is the number of ticks after which a link is down.
	Misses = 4
	// Overdue is how long a link is up without news.
	Overdue = 5 * time.Second
	// lateNews is how long a probe may take to be news.
	lateNews = 3 * time.Second
)

// Prober decides whether a link is up. The caller sends, receives and locks, and only reads the fields. The zero
// value is a link that is down.
type Prober struct {
	Sent     uint64        // sequence of the last probe; the first is 1
	sentAt   [64]time.Time // of the last probes, by sequence: all of the last lateNews and more
	Arrived  uint64        // the last one of which the far end said that it has arrived
	News     time.Time     // when it said so
	Last     Probe         // of the far end; kind 0: none has arrived
	lastAt   time.Time     // when that arrived
	Quiet    int           // ticks in a row before which nothing had arrived since the tick before
	Awaiting int           // ticks since news
	UpSince  time.Time     // zero: down
	RTT      time.Duration // of the last news; 0 = none yet
	Lost     uint64        // probes of the far end, while the link was up
}

// Tick returns the probe that is due. received says whether an authenticated packet has arrived since
// the tick before, silence for how long none has. mtu is the inner MTU of this end, and leaving whether it is about to
// end the link.
func (p *Prober) Tick(received bool, silence time.Duration, mtu int, leaving bool, now time.Time) Probe {
	p.Quiet++
	if received {
		p.Quiet = 0
	}
	p.Awaiting++
	p.check(now)
	p.Sent++
	*p.at(p.Sent) = now
	due := Probe{Kind: Hello, MTU: uint16(mtu), Sequence: p.Sent, Silence: silence}
	if leaving {
		due.Kind = Leaving
	}
	if p.Last.Kind != 0 {
		due.Arrived, due.Held = p.Last.Sequence, now.Sub(p.lastAt)
	}
	return due
}

// Take processes a probe of the far end. measured reports that it is the first to say that a probe of this end has
// arrived, and that the link was up when that one was sent: else it may have waited for a handshake, which is no round
// trip.
func (p *Prober) Take(q Probe, now time.Time) (measured bool) {
	switch before := p.Last.Sequence; {
	case q.Sequence <= before && before-q.Sequence < reordered:
		return false
	case q.Sequence > before && !p.UpSince.IsZero(): // an outage is no loss
		p.Lost += q.Sequence - before - 1
	}
	p.Last, p.lastAt = q, now
	if q.Arrived > p.Arrived && p.recent(q.Arrived, now) && !q.Unreached() {
		p.Arrived, p.News, p.Awaiting = q.Arrived, now, 0
		at := *p.at(q.Arrived)
		p.RTT = max(now.Sub(at)-q.Held, 0)
		if measured = !p.UpSince.IsZero() && !at.Before(p.UpSince); p.UpSince.IsZero() {
			p.UpSince, p.Quiet = now, 0
		}
	}
	p.check(now)
	return measured
}

// reordered is how far behind the last sequence a probe may be that another one has overtaken. One that is farther
// behind is of a far end that has started anew.
const reordered = 8

// at returns when the probe with a sequence was sent, if it is one of the last.
func (p *Prober) at(sequence uint64) *time.Time { return &p.sentAt[sequence%uint64(len(p.sentAt))] }

// recent reports whether a sequence is that of a probe which this end has sent within lateNews.
func (p *Prober) recent(sequence uint64, now time.Time) bool {
	return sequence <= p.Sent && p.Sent-sequence < uint64(len(p.sentAt)) && now.Sub(*p.at(sequence)) < lateNews
}

// check notes if the link is down.
func (p *Prober) check(now time.Time) {
	if p.Quiet >= Misses || p.Awaiting >= Misses && p.Last.Unreached() || p.overdue(now) {
		p.UpSince = time.Time{}
	}
}

func (p *Prober) overdue(now time.Time) bool { return now.Sub(p.News) >= Overdue }

// Fitness ranks links for forwarding.
type Fitness int

// The fitness of a link, in ascending order.
const (
	Down   Fitness = iota
	Ending         // up, but its far end is about to end it
	Up
)

// Fit returns the Fitness of the link.
func (p *Prober) Fit(now time.Time) Fitness {
	switch {
	case p.UpSince.IsZero() || p.overdue(now):
		return Down
	case p.Last.Kind == Leaving:
		return Ending
	}
	return Up
}

// Steady returns how long the link had been up when the last news came. The time since then does not
// count: the link may have failed again, which is not known yet.
func (p *Prober) Steady() time.Duration {
	if p.UpSince.IsZero() {
		return 0
	}
	return p.News.Sub(p.UpSince)
}
