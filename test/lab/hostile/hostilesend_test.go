//go:build lab || nightly

package hostile

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/lab"
)

// sender sends one packet. It reports false if the kernel had no buffer for it.
type sender func(b []byte) bool

// fromSocket sends datagrams from an ordinary UDP socket of n.
func fromSocket(t *testing.T, n *lab.Namespace, src netip.Addr, to netip.AddrPort) sender {
	t.Helper()
	fd := socket(t, n, unix.SOCK_DGRAM, 0)
	if err := unix.Bind(fd, sockaddr4(netip.AddrPortFrom(src, 0))); err != nil {
		t.Fatalf("in %s: bind %s: %v", n.Role, src, err)
	}
	return sendTo(fd, sockaddr4(to))
}

// fromAnywhere sends IPv4 packets unchanged, even with sources that n does not have:
// CAP_NET_RAW allows that.
func fromAnywhere(t *testing.T, n *lab.Namespace, to netip.Addr) sender {
	t.Helper()
	return sendTo(socket(t, n, unix.SOCK_RAW, unix.IPPROTO_RAW), sockaddr4(netip.AddrPortFrom(to, 0)))
}

func sendTo(fd int, to unix.Sockaddr) sender {
	return func(b []byte) bool { return unix.Sendto(fd, b, unix.MSG_DONTWAIT, to) == nil }
}

// socket opens an IPv4 socket in n, which is closed when the test ends.
func socket(t *testing.T, n *lab.Namespace, kind, proto int) (fd int) {
	t.Helper()
	err := n.In(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, proto)
		return err
	})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4<<20)
	}
	if err != nil {
		t.Fatalf("in %s: %v", n.Role, err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func sockaddr4(a netip.AddrPort) unix.Sockaddr {
	return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
}

// flood sends make(0), make(1), ... at a rate in packets per second until it is stopped,
// and returns how many the kernel accepted. It is never early, and makes up for at most a
// hundredth of a second.
func flood(send sender, packet func(i int) []byte, rate int, stop <-chan struct{}) (sent int) {
	const tick = 2 * time.Millisecond
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	due, last, i := 0.0, time.Now(), 0
	for {
		select {
		case <-stop:
			return sent
		case now := <-ticks.C:
			due = min(due+now.Sub(last).Seconds()*float64(rate), max(1, float64(rate)/100))
			for last = now; due >= 1; due-- {
				if send(packet(i)) {
					sent++
				}
				i++
			}
		}
	}
}

// floods runs several at once and adds up the sent packets.
func floods(fs []func(stop <-chan struct{}) int, during func()) (sent int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	stop := make(chan struct{})
	for _, f := range fs {
		all.Go(func() {
			n := f(stop)
			mu.Lock()
			defer mu.Unlock()
			sent += n
		})
	}
	during()
	close(stop)
	all.Wait()
	return sent
}
