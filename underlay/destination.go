//go:build linux

package underlay

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Destination is the destination of a datagram in the kernel's format. It is comparable and
// immutable: any number of goroutines may send to it. Datagrams to the zero value are dropped.
type Destination struct {
	name [unix.SizeofSockaddrInet6]byte // struct sockaddr_in or sockaddr_in6
	size uint32                         // bytes of name in use
	hash uint32

	source [16]byte // the source address; an IPv4 address uses the first four bytes
	fixed  bool     // whether source is set; otherwise the kernel chooses
}

// hashFactor spreads small numbers over 32 bits: 2^32 divided by the golden ratio.
const hashFactor = 0x9e3779b1

// Offsets of struct sockaddr_in and struct sockaddr_in6. The port is in network byte order, the
// family in host byte order.
const (
	nameFamily   = 0
	namePort     = 2
	nameAddress4 = 4
	nameAddress6 = 8 // after sin6_flowinfo
)

// NewDestination returns a destination. An IPv4-mapped IPv6 address counts as the IPv4 address; a
// zone is ignored.
func NewDestination(to netip.AddrPort) Destination {
	var d Destination
	addr := to.Addr().Unmap()
	switch {
	case addr.Is4():
		binary.NativeEndian.PutUint16(d.name[nameFamily:], unix.AF_INET)
		*(*[4]byte)(d.name[nameAddress4:]) = addr.As4()
		d.size = unix.SizeofSockaddrInet4
	case addr.Is6():
		binary.NativeEndian.PutUint16(d.name[nameFamily:], unix.AF_INET6)
		*(*[16]byte)(d.name[nameAddress6:]) = addr.As16()
		d.size = unix.SizeofSockaddrInet6
	default:
		return d
	}
	binary.BigEndian.PutUint16(d.name[namePort:], to.Port())
	for i := 0; i < len(d.name); i += 4 {
		d.hash = (d.hash ^ binary.NativeEndian.Uint32(d.name[i:])) * hashFactor
	}
	return d
}

// from returns d with a source address of this machine, which must be of the same family.
func (d Destination) from(local netip.Addr) Destination {
	if d.fixed = local.IsValid() && local.Is6() == d.Is6(); d.fixed {
		copy(d.source[:], local.AsSlice())
	}
	return d
}

// Is6 reports whether only an IPv6 socket can send to d.
func (d *Destination) Is6() bool { return d.size == unix.SizeofSockaddrInet6 }

// addrPort parses a struct sockaddr_in or sockaddr_in6. It returns the zero AddrPort for any other
// family.
func addrPort(name *[unix.SizeofSockaddrInet6]byte) netip.AddrPort {
	port := binary.BigEndian.Uint16(name[namePort:])
	switch binary.NativeEndian.Uint16(name[nameFamily:]) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(name[nameAddress4:])), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(name[nameAddress6:])), port)
	}
	return netip.AddrPort{}
}
