package underlay

import (
	"fmt"
	"net/netip"

	"golang.zx2c4.com/wireguard/conn"
)

// Endpoint is the address of a WireGuard peer. It is immutable; many goroutines, and
// all links of a Mux, may hold the same one.
type Endpoint struct {
	addr netip.AddrPort
	to   Destination
}

var _ conn.Endpoint = (*Endpoint)(nil)

func newEndpoint(addr netip.AddrPort) *Endpoint {
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	return &Endpoint{addr: addr, to: NewDestination(addr)}
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
	return newEndpoint(addr), nil
}

// ClearSrc does nothing: the kernel chooses the source address of every datagram.
func (e *Endpoint) ClearSrc() {}

// SrcToString is empty: no source address is kept.
func (e *Endpoint) SrcToString() string { return "" }

// SrcIP is the zero Addr: no source address is kept.
func (e *Endpoint) SrcIP() netip.Addr { return netip.Addr{} }

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

// endpoints remembers the Endpoint of each source address, so that receiving does not
// allocate. It is for one goroutine at a time.
type endpoints struct {
	known  map[netip.AddrPort]*Endpoint
	latest *Endpoint // datagrams come in trains from one peer
}

// of returns the endpoint of an address. Made-up sources cannot make it grow: when
// full, it starts again.
func (e *endpoints) of(addr netip.AddrPort) *Endpoint {
	if e.latest != nil && e.latest.addr == addr {
		return e.latest
	}
	endpoint, ok := e.known[addr]
	if !ok {
		if e.known == nil || len(e.known) == maxEndpoints {
			e.known = make(map[netip.AddrPort]*Endpoint)
		}
		endpoint = newEndpoint(addr)
		e.known[addr] = endpoint
	}
	e.latest = endpoint
	return endpoint
}
