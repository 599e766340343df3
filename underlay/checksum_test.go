package underlay

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// udpNoCheck6TX lets an IPv6 socket send without checksums: UDP_NO_CHECK6_TX of
// linux/udp.h, which package unix has not.
const udpNoCheck6TX = 101

// RFC 7348 section 5: a checksum of zero must be accepted over IPv4. RFC 8200 section 8.1:
// over IPv6 it must not, unless asked for (RFC 6935), and a node's kernel asks for it in
// no tunnel device that Strait makes.
func TestG11_RFC7348_ChecksumZeroIsAcceptedOverIPv4Alone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addr          netip.AddrPort
		level, option int
		accepted      bool
	}{
		{loopback4, unix.SOL_SOCKET, unix.SO_NO_CHECK, true},
		{loopback6, unix.SOL_UDP, udpNoCheck6TX, false},
	} {
		to, from := open(t, c.addr, Options{}), open(t, c.addr, Options{DisableGSO: true})
		if err := unix.SetsockoptInt(from.fd.number, c.level, c.option, 1); err != nil {
			t.Fatal(err)
		}
		checkArrives(t, to, c.accepted, func() {
			b := NewBatch(1)
			b.Add(from, destination(to), nil, []byte("no checksum"))
			if sent, dropped := b.Flush(); sent != 1 || dropped != 0 {
				t.Fatalf("%v: sent %d, dropped %d", c.addr, sent, dropped)
			}
		})
	}
}

// checkArrives runs send, and then sends one good datagram to s, which shows that what came
// before it is not still under way.
func checkArrives(t *testing.T, s *Socket, want bool, send func()) {
	t.Helper()
	send()
	b, from := NewBatch(1), open(t, netip.AddrPortFrom(s.LocalAddr().Addr(), 0), Options{})
	b.Add(from, destination(s), nil, []byte("last"))
	b.Flush()
	r, arrived := NewReceiver(s), 0
	for {
		got, _ := receive(t, r, 1)
		if string(got[len(got)-1]) == "last" {
			arrived += len(got) - 1
			break
		}
		arrived += len(got)
	}
	if (arrived == 1) != want {
		t.Errorf("%v: %d datagrams arrived before the last", s.LocalAddr(), arrived)
	}
}
