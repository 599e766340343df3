//go:build linux

package underlay

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"slices"
	"time"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/internal/ratelimit"
)

// Rate limits of handshake initiations, for all links of a port together. Processing one costs a link
// a key agreement, up to 0.1 ms: as much as hundreds of data messages. An attacker that has the
// gateway's public key can send well-formed initiations under any address. WireGuard requires proof
// of the address only when its queue is long, and by then the queue keeps one core busy; here proof is
// required of all initiations that come faster than peers send them. (go test -bench Initiation
// ./underlay measures the costs.)
const (
	unprovenInterval = time.Second / 200 // without a cookie: at most 2 % of a core for one link
	unprovenBurst    = 80                // with the bursts below, less than WireGuard's threshold for load (128)
	provenInterval   = time.Second / 500 // with a valid cookie: at most 5 %
	provenBurst      = 20
	cookieInterval   = time.Second / 5000 // of cookie replies
	cookieBurst      = 500

	sources              = 1024 // groups of sources
	sourceInterval       = time.Second / 20
	sourceBurst          = 5
	sourceCookieInterval = time.Second / 5
	sourceCookieBurst    = 10
)

// verdict is the decision about an initiation.
type verdict int

const (
	refused verdict = iota
	admitted
	challenged // answered with a cookie, with which the sender may retry
)

// initiations limits the handshake work that unauthenticated senders can cause. It does not allocate
// and is for one goroutine at a time.
//
// Each address that a link sends to has its own share, so that unknown senders cannot end a session;
// so has each sender with a proven address. All others share one quota: in a flood from thousands of
// forged addresses, a peer at a new address may need several attempts.
type initiations struct {
	seed                      maphash.Seed
	unproven, proven, cookies ratelimit.Bucket
	sources                   [sources]struct{ known, proven, cookies ratelimit.Bucket }
}

func newInitiations() initiations { return initiations{seed: maphash.MakeSeed()} }

// judge decides about an initiation from an address. known is whether a link sends to that address,
// proven whether the initiation contains a cookie that was sent to it.
func (i *initiations) judge(from netip.Addr, known, proven bool, now time.Time) verdict {
	source := &i.sources[maphash.Comparable(i.seed, network(from))%sources]
	switch {
	case known && source.known.Take(now, sourceInterval, sourceBurst):
		return admitted
	case proven:
		if source.proven.Take(now, sourceInterval, sourceBurst) && i.proven.Take(now, provenInterval, provenBurst) {
			return admitted
		}
	case i.unproven.Take(now, unprovenInterval, unprovenBurst):
		return admitted
	case source.cookies.Take(now, sourceCookieInterval, sourceCookieBurst) && i.cookies.Take(now, cookieInterval, cookieBurst):
		return challenged
	}
	return refused
}

// network returns the unit that is counted as one sender: an IPv4 address, or an IPv6 /64.
func network(of netip.Addr) netip.Addr {
	if of.Is4() {
		return of
	}
	prefix, _ := of.Prefix(64) // never fails: 64 fits
	return prefix.Addr()
}

// admit passes an initiation to all links with the public key that it is made for; the one that has
// the sender as its peer answers. The first MAC, one hash, identifies the key.
func (p *port) admit(message []byte, from netip.AddrPort, local netip.Addr, s *session) {
	sessions := s.link.mux.open.Load().expecting(message)
	if sessions == nil {
		s.link.mux.unknown.Add(1)
		return
	}
	source, _ := from.MarshalBinary() // never fails
	cookies := &sessions[0].link.cookies
	proven := cookies.CheckMAC2(message, source)
	switch p.initiations.judge(from.Addr(), talkTo(sessions, from.Addr()), proven, time.Now()) {
	case admitted:
		sender := p.endpoints.of(from, local)
		for _, to := range sessions {
			switch wait := to.link.crossing.Wait(time.Now()); {
			case wait == 0:
				p.give(message, sender, to, s)
			case to == s || !p.single:
				to.keep(message, sender, wait)
			}
		}
	case challenged:
		s.link.mux.initiations.Add(1) // first, so that the count is visible when the cookie arrives
		p.challenge(cookies, message, newEndpoint(from, local), source, s.link.mux)
	case refused:
		s.link.mux.initiations.Add(1)
	}
}

// expecting returns the sessions with the public key that an initiation is made for, nil if there are none.
func (l *links) expecting(message []byte) []*session {
	if len(message) == initiationSize {
		for _, sessions := range l.byKey {
			if sessions[0].link.cookies.CheckMAC1(message) {
				return sessions
			}
		}
	}
	return nil
}

// talkTo reports whether one of the sessions last sent to an address.
func talkTo(sessions []*session, address netip.Addr) bool {
	return slices.ContainsFunc(sessions, func(s *session) bool {
		e := s.link.talksTo.Load()
		return e != nil && e.DstIP() == address
	})
}

// challenge sends the sender a cookie, unless the send buffer is more than half full: datagrams to
// forged addresses in a network of this machine wait there for ARP.
func (p *port) challenge(cookies *device.CookieChecker, message []byte, from *Endpoint, source []byte, m *Mux) {
	if p.socketFor(from).crowded() {
		return
	}
	reply, err := cookies.CreateReply(message, binary.LittleEndian.Uint32(message[4:]), source)
	if err != nil {
		return // no randomness; the sender retries
	}
	b, err := binary.Append(nil, binary.LittleEndian, reply)
	if err != nil {
		panic(err) // a struct of fixed size
	}
	_ = m.send(p, [][]byte{b}, from, from.answer()) // losses are counted; the sender retries
}
