package tun

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Link probes: each end of a link asks the other twice a second, over UDP inside
// the tunnel, between the hosts' link addresses, and is answered.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                        magic "STRP"                           |
//	+---------------+---------------+-------------------------------+
//	|  version = 1  | kind: 1 or 2  |   inner MTU of the sender     |
//	+---------------+---------------+-------------------------------+
//	|                       sequence (8 bytes)                      |
//	+---------------------------------------------------------------+
//
// kind 1 asks, 2 answers with the sequence of the question. Later versions may
// append fields; what is longer than this is read as far as it is known.
const (
	probePort    = 6093
	probeLen     = 16
	probeMagic   = 0x53545250
	probeVersion = 1

	probeAsk    = 1
	probeAnswer = 2
)

const (
	probeInterval = 500 * time.Millisecond
	// probeLost is how long an answer may take. A link on which nothing has been
	// answered for that long is down.
	probeLost = 3 * probeInterval
	// minAnnouncedMTU is the smallest inner MTU that a remote may make us use:
	// every IPv4 host takes 576 bytes (RFC 791 section 3.1).
	minAnnouncedMTU = 576
)

type probe struct {
	kind     uint8
	mtu      uint16
	sequence uint64
}

func (p probe) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, probeMagic)
	b = append(b, probeVersion, p.kind)
	b = binary.BigEndian.AppendUint16(b, p.mtu)
	return binary.BigEndian.AppendUint64(b, p.sequence)
}

func parseProbe(b []byte) (probe, bool) {
	if len(b) < probeLen || binary.BigEndian.Uint32(b) != probeMagic || b[4] < probeVersion {
		return probe{}, false
	}
	p := probe{kind: b[5], mtu: binary.BigEndian.Uint16(b[6:]), sequence: binary.BigEndian.Uint64(b[8:])}
	return p, p.kind == probeAsk || p.kind == probeAnswer
}

// prober is one link's side of probing: what was asked, what was answered. It is
// a function of the calls and their times; the caller sends, receives and locks.
type prober struct {
	address  netip.Addr // the far end
	next     uint64     // sequence of the next question; the first is 1
	asked    [8]asked   // the last questions, by sequence
	answered time.Time  // the last answer
	mtu      uint16     // what the far end announced last; 0 = nothing yet

	sent, lost uint64
	rtt        time.Duration // of the last answer
}

type asked struct {
	sequence uint64
	at       time.Time
	open     bool
}

// ask makes the next question. A question that is overwritten unanswered is lost.
func (p *prober) ask(mtu int, now time.Time) probe {
	p.expire(now)
	p.next++
	p.sent++
	p.asked[p.next%uint64(len(p.asked))] = asked{p.next, now, true}
	return probe{kind: probeAsk, mtu: uint16(mtu), sequence: p.next}
}

// owesQuestion reports whether to ask back at once when the far end asks: when
// the link is not up, and nothing was asked lately. Two ends that both find the
// link down must not answer every question with another.
func (p *prober) owesQuestion(now time.Time) bool {
	last := p.asked[p.next%uint64(len(p.asked))].at
	return !p.up(now) && now.Sub(last) >= probeInterval/2
}

// expire counts the questions that nobody answered in time.
func (p *prober) expire(now time.Time) {
	for i := range p.asked {
		if a := &p.asked[i]; a.open && now.Sub(a.at) >= probeLost {
			a.open = false
			p.lost++
		}
	}
}

// answer takes an answer and reports whether it was one to a question of ours.
// That it came proves that the link works in both directions.
func (p *prober) answer(a probe, now time.Time) bool {
	q := &p.asked[a.sequence%uint64(len(p.asked))]
	if !q.open || q.sequence != a.sequence || now.Sub(q.at) >= probeLost {
		return false
	}
	q.open = false
	p.rtt = now.Sub(q.at)
	p.answered = now
	return true
}

// up reports whether a probe has crossed both ways lately.
func (p *prober) up(now time.Time) bool {
	return !p.answered.IsZero() && now.Sub(p.answered) < probeLost
}
