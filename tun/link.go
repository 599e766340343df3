package tun

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/config"
	"strait.dev/strait/link"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// LinkConfig configures one link: a key pair of this gateway and the public key of a gateway of
// the remote cluster.
type LinkConfig struct {
	Name string
	// Gateway is the name of the remote gateway. Links to the same gateway are alternatives,
	// for example with the old and the new keys of an end: traffic uses the first one that is
	// up. Empty = Name.
	Gateway      string
	PrivateKey   device.NoisePrivateKey   // this gateway's, for this link
	PublicKey    device.NoisePublicKey    // the remote's
	PresharedKey device.NoisePresharedKey // zero = none
	ListenPort   uint16
	Endpoints    []string // host:port, to be tried in this order; none = wait for the remote
	Keepalive    time.Duration
	// Allowed are the remote's granted prefixes, before translation: the AllowedIPs of the
	// peer.
	Allowed []netip.Prefix
	// Weight is the share of the flows of nodes that the remote gateway gets, in proportion to the weights of
	// the others. With 0 it gets flows only while no link with a weight is up; if all have 0, each
	// gets as many.
	Weight int
}

// LinkIdentity identifies a link by its keys; names may change.
type LinkIdentity struct {
	Name              string
	Gateway           string     // the remote gateway; several links may lead to it
	OwnKey, RemoteKey config.Key // public
}

type linkKey struct {
	own, remote device.NoisePublicKey
	port        uint16
}

func keyOf(c LinkConfig) linkKey {
	return linkKey{publicKey(c.PrivateKey), c.PublicKey, c.ListenPort}
}

// linkAddress returns the link-local IPv6 address of the host at one end of a link: fe80::/64
// and 64 bits of the SHA-256 of its public key. Both ends can compute it, and it uses no address of
// either cluster. WireGuard's own source check binds it to the key.
func linkAddress(public device.NoisePublicKey) netip.Addr {
	sum := sha256.Sum256(public[:])
	a := [16]byte{0: 0xfe, 1: 0x80}
	copy(a[8:], sum[:8])
	return netip.AddrFrom16(a)
}

// Link is one WireGuard device with one peer: this gateway and one gateway of the remote
// cluster. Safe for concurrent use.
type Link struct {
	key      linkKey
	own, far netip.Addr // link addresses of this end and the other
	tun      *Device
	wg       wireguard
	clock    *clock
	names    *resolver
	state    linkState
	active   atomic.Bool            // packets from nodes are directed to it
	claim    atomic.Pointer[[]byte] // the last one of the far end; nil = none yet

	ends    time.Time // when a removed link no longer receives; protected by the fabric's mu
	claimed time.Time // when the far end was last told the addresses of this one; of the goroutine that decides
	wasUp   bool      // at the last settle; likewise

	look chan struct{} // see lookAgain
	stop context.CancelFunc
	done sync.WaitGroup
}

// start starts WireGuard on the link's device. If it fails, the device is closed.
func (l *Link) start(c LinkConfig) error {
	if err := l.wg.start(c, l.lookAgain); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.done.Go(func() { l.call(ctx) })
	return nil
}

// update applies changed settings. Keys and port identify the link and cannot change.
func (l *Link) update(c LinkConfig) error {
	if err := l.wg.update(c); err != nil {
		return err
	}
	l.lookAgain()
	if l.tun.peerKnown.Load() {
		l.wg.contact(netip.AddrPort{})
	}
	return nil
}

// end ends all that the link does by itself. It still receives, and answers probes.
func (l *Link) end() {
	l.stop()
	l.done.Wait()
}

// close ends the link and waits for its goroutines.
func (l *Link) close() {
	l.end()
	l.wg.device.Close()
}

func (l *Link) identity() LinkIdentity {
	s := l.wg.settings.Load()
	return LinkIdentity{s.Name, s.Gateway, config.Key(l.key.own), config.Key(l.key.remote)}
}

// alternative reports whether another link leads to the same remote gateway.
func (l *Link) alternative(other *Link) bool {
	return other.wg.settings.Load().Gateway == l.wg.settings.Load().Gateway
}

// replacedBy reports whether a link takes the place of this one, and may receive no less.
func (l *Link) replacedBy(other *Link) bool {
	return l.alternative(other) && len(without(l.wg.settings.Load().Allowed, other.wg.settings.Load().Allowed)) == 0
}

// without returns what is not in others.
func without[T comparable](all, others []T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return slices.Contains(others, x) })
}

// contactable reports whether the peer has an address: a configured endpoint, or one that
// WireGuard learnt from the peer.
func (l *Link) contactable() bool {
	if !l.tun.peerKnown.Load() && !l.wg.session().handshake.IsZero() {
		l.wg.contact(netip.AddrPort{})
	}
	return l.tun.peerKnown.Load()
}

