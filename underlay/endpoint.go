//go:build linux

package underlay

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.zx2c4.com/wireguard/conn"

	"strait.dev/strait/internal/ratelimit"
)

// Endpoint is the address of a WireGuard peer and, if the peer initiated, the local address to which
// it sent. Answers are sent from that address, because a firewall or NAT on the path accepts no
// other. Several goroutines, and all links of a Mux, may share one Endpoint.
type Endpoint struct {
	addr  netip.AddrPort
	local netip.Addr  // invalid = the kernel chooses
	gone  atomic.Bool // local is no longer used; never reset

	to   Destination // from local, if that is valid
	free Destination // from the address that the kernel chooses
}

var _ conn.Endpoint = (*Endpoint)(nil)

func newEndpoint(addr netip.AddrPort, local netip.Addr) *Endpoint {
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	free := NewDestination(addr)
	return &Endpoint{addr: addr, local: local, to: free.from(local), free: free}
}

// parseEndpoint parses "192.0.2.1:51840" or "[2001:db8::1]:51840". Names are not resolved.
func parseEndpoint(s string) (*Endpoint, error) {
	addr, err := netip.ParseAddrPort(s)
	if err != nil {
		return nil, fmt.Errorf("WireGuard endpoint %q: %w: give an IP address and a port", s, err)
	}
	if addr.Addr().Zone() != "" {
		return nil, fmt.Errorf("WireGuard endpoint %q: link-local addresses are not supported: give a routable one", s)
	}
	return newEndpoint(addr, netip.Addr{}), nil
}

// answer returns the destination for answers from the local address to which the peer sent.
func (e *Endpoint) answer() *Destination {
	if e.gone.Load() {
		return &e.free
	}
	return &e.to
}

// ClearSrc lets the kernel choose the source address from now on. The peer's next datagram creates a
// new Endpoint.
func (e *Endpoint) ClearSrc() { e.gone.Store(true) }

// SrcToString returns the local address to which the peer sent, or an empty string.
func (e *Endpoint) SrcToString() string {
	if src := e.SrcIP(); src.IsValid() {
		return src.String()
	}
	return ""
}

// SrcIP returns the local address to which the peer sent, or the zero Addr.
func (e *Endpoint) SrcIP() netip.Addr {
	if e.gone.Load() {
		return netip.Addr{}
	}
	return e.local
}

// DstToString returns the peer's address and port.
func (e *Endpoint) DstToString() string { return e.addr.String() }

// DstIP returns the peer's address.
func (e *Endpoint) DstIP() netip.Addr { return e.addr.Addr() }

// DstToBytes returns the peer's address and port in a binary format for WireGuard's cookies.
func (e *Endpoint) DstToBytes() []byte {
	b, _ := e.addr.MarshalBinary() // never fails
	return b
}

const (
	// maxEndpoints limits the endpoints remembered. A peer usually has one address, rarely two.
	maxEndpoints = 1024
	// Rate limit of endpoints for new senders that no handshake has admitted. A peer that changes its
	// address sends more than one datagram.
	senderInterval = time.Second / 100
	senderBurst    = 100
)

// endpoints caches the Endpoint of each pair of sender and local address, so that receiving does not
// allocate. It is for one goroutine at a time.
type endpoints struct {
	known  map[ends]*Endpoint
	latest *Endpoint // consecutive datagrams often come from one peer
	added  ratelimit.Bucket
}

// ends are the source and the destination of a received datagram.
type ends struct {
	addr  netip.AddrPort
	local netip.Addr
}

// find returns the endpoint of a sender and a local address if it is cached, else nil. An endpoint
// whose source was cleared does not count, because the address is in use again.
func (e *endpoints) find(addr netip.AddrPort, local netip.Addr) *Endpoint {
	if l := e.latest; l != nil && l.addr == addr && l.local == local && !l.gone.Load() {
		return l
	}
	endpoint := e.known[ends{addr, local}]
	if endpoint == nil || endpoint.gone.Load() {
		return nil
	}
	e.latest = endpoint
	return endpoint
}

// of returns the endpoint of a sender and a local address. Forged senders cannot make the cache
// grow: when it is full, it is emptied.
func (e *endpoints) of(addr netip.AddrPort, local netip.Addr) *Endpoint {
	endpoint := e.find(addr, local)
	if endpoint == nil {
		if e.known == nil || len(e.known) == maxEndpoints {
			e.known = make(map[ends]*Endpoint)
		}
		endpoint = newEndpoint(addr, local)
		e.known[ends{addr, local}] = endpoint
		e.latest = endpoint
	}
	return endpoint
}

// limited is of, but returns nil if too many senders are new: forged senders cannot make it
// allocate. It reads the clock only for a new sender.
func (e *endpoints) limited(addr netip.AddrPort, local netip.Addr, clock func() time.Time) *Endpoint {
	if endpoint := e.find(addr, local); endpoint != nil {
		return endpoint
	}
	if !e.added.Take(clock(), senderInterval, senderBurst) {
		return nil
	}
	return e.of(addr, local)
}
