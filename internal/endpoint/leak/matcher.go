//go:build linux

package leak

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
)

// most is the largest number of reported leaks.
const most = 32

// matcher judges packets. Only one goroutine may use it.
type matcher struct {
	Order
	Report
}

// see judges a packet of an interface.
func (m *matcher) see(name string, underlay bool, b []byte) {
	src, dst, protocol, ok := ends(b)
	if !ok {
		return
	}
	m.Packets++
	foreign := in(m.Foreign, src) || in(m.Foreign, dst)
	switch clear := bytes.Contains(b, m.Marker[:]); {
	case clear && (foreign || underlay && !(in(m.Own, src) && in(m.Own, dst))):
		m.note(Leak{Interface: name, Source: src, Destination: dst, Protocol: protocol})
	case clear:
		m.Clear++
	case foreign:
		m.Tunnel++
	}
}

func (m *matcher) note(l Leak) {
	at := slices.IndexFunc(m.Leaks, func(o Leak) bool { o.Packets = 0; return o == l })
	if at < 0 {
		if at = len(m.Leaks); at == most {
			at-- // further ones add to the last entry
		} else {
			m.Leaks = append(m.Leaks, l)
		}
	}
	m.Leaks[at].Packets++
}

// ends returns the addresses of an IP packet, of the outermost header if there are several.
func ends(b []byte) (src, dst netip.Addr, protocol uint8, ok bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), b[9], true
	case len(b) >= 40 && b[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:])), b[6], true
	}
	return src, dst, 0, false
}

func in(all []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
}

// network converts a number to network byte order for packet sockets.
func network(n uint16) uint16 { return binary.NativeEndian.Uint16([]byte{byte(n >> 8), byte(n)}) }
