//go:build lab || nightly

package lab

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUDPEchoOfManySizes(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	random := rand.NewChaCha8([32]byte{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		go serveEcho(w.to.listenUDP(t, netip.AddrPortFrom(w.real, 7)))
		refused := listenOn(t, w.to, "eth0", tooBigKind(w.src))
		c := w.from.dial(t, "udp", netip.AddrPortFrom(w.seen, 7))
		for _, size := range []int{0, 1, 2, 3, 17, 63, 64, 511, 512, 1023, 1280, 1372, 1392, 1393, 1412, 1432, 1433, 1472, 1473, 4000, 9001, 40000, 60000} {
			t.Run(strconv.Itoa(size), func(t *testing.T) {
				limit := 0
				if size > 1280-48 {
					limit = 7 // each direction may have to learn a path MTU at two hops, each by one error
				}
				payload := make([]byte, size)
				_, _ = random.Read(payload) // never fails
				if err := echoAfterErrors(t, c, payload, refused, limit); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func TestUDPWithoutChecksumCrosses(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	go serveEcho(top.b.pod.listenUDP(t, netip.AddrPortFrom(top.b.pod4, 7)))
	c := top.a.pod.dial(t, "udp", netip.AddrPortFrom(top.a.sees(top.b.pod4), 7)).(*net.UDPConn)
	if err := control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) }); err != nil {
		t.Fatal(err)
	}
	if err := echo(t, c, []byte("trusting the lower layers")); err != nil {
		t.Error(err)
	}
}

func TestClosedUDPPortIsReportedByTheDestination(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		kind, code := byte(3), byte(3) // RFC 792, port unreachable
		if w.src.Is6() {
			kind, code = 1, 4 // RFC 4443
		}
		errorsSeen := listenOn(t, w.from, "eth0", icmpKind(kind, code))
		c := w.from.dial(t, "udp", netip.AddrPortFrom(w.seen, 9))
		if _, err := c.Write([]byte("anyone?")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("reading from a closed port: %v, want %v", err, syscall.ECONNREFUSED)
		}
		e, _ := icmpErrorOf(errorsSeen.first(t, "port unreachable"))
		if e.src != w.seen || e.dst != w.src {
			t.Errorf("port unreachable from %s to %s, want %s to %s", e.src, e.dst, w.seen, w.src)
		}
		if e.quoted.src != w.src || e.quoted.dst != w.seen {
			t.Errorf("it quotes %s to %s, want %s to %s", e.quoted.src, e.quoted.dst, w.src, w.seen)
		}
	})
}

func TestClosedTCPPortRefuses(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		err := w.from.in(func() error {
			_, err := net.Dial("tcp", netip.AddrPortFrom(w.seen, 9).String())
			return err
		})
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%v, want %v", err, syscall.ECONNREFUSED)
		}
	})
}
