package tun

import (
	"encoding/binary"
	"net/netip"
	"time"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// Link probes: each end of a link sends a request to the other twice a second, over UDP inside
// the tunnel, between the hosts' link addresses, and gets an answer.
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
// Kind 1 is a request. Kind 2 is an answer with the sequence of the request. Kind 3 is an answer
// from a sender that is shutting down: the receiver prefers another gateway of that cluster.
// Versions without kind 3 treat it as a missing answer and mark the link down. Later versions
// may append fields; receivers ignore what they do not know. All are padded with zeros, some
// requests to the MTU: an answer proves that the path carries packets of that size.
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
	// probeLost is the timeout of an answer. A link is down if for that long no probe was answered
	// and no authenticated packet arrived.
	probeLost = 3 * probeInterval
	// probeLate is how late an answer still proves that the link works, although the probe counts
	// as lost.
	probeLate = 2 * probeLost
	// probeOverdue is how long a link on which packets arrive is up without an answer: arrivals
	// prove only one direction.
	probeOverdue = 10 * probeInterval
	// pathInterval is how often a request has the size of the MTU, and pathStale how long its
	// answer counts.
	pathInterval = 5 * time.Second
	pathStale    = 3 * pathInterval
	// probeSize is the least size of a probe's packet in bytes: WireGuard messages of that size have
	// priority over data.
	probeSize = underlay.ControlSize - device.MessageTransportSize
	// probeHeaders is the length of the headers of a probe's packet, bytes.
	probeHeaders = packet.IPv6HeaderLen + packet.UDPHeaderLen
	// minAnnouncedMTU is the smallest inner MTU accepted from a remote: every IPv4 host accepts
	// 576 bytes (RFC 791 section 3.1).
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

// prober is the probing state of one link: requests and answers. It depends only on its calls
// and the times passed to it; the caller sends, receives and locks.
type prober struct {
	address  netip.Addr // link address of the far end
	next     uint64     // sequence of the next request; the first is 1
	asked    [8]asked   // the last requests, by sequence
	answered time.Time  // time of the last answer
	received time.Time  // time of the last authenticated packet of the far end
	leaving  bool       // the last answer said that the far end is shutting down
	upSince  time.Time  // while up
	mtu      uint16     // the last MTU announced by the far end; 0 = none yet

	pathAsked, pathAnswered asked // the last requests of the size of the MTU

	// Of ordinary requests: those of full size are lost and delayed differently.
	sent, lost uint64
	rtt        time.Duration // of the last answer
}

type asked struct {
	sequence uint64
	at       time.Time
	size     int  // of the padded packet, bytes; 0 = not padded
	open     bool // not answered
	lost     bool // counted as lost
}

// ask returns the next request. A request that is overwritten without an answer is lost.
func (p *prober) ask(mtu int, now time.Time) probe {
	p.sent++
	return p.question(mtu, 0, now)
}

// askPath returns the next request, to be padded to the MTU.
func (p *prober) askPath(mtu int, now time.Time) probe {
	q := p.question(mtu, mtu, now)
	p.pathAsked = asked{size: mtu, at: now}
	return q
}

func (p *prober) question(mtu, size int, now time.Time) probe {
	p.expire(now)
	p.next++
	p.asked[p.next%uint64(len(p.asked))] = asked{sequence: p.next, at: now, size: size, open: true}
	return probe{kind: probeAsk, mtu: uint16(mtu), sequence: p.next}
}

// owesPath reports whether a request of the size of the MTU is due: periodically, and when the
// link came up or the MTU changed.
func (p *prober) owesPath(mtu int, now time.Time) bool {
	last := p.pathAsked
	return p.up(now) && (last.size != mtu || last.at.Before(p.upSince) || now.Sub(last.at) >= pathInterval)
}

// pathMTU returns mtu if a packet of that size has crossed recently, else 0.
func (p *prober) pathMTU(mtu int, now time.Time) int {
	if last := p.pathAnswered; last.size != mtu || now.Sub(last.at) >= pathStale {
		return 0
	}
	return mtu
}

// owesQuestion reports whether to send a request at once when the far end sends one: if the link
// is not up and no request was sent recently. Two ends that both see the link down must not
// answer every request with another.
func (p *prober) owesQuestion(now time.Time) bool {
	last := p.asked[p.next%uint64(len(p.asked))].at
	return !p.up(now) && now.Sub(last) >= probeInterval/2
}

// expire counts the requests whose answer timed out.
func (p *prober) expire(now time.Time) {
	for i := range p.asked {
		if a := &p.asked[i]; a.open && !a.lost && now.Sub(a.at) >= probeLost {
			a.lost = true
			if a.size == 0 {
				p.lost++
			}
		}
	}
}

// answer processes an answer and reports whether it matches a request. An answer proves that the
// link works in both directions. A late one does too, but its request counts as lost.
func (p *prober) answer(a probe, now time.Time) bool {
	p.expire(now)
	q := &p.asked[a.sequence%uint64(len(p.asked))]
	if !q.open || q.sequence != a.sequence || now.Sub(q.at) >= probeLate {
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

// up reports whether the link works. A recent answer proves both directions. Under load, answers
// are late or lost before the data that keeps them waiting: while any authenticated packet arrives,
// the link stays up for probeOverdue after the last answer. Packets alone never bring it up.
func (p *prober) up(now time.Time) bool {
	if p.answered.IsZero() {
		return false
	}
	unanswered := now.Sub(p.answered)
	return unanswered < probeLost || unanswered < probeOverdue && p.receives(probeLost, now)
}

// receives reports whether an authenticated packet of the far end has arrived within a time.
func (p *prober) receives(within time.Duration, now time.Time) bool {
	return !p.received.IsZero() && now.Sub(p.received) < within
}
