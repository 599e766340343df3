package underlay

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"golang.zx2c4.com/wireguard/conn"
)

// Endpoint is the address of a WireGuard peer and, if the peer called, the address of this
// machine that it called. Answers leave from there: a firewall or NAT on the way knows no
// other. Many goroutines, and all links of a Mux, may hold the same one.
type Endpoint struct {
	addr  netip.AddrPort
	local netip.Addr  // invalid = the kernel chooses
	gone  atomic.Bool // local is not used any more; once true, true for good

	to   Destination // from local, if that is valid
	free Destination // from where the kernel chooses
}

var _ conn.Endpoint = (*Endpoint)(nil)

func newEndpoint(addr netip.AddrPort, local netip.Addr) *Endpoint {
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	free := NewDestination(addr)
	return &Endpoint{addr: addr, local: local, to: free.from(local), free: free}
}

// parseEndpoint reads "192.0.2.1:51840" or "[2001:db8::1]:51840". Names are not
// resolved here.
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

// answer is where to send to from the address that the peer called.
func (e *Endpoint) answer() *Destination {
	if e.gone.Load() {
		return &e.free
	}
	return &e.to
}

// ClearSrc lets the kernel choose the source address from now on. What the peer sends later
// brings a new Endpoint.
func (e *Endpoint) ClearSrc() { e.gone.Store(true) }

// SrcToString is the address that the peer called, or empty.
func (e *Endpoint) SrcToString() string {
	if src := e.SrcIP(); src.IsValid() {
		return src.String()
	}
	return ""
}

// SrcIP is the address that the peer called, or the zero Addr.
func (e *Endpoint) SrcIP() netip.Addr {
	if e.gone.Load() {
		return netip.Addr{}
	}
	return e.local
}

// DstToString is the peer's address and port.
func (e *Endpoint) DstToString() string { return e.addr.String() }

// DstIP is the peer's address.
func (e *Endpoint) DstIP() netip.Addr { return e.addr.Addr() }

// DstToBytes is the peer's address and port in a form of their own, for WireGuard's
// cookies.
func (e *Endpoint) DstToBytes() []byte {
	b, _ := e.addr.MarshalBinary() // never fails
	return b
}

// maxEndpoints bounds the endpoints remembered. A peer has one address, seldom two.
const maxEndpoints = 1024

// endpoints remembers the Endpoint of each sender and address it called, so that receiving
// does not allocate. It is for one goroutine at a time.
type endpoints struct {
	known  map[ends]*Endpoint
	latest *Endpoint // datagrams come in trains from one peer
}

// ends are where a datagram came from and where it arrived.
type ends struct {
	addr  netip.AddrPort
	local netip.Addr
}

// of returns the endpoint of a sender and the address of this machine it called. Made-up
// senders cannot make it grow: when full, it starts again. An endpoint whose source was
// cleared is replaced: the address has come back.
func (e *endpoints) of(addr netip.AddrPort, local netip.Addr) *Endpoint {
	if l := e.latest; l != nil && l.addr == addr && l.local == local && !l.gone.Load() {
		return l
	}
	key := ends{addr, local}
	endpoint, ok := e.known[key]
	if !ok || endpoint.gone.Load() {
		if e.known == nil || len(e.known) == maxEndpoints {
			e.known = make(map[ends]*Endpoint)
		}
		endpoint = newEndpoint(addr, local)
		e.known[key] = endpoint
	}
	e.latest = endpoint
	return endpoint
}
