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

// Bounds of handshake initiations, for all links of a port together. Judging one takes a
// link a key agreement, up to 0.1 ms: as long as hundreds of data messages. Whoever knows
// the gateway's public key can send initiations that look right, under any address.
// WireGuard asks for proof of the address only when its queue is long, and one core is
// spent on the queue by then; here that is asked of all that come faster than peers do.
// (go test -bench Initiation ./underlay says what each takes.)
const (
	unprovenInterval = time.Second / 200 // of those that show no cookie: at most 2 % of a core for one link
	unprovenBurst    = 80                // with the bursts below, less than what WireGuard calls load (128)
	provenInterval   = time.Second / 500 // of those that show one: at most 5 %
	provenBurst      = 20
	cookieInterval   = time.Second / 5000 // of cookies given away
	cookieBurst      = 500

	sources              = 1024 // that are told apart
	sourceInterval       = time.Second / 20
	sourceBurst          = 5
	sourceCookieInterval = time.Second / 5
	sourceCookieBurst    = 10
)

// verdict is what becomes of an initiation.
type verdict int

const (
	refused verdict = iota
	admitted
	challenged // it is worth a cookie, with which the caller may come again
)

// initiations bounds what strangers can make a gateway do. It allocates nothing and is
// for one goroutine at a time.
//
// Those whom a link talks to have a share each, so that strangers do not end a session;
// so has each caller that proves its address. The others share what there is: when
// strangers make up addresses by the thousand, a peer at a new address may need some tries.
type initiations struct {
	seed                      maphash.Seed
	unproven, proven, cookies ratelimit.Bucket
	sources                   [sources]struct{ known, proven, cookies ratelimit.Bucket }
}

func newInitiations() initiations { return initiations{seed: maphash.MakeSeed()} }

// judge says what becomes of an initiation from an address. known is whether a link talks
// to it, proven whether the initiation shows a cookie that was given to it.
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

// network is what one caller has for itself: an IPv4 address, or an IPv6 /64.
func network(of netip.Addr) netip.Addr {
	if of.Is4() {
		return of
	}
	prefix, _ := of.Prefix(64) // never fails: 64 fits
	return prefix.Addr()
}

// admit gives an initiation to the links whose key it is made for: of these, the one
// that knows the caller answers. The first MAC, one hash, tells the key.
func (p *port) admit(message []byte, from *Endpoint, s *session) {
	d := s.link.mux.open.Load().entryFor(message)
	if d == nil {
		s.link.mux.unknown.Add(1)
		return
	}
	source := from.DstToBytes()
	proven := d.cookies.CheckMAC2(message, source)
	switch p.initiations.judge(from.DstIP(), d.talksTo(from.DstIP()), proven, time.Now()) {
	case admitted:
		for _, to := range d.sessions {
			p.give(message, from, to, s)
		}
	case challenged:
		s.link.mux.initiations.Add(1) // before the caller knows
		p.challenge(d.cookies, message, from, source, s.link.mux)
	case refused:
		s.link.mux.initiations.Add(1)
	}
}

// entryFor is where an initiation belongs, nil if nowhere.
func (l *links) entryFor(message []byte) *keyEntry {
	if len(message) == initiationSize {
		for i := range l.keyEntries {
			if l.keyEntries[i].cookies.CheckMAC1(message) {
				return &l.keyEntries[i]
			}
		}
	}
	return nil
}

// talksTo is whether a link of the key sent to an address last.
func (d *keyEntry) talksTo(address netip.Addr) bool {
	return slices.ContainsFunc(d.sessions, func(s *session) bool {
		e := s.link.talksTo.Load()
		return e != nil && e.DstIP() == address
	})
}

// challenge sends the caller a cookie, unless that took room from what peers are sent:
// callers that are not there, made up on a network of this machine's own, answer no ARP.
func (p *port) challenge(cookies *device.CookieChecker, message []byte, from *Endpoint, source []byte, m *Mux) {
	if p.socketFor(from).crowded() {
		return
	}
	reply, err := cookies.CreateReply(message, binary.LittleEndian.Uint32(message[4:]), source)
	if err != nil {
		return // no randomness; the caller tries again
	}
	b, err := binary.Append(nil, binary.LittleEndian, reply)
	if err != nil {
		panic(err) // a struct of fixed size
	}
	_ = m.send(p, [][]byte{b}, from, from.answer()) // what is lost is counted; the caller tries again
}
