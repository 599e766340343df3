package packet_test

import (
	"net/netip"
	"testing"

	"strait.dev/strait/packet"
)

func TestUDPDatagramsAreWholePackets(t *testing.T) {
	t.Parallel()
	for _, ends := range [][2]netip.Addr{{gateway, podA}, {gateway6, podA6}} {
		from, to := netip.AddrPortFrom(ends[0], 6095), netip.AddrPortFrom(ends[1], 40000)
		for n := range 70 {
			b := packet.AppendUDP([]byte("abc"), from, to, counting(n))[3:]
			ip := parse(t, b)
			u := ip.Upper(b)
			if ip.Src != ends[0] || ip.Dst != ends[1] || ip.TTL != 64 || int(ip.Len) != len(b) || len(u) != 8+n {
				t.Fatalf("%+v", ip)
			}
			if word(u, 0) != 6095 || word(u, 2) != 40000 || word(u, 4) != 8+n || string(u[8:]) != string(counting(n)) || !upperOK(b, ip) {
				t.Fatalf("datagram % x", u)
			}
			if !packet.UDPChecksumOK(b, &ip) {
				t.Fatal("UDPChecksumOK refuses it")
			}
			u[8-1] ^= 1
			if packet.UDPChecksumOK(b, &ip) && !packet.IsPartial(b, &ip) {
				t.Fatal("UDPChecksumOK accepts a wrong checksum")
			}
			u[6], u[7] = 0, 0
			if packet.UDPChecksumOK(b, &ip) != ends[0].Is4() {
				t.Fatal("only in IPv4 may the checksum be left out")
			}
			if u[5]--; packet.UDPChecksumOK(b, &ip) {
				t.Fatal("UDPChecksumOK accepts another length")
			}
		}
	}
}
