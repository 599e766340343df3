package tun

import (
	"encoding/binary"
	"net/netip"
	"time"

	"strait.dev/strait/packet"
)

// Link probes: each end of a link asks the other twice a second, over UDP inside
// the tunnel, between the hosts' link addresses, and is answered.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                        magic "STRP"                           |
//	+---------------+---------------+-------------------------------+
//	|  version = 1  | kind: 1 to 3  |   inner MTU of the sender     |
//	+---------------+---------------+-------------------------------+
//	|                       sequence (8 bytes)                      |
//	+---------------------------------------------------------------+
//
// kind 1 asks, 2 answers with the sequence of the question, 3 does so and says that the
// sender is about to end: who knows another gateway of its cluster prefers that. Who does
// not know kind 3 misses the answer, and finds the link down. Later versions may
// append fields; what is longer than this is read as far as it is known. Some
// questions are padded with zeros to the largest packet that is to cross: whether they
// are answered shows what the path carries.
const (
	probePort    = 6093
	probeLen     = 16
	probeMagic   = 0x53545250
	probeVersion = 1

	probeAsk     = 1
	probeAnswer  = 2
	probeLeaving = 3
)

const (
	probeInterval = 500 * time.Millisecond
	// probeLost is how long an answer may take. A link on which nothing has been
	// answered for that long is down.
	probeLost = 3 * probeInterval
	// pathInterval is how often a question has the size of the MTU, and pathStale
	// how long an answer to one counts.
	pathInterval = 5 * time.Second
	pathStale    = 3 * pathInterval
	// probeHeaders is what is around a probe in its packet, bytes.
	probeHeaders = packet.IPv6HeaderLen + packet.UDPHeaderLen
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
	return p, p.kind >= probeAsk && p.kind <= probeLeaving
}

// prober is one link's side of probing: what was asked, what was answered. It is
// a function of the calls and their times; the caller sends, receives and locks.
type prober struct {
	address  netip.Addr // the far end
	next     uint64     // sequence of the next question; the first is 1
	asked    [8]asked   // the last questions, by sequence
	answered time.Time  // the last answer
	leaving  bool       // which said that the far end is about to end
	upSince  time.Time  // while up
	mtu      uint16     // what the far end announced last; 0 = nothing yet

	pathAsked, pathAnswered asked // the last questions of the size of the MTU

	// Of ordinary questions: one of full size has a fate and a time of its own.
	sent, lost uint64
	rtt        time.Duration // of the last answer
}

type asked struct {
	sequence uint64
	at       time.Time
	size     int // of the padded packet, bytes; 0 = not padded
	open     bool
}

// ask makes the next question. A question that is overwritten unanswered is lost.
func (p *prober) ask(mtu int, now time.Time) probe {
	p.sent++
	return p.question(mtu, 0, now)
}

// askPath makes the next question, to be padded to the MTU.
func (p *prober) askPath(mtu int, now time.Time) probe {
	q := p.question(mtu, mtu, now)
	p.pathAsked = asked{size: mtu, at: now}
	return q
}

func (p *prober) question(mtu, size int, now time.Time) probe {
	p.expire(now)
	p.next++
	p.asked[p.next%uint64(len(p.asked))] = asked{p.next, now, size, true}
	return probe{kind: probeAsk, mtu: uint16(mtu), sequence: p.next}
}

// owesPath reports whether to ask now whether a packet of the MTU crosses: at times,
// and when the link came up or the MTU is another.
func (p *prober) owesPath(mtu int, now time.Time) bool {
	last := p.pathAsked
	return p.up(now) && (last.size != mtu || last.at.Before(p.upSince) || now.Sub(last.at) >= pathInterval)
}

// pathMTU is the MTU if a packet of that size has crossed lately, else 0.
func (p *prober) pathMTU(mtu int, now time.Time) int {
	if last := p.pathAnswered; last.size != mtu || now.Sub(last.at) >= pathStale {
		return 0
	}
	return mtu
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
			if a.size == 0 {
				p.lost++
			}
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
	if q.size == 0 {
		p.rtt = now.Sub(q.at)
	} else {
		p.pathAnswered = asked{size: q.size, at: now}
	}
	if !p.up(now) {
		p.upSince = now
	}
	p.answered, p.leaving = now, a.kind == probeLeaving
	return true
}

// up reports whether a probe has crossed both ways lately.
func (p *prober) up(now time.Time) bool {
	return !p.answered.IsZero() && now.Sub(p.answered) < probeLost
}
