//go:build lab || nightly

package forwarding

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/lab"
)

func TestUDPEchoOfManySizes(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	random := rand.NewChaCha8([32]byte{})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		go lab.ServeEcho(w.To.ListenUDP(t, netip.AddrPortFrom(w.Real, 7)))
		refused := lab.ListenOn(t, w.To, "eth0", lab.TooBigKind(w.Src))
		c := w.From.Dial(t, "udp", netip.AddrPortFrom(w.Seen, 7))
		for _, size := range []int{0, 1, 2, 3, 17, 63, 64, 511, 512, 1023, 1280, 1372, 1392, 1393, 1412, 1432, 1433, 1472, 1473, 4000, 9001, 40000, 60000} {
			t.Run(strconv.Itoa(size), func(t *testing.T) {
				limit := 0
				if size > 1280-48 {
					limit = 7 // each direction may have to learn a path MTU at two hops, each by one error
				}
				payload := make([]byte, size)
				_, _ = random.Read(payload) // never fails
				if err := lab.EchoAfterErrors(t, c, payload, refused, limit); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func TestUDPWithoutChecksumCrosses(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	go lab.ServeEcho(top.B.Pod.ListenUDP(t, netip.AddrPortFrom(top.B.Pod4, 7)))
	c := top.A.Pod.Dial(t, "udp", netip.AddrPortFrom(top.A.Sees(top.B.Pod4), 7)).(*net.UDPConn)
	if err := lab.Control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) }); err != nil {
		t.Fatal(err)
	}
	if err := lab.Echo(t, c, []byte("trusting the lower layers")); err != nil {
		t.Error(err)
	}
}

func TestClosedUDPPortIsReportedByTheDestination(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		kind, code := byte(3), byte(3) // RFC 792, port unreachable
		if w.Src.Is6() {
			kind, code = 1, 4 // RFC 4443
		}
		errorsSeen := lab.ListenOn(t, w.From, "eth0", lab.ICMPKind(kind, code))
		c := w.From.Dial(t, "udp", netip.AddrPortFrom(w.Seen, 9))
		if _, err := c.Write([]byte("anyone?")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("reading from a closed port: %v, want %v", err, syscall.ECONNREFUSED)
		}
		e, _ := lab.ICMPErrorOf(errorsSeen.First(t, "port unreachable"))
		if e.Src != w.Seen || e.Dst != w.Src {
			t.Errorf("port unreachable from %s to %s, want %s to %s", e.Src, e.Dst, w.Seen, w.Src)
		}
		if e.Quoted.Src != w.Src || e.Quoted.Dst != w.Seen {
			t.Errorf("it quotes %s to %s, want %s to %s", e.Quoted.Src, e.Quoted.Dst, w.Src, w.Seen)
		}
	})
}

func TestClosedTCPPortRefuses(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		err := w.From.In(func() error {
			_, err := net.Dial("tcp", netip.AddrPortFrom(w.Seen, 9).String())
			return err
		})
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v, want %v", err, syscall.ECONNREFUSED)
		}
	})
}
