package leak

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
)

// Order is what to look for. It is exchanged as JSON, like Report.
type Order struct {
	Marker [16]byte `json:"marker"`
	// Foreign are the other cluster's underlay addresses: of its gateways and nodes.
	Foreign []netip.Prefix `json:"foreign"`
	// Own are all addresses of this cluster: its nodes, pods, Services and pools.
	Own []netip.Prefix `json:"own"`
	// Node are the node's own addresses: the interfaces that have one are the underlay.
	Node []netip.Addr `json:"node"`
}

// Leak is a group of packets seen in the clear.
type Leak struct {
	Interface   string     `json:"interface"`
	Source      netip.Addr `json:"source"`
	Destination netip.Addr `json:"destination"`
	Protocol    uint8      `json:"protocol"` // of IP
	Packets     int        `json:"packets"`
}

// Report is the result of a capture.
type Report struct {
	Underlay []string `json:"underlay"` // the underlay interfaces
	Packets  int      `json:"packets"`  // IP packets, on all interfaces
	Missed   int      `json:"missed"`   // dropped by the kernel because its buffer was full
	Clear    int      `json:"clear"`    // with the marker, within this cluster, as expected
	Tunnel   int      `json:"tunnel"`   // to and from the other cluster, without the marker
	Leaks    []Leak   `json:"leaks"`
}

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
