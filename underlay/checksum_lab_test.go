//go:build lab

package underlay

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel verifies what is not zero, and never gives us what does not add up.
func TestG11_WrongChecksumsAreDropped(t *testing.T) {
	for _, addr := range []netip.AddrPort{loopback4, loopback6} {
		for _, wrong := range []bool{false, true} {
			to := open(t, addr, Options{})
			checkArrives(t, to, !wrong, func() { sendRaw(t, to, []byte("some payload"), wrong) })
		}
	}
}

// sendRaw sends a UDP datagram with a checksum of our own making.
func sendRaw(t *testing.T, to *Socket, payload []byte, wrong bool) {
	t.Helper()
	family, addr := unix.AF_INET, to.LocalAddr().Addr()
	var name unix.Sockaddr = &unix.SockaddrInet4{Addr: as4(addr)}
	if addr.Is6() {
		family, name = unix.AF_INET6, &unix.SockaddrInet6{Addr: addr.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if errors.Is(err, unix.EPERM) {
		t.Skip("skipped: raw sockets need root; run the tests of this package with sudo")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	u := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(u, 40000)
	binary.BigEndian.PutUint16(u[2:], to.LocalAddr().Port())
	binary.BigEndian.PutUint16(u[4:], uint16(8+len(payload)))
	u = append(u, payload...)
	sum := checksum(addr.AsSlice(), addr.AsSlice(), []byte{0, unix.IPPROTO_UDP, u[4], u[5]}, u)
	if wrong {
		sum ^= 0x0100
	}
	binary.BigEndian.PutUint16(u[6:], sum)
	if err := unix.Sendto(fd, u, 0, name); err != nil {
		t.Fatal(err)
	}
}

// checksum is RFC 1071's of parts, all but the last of even length. Zero, which UDP would
// take for none, does not come out of what the tests send.
func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, p := range parts {
		for i := 0; i+1 < len(p); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		if len(p)%2 == 1 {
			sum += uint32(p[len(p)-1]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