// received returns when the last packet of the far end arrived, by the clock of links; zero = never.
func (l *Link) received() time.Time {
	since := l.tun.received.Load()
	if since == 0 {
		return time.Time{}
	}
	return l.clock.converted(began.Add(time.Duration(since)))
}

// linkList is the links of a gateway, in order of preference. Safe for concurrent use.
type linkList struct{ now atomic.Pointer[[]*Link] }

// all returns the links; the caller must not change the list.
func (l *linkList) all() []*Link {
	if links := l.now.Load(); links != nil {
		return *links
	}
	return nil
}

// set replaces the links; the caller must not change the list any more.
func (l *linkList) set(links []*Link) { l.now.Store(&links) }

// between returns the link between two link addresses, or nil.
func (l *linkList) between(own, far netip.Addr) *Link {
	for _, link := range l.all() {
		if link.own == own && link.far == far {
			return link
		}
	}
	return nil
}

// handshakeFresh is the maximum age of the last handshake of a live session: WireGuard makes a new one
// after 120 s and gives up after 180 s.
const handshakeFresh = 180 * time.Second

// alive reports whether the far end is up: probes cross, or, if it has never sent any because it is not
// Strait, it completes handshakes. received is when its last packet arrived; zero = never.
func (l *Link) alive(now time.Time) (alive bool, received time.Time) {
	up, probes, received := l.state.heardFrom(l.received(), now)
	if up {
		return true, received
	}
	s := l.wg.session()
	received = l.state.countBytes(s.received, now)
	return !probes && time.Since(s.handshake) < handshakeFresh, received
}

// carries reports whether packets arrive in the session, and the peer does not say that it receives none.
func (l *Link) carries(now time.Time) bool {
	p, _ := l.state.copies()
	last := l.received()
	return !p.Last.Unreached() && !last.IsZero() && now.Sub(last) < link.Misses*link.Interval
}

// settle logs a change of the link, and reports one.
func (l *Link) settle(now time.Time) (changed, up bool) {
	p, _ := l.state.copies()
	up = p.Fit(now) != link.Down
	changed, l.wasUp = up != l.wasUp, up
	if !up {
		l.lookAgain()
	}
	switch {
	case changed && up:
		l.wg.log().Info("link is up", "rtt", p.RTT)
	case changed:
		l.wg.log().Warn("link is down: no probe crosses", "for", now.Sub(p.News).Round(time.Millisecond), "received", now.Sub(l.received()).Round(time.Millisecond))
	}
	return changed, up
}

// setActive notes and logs whether packets from nodes are directed to the link.
func (l *Link) setActive(active bool, now time.Time) {
	if l.active.Swap(active) == active {
		return
	}
	switch {
	case !active:
		l.wg.log().Info("link is no longer active")
	case l.state.fit(now) == link.Down: // until a probe comes back, "link is up" is still to be logged
		l.wg.log().Debug("link is selected, and has not answered yet")
	default:
		l.wg.log().Info("link is active")
	}
}

// Datagrams between the ends of a link, over UDP inside the tunnel, between the link addresses. They do not pass the host
// stacks, which would fragment a probe that is larger than the MTU in use.
const (
	probePort = 6093 // package link
	claimPort = 6096
	// datagramHeaders is the length of the headers of such a datagram's packet, bytes.
	datagramHeaders = packet.IPv6HeaderLen + packet.UDPHeaderLen
	// datagramSize is the least size of its packet in bytes: WireGuard messages of that size have priority over data.
	datagramSize = underlay.ControlSize - device.MessageTransportSize
)

// send sends a datagram to the far end.
func (l *Link) send(port uint16, payload []byte) {
	b := packet.AppendUDP(nil, netip.AddrPortFrom(l.own, port), netip.AddrPortFrom(l.far, port), payload)
	host := &l.tun.host.origin.Counters
	if l.tun.inject(host, b, controlPacket) { // the far end counts a probe that is dropped as lost
		host.CountForwarded(1, uint64(len(b)))
	}
}

// datagram returns the port and the payload of a valid IP packet from the tunnel that is a UDP datagram between the link's
// addresses, port 0 for any other. These datagrams have neither extension headers nor fragments. Their checksum is not
// checked: they are authenticated.
func (l *Link) datagram(b []byte) (port uint16, payload []byte) {
	if len(b) < datagramHeaders || b[0]>>4 != 6 || b[6] != packet.ProtoUDP {
		return 0, nil
	}
	if src, dst := addresses(b); src != l.far || dst != l.own {
		return 0, nil
	}
	return binary.BigEndian.Uint16(b[packet.IPv6HeaderLen+2:]), b[datagramHeaders:]
}
