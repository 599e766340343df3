//go:build lab

package endpoint

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/wait"
)

// path is a client, a router whose other link has an MTU of 1300, and a server.
type path struct{ client, router, server *netns.Namespace }

func newPath(t *testing.T) *path {
	t.Helper()
	p := &path{netns.New(t), netns.New(t), netns.New(t)}
	for _, n := range []*netns.Namespace{p.client, p.router, p.server} { // duplicate address detection is not needed
		p.set(t, n, "/proc/sys/net/ipv6/conf/all/accept_dad", "0")
		p.set(t, n, "/proc/sys/net/ipv6/conf/default/accept_dad", "0")
	}
	p.router.IP(t, `link add name near type veth peer name eth0 `+p.client.Here()+`
link add name far type veth peer name eth0 `+p.server.Here()+`
addr add 10.1.0.1/24 dev near
addr add 10.2.0.1/24 dev far
addr add fd01::1/64 dev near nodad
addr add fd02::1/64 dev far nodad
link set near up
link set far mtu 1300 up`)
	p.client.IP(t, `addr add 10.1.0.2/24 dev eth0
addr add fd01::2/64 dev eth0 nodad
link set eth0 up
route add default via 10.1.0.1
route add default via fd01::1`)
	p.server.IP(t, `addr add 10.2.0.2/24 dev eth0
addr add fd02::2/64 dev eth0 nodad
link set eth0 mtu 1300 up
route add default via 10.2.0.1
route add default via fd02::1`)
	p.set(t, p.router, "/proc/sys/net/ipv4/ip_forward", "1")
	p.set(t, p.router, "/proc/sys/net/ipv6/conf/all/forwarding", "1")
	p.set(t, p.router, "/proc/sys/net/ipv4/icmp_ratelimit", "0")
	p.set(t, p.router, "/proc/sys/net/ipv6/icmp/ratelimit", "0")
	return p
}

func (p *path) set(t *testing.T, n *netns.Namespace, file, value string) {
	t.Helper()
	if err := n.In(func() error { return os.WriteFile(file, []byte(value), 0) }); err != nil {
		t.Fatal(err)
	}
}

// pings allows, or forbids, pings without NET_RAW for all groups.
func (p *path) pings(t *testing.T, all bool) {
	t.Helper()
	value := "1 0"
	if all {
		value = "0 2147483647"
	}
	p.set(t, p.client, "/proc/sys/net/ipv4/ping_group_range", value)
}

