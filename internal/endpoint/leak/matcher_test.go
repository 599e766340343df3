package leak

import (
	"net/netip"
	"testing"
)

var marker = [16]byte{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6}

func order() Order {
	return Order{
		Marker:  marker,
		Foreign: []netip.Prefix{netip.MustParsePrefix("198.51.100.21/32"), netip.MustParsePrefix("2001:db8:b::/64")},
		Own:     []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd00:10::/48")},
		Node:    []netip.Addr{netip.MustParseAddr("192.0.2.21")},
	}
}

// ip returns a packet between two addresses, with or without the marker.
func ip(src, dst string, marked bool) []byte {
	s, d := netip.MustParseAddr(src), netip.MustParseAddr(dst)
	b := append([]byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0}, s.AsSlice()...)
	if s.Is6() {
		b = append([]byte{0x60, 0, 0, 0, 0, 0, 17, 64}, s.AsSlice()...)
	}
	b = append(b, d.AsSlice()...)
	b = append(b, make([]byte, 13)...)
	if marked {
		b = append(b, marker[:]...)
	}
	return append(b, 1, 2, 3)
}

func TestOnlyUnexpectedPacketsInTheClearAreLeaks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what     string
		underlay bool
		b        []byte
		want     Report
	}{
		{"a pod's packet on its own link", false, ip("10.0.1.5", "10.71.2.9", true), Report{Clear: 1}},
		{"the overlay between nodes", true, ip("192.0.2.21", "192.0.2.22", true), Report{Clear: 1}},
		{"the overlay to a gateway's pod", true, ip("192.0.2.21", "10.0.2.7", true), Report{Clear: 1}},
		{"an encrypted packet", true, ip("192.0.2.21", "198.51.100.21", false), Report{Tunnel: 1}},
		{"an encrypted packet of IPv6", true, ip("2001:db8:b::7", "fd00:10::1", false), Report{Tunnel: 1}},
		{"unrelated traffic", true, ip("192.0.2.21", "203.0.113.1", false), Report{}},
		{"in the clear to the other cluster", true, ip("192.0.2.21", "198.51.100.21", true), Report{Leaks: make([]Leak, 1)}},
		{"in the clear from it, on any interface", false, ip("198.51.100.21", "10.0.1.5", true), Report{Leaks: make([]Leak, 1)}},
		{"a pod's packet that took the default route", true, ip("10.0.1.5", "10.71.2.9", true), Report{Leaks: make([]Leak, 1)}},
		{"the same with IPv6", true, ip("fd00:10::5", "fd73:7472::9", true), Report{Leaks: make([]Leak, 1)}},
	} {
		m := &matcher{Order: order()}
		m.see("eth0", c.underlay, c.b)
		if m.Clear != c.want.Clear || m.Tunnel != c.want.Tunnel || len(m.Leaks) != len(c.want.Leaks) || m.Packets != 1 {
			t.Errorf("%s: %+v, want %+v", c.what, m.Report, c.want)
		}
	}
}

func TestPacketsOfALeakAreGrouped(t *testing.T) {
	t.Parallel()
	m := &matcher{Order: order()}
	for range 5 {
		m.see("eth0", true, ip("10.0.1.5", "10.71.2.9", true))
	}
	if len(m.Leaks) != 1 || m.Leaks[0].Packets != 5 || m.Leaks[0].Destination.String() != "10.71.2.9" {
		t.Errorf("%+v, want one leak of 5 packets", m.Leaks)
	}
	for i := range 2 * most {
		m.see("eth0", true, ip("10.0.1.5", netip.AddrFrom4([4]byte{10, 71, 3, byte(i)}).String(), true))
	}
	if len(m.Leaks) != most {
		t.Errorf("%d leaks are kept, want %d", len(m.Leaks), most)
	}
}

func FuzzSee(f *testing.F) {
	f.Add(ip("10.0.1.5", "10.71.2.9", true), true)
	f.Add(ip("fd00::1", "fd00::2", false), false)
	f.Add([]byte{0x45}, true)
	f.Fuzz(func(t *testing.T, b []byte, underlay bool) {
		m := &matcher{Order: order()}
		m.see("eth0", underlay, b)
		if n := m.Clear + m.Tunnel + len(m.Leaks); n > m.Packets {
			t.Errorf("one packet counts %d times", n)
		}
	})
}