// serve runs an echo server and returns its port.
func (p *path) serve(t *testing.T) uint16 {
	t.Helper()
	var s *Server
	if err := p.server.In(func() (err error) { s, err = Listen(Port); return err }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return Port
}

// try runs a check in the client's namespace. A sequence would run on another goroutine,
// outside the namespace.
func (p *path) try(t *testing.T, c Check) (r Result) {
	t.Helper()
	if c.Patience == 0 {
		c.Patience = 3 * time.Second
	}
	if err := p.client.In(func() error { r = c.run(t.Context(), marker); return nil }); err != nil {
		t.Fatal(err)
	}
	return r
}

var servers = []string{"10.2.0.2", "fd02::2"}

func TestPacketsUpToThePathMTUCrossAndLargerOnesAreReported(t *testing.T) {
	for _, raw := range []bool{false, true} {
		for _, server := range servers {
			for _, protocol := range []Protocol{UDP, ICMP} {
				if raw && protocol == UDP {
					continue
				}
				p := newPath(t)
				p.pings(t, !raw)
				to := netip.AddrPortFrom(netip.MustParseAddr(server), p.serve(t))
				for _, c := range []struct {
					size int
					mode Mode
					is   Failure
					mtu  int
				}{
					{112, Whole, "", 0}, {1300, Whole, "", 0},
					{1301, TooBig, "", 1300}, {1301, Whole, Big, 1300},
					{1300, TooBig, Crossed, 0},
					{4000, Fragment, "", 0}, {1300, Whole, "", 0},
				} {
					r := p.try(t, Check{Protocol: protocol, To: to, Size: c.size, Mode: c.mode})
					if r.Failure != c.is || r.MTU != c.mtu {
						t.Errorf("%s to %s, raw %v, %d bytes %s: %+v, want failure %q and MTU %d", protocol, server, raw, c.size, c.mode, r, c.is, c.mtu)
					}
				}
			}
		}
	}
}

func TestTCPReportsItsSegmentSize(t *testing.T) {
	p := newPath(t)
	port := p.serve(t)
	for _, server := range servers {
		r := p.try(t, Check{Protocol: TCP, To: netip.AddrPortFrom(netip.MustParseAddr(server), port), Size: 256 << 10, Source: netip.MustParseAddr(map[string]string{"10.2.0.2": "10.1.0.2", "fd02::2": "fd01::2"}[server])})
		want(t, r, "")
		if r.MSS == 0 || r.MSS > 1300-40 {
			t.Errorf("%s: segments of %d bytes, want some that fit into 1300", server, r.MSS)
		}
	}
}

func TestSilentlyDroppedLargePacketsAreNotATimeout(t *testing.T) {
	p := newPath(t)
	p.pings(t, true)
	p.router.NFT(t, `table inet quiet { chain out { type filter hook output priority 0; icmp type destination-unreachable drop; icmpv6 type packet-too-big drop; }; }`)
	port := p.serve(t)
	for _, server := range servers {
		for _, protocol := range []Protocol{UDP, ICMP} {
			to := netip.AddrPortFrom(netip.MustParseAddr(server), port)
			want(t, p.try(t, Check{Protocol: protocol, To: to, Size: 1301, Mode: TooBig}), Silent)
			want(t, p.try(t, Check{Protocol: protocol, To: to, Size: 1301, Mode: Whole, Patience: 400 * time.Millisecond}), Timeout)
		}
	}
}

func TestMissingRouteIsUnreachable(t *testing.T) {
	p := newPath(t)
	p.pings(t, true)
	p.router.IP(t, "route add unreachable 10.3.0.0/16\nroute add unreachable fd03::/64")
	for _, there := range []string{"10.3.0.1", "fd03::1"} {
		for _, protocol := range []Protocol{TCP, UDP, ICMP} {
			// The kernel limits the rate of such errors, on some machines across all
			// namespaces: other tests may have exhausted it.
			c := Check{Protocol: protocol, To: netip.AddrPortFrom(netip.MustParseAddr(there), Port), Size: 112, Patience: 400 * time.Millisecond}
			r := p.try(t, c)
			for range 20 {
				if r.Failure != Timeout {
					break
				}
				r = p.try(t, c)
			}
			want(t, r, Unreachable)
		}
	}
}

func TestARouterThatDiscardsADatagramOfAFlowIsKnown(t *testing.T) {
	p := newPath(t)
	port := p.serve(t)
	for server, router := range map[string]string{servers[0]: "10.1.0.1", servers[1]: "fd01::1"} {
		c := Check{Protocol: UDP, To: netip.AddrPortFrom(netip.MustParseAddr(server), port), Mode: Whole}
		c.Size = c.overhead() + 2*headLen
		var s *socket
		if err := p.client.In(func() (err error) { s, err = c.open(); return err }); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.writeLimited(c.packet(marker, 7), 1, c.To.Addr().Is6()); err != nil {
			t.Fatal(err)
		}
		var all []discarded
		wait.Until(t, server+": an ICMP error", func() bool {
			all = append(all, s.discards()...)
			return len(all) > 0
		})
		if number, ok := parseRequest(all[0].sent); len(all) != 1 || all[0].by != netip.MustParseAddr(router) || !ok || number != 7 {
			t.Errorf("%s: %+v, want request 7 discarded by %s", server, all, router)
		}
		if err := s.writeLimited(c.packet(marker, 8), 2, c.To.Addr().Is6()); err != nil && !errors.Is(err, unix.EHOSTUNREACH) {
			t.Fatal(err)
		} else if err != nil { // the error of the first one
			if err := s.writeLimited(c.packet(marker, 8), 2, c.To.Addr().Is6()); err != nil {
				t.Fatal(err)
			}
		}
		b := make([]byte, largest)
		n, err := s.Read(b)
		if _, number, ok := parseReply(b[:max(n, 0)]); !ok || number != 8 {
			t.Errorf("%s: with one more hop, %v", server, err)
		}
	}
}
