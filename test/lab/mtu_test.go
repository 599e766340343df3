//go:build lab || nightly

package lab

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/wait"
)

func TestPathMTUDiscovery(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		headers := ipHeader(w.src) + 8
		out, err := w.from.try("ping", "-n", "-c", "1", "-W", "60", "-M", "do", "-s", fmt.Sprint(linkMTU-headers), w.seen.String())
		if err == nil || !tooBigText.MatchString(out) {
			t.Fatalf("a packet of %d bytes that must not be fragmented: %v, want an error that it is too big\n%s", linkMTU, err, out)
		}
		mtu := discover(t, w)
		if mtu != innerMTU {
			t.Errorf("the path MTU is %d, want %d", mtu, innerMTU)
		}
		ping(t, w.from, w.seen, 3, "-M", "do", "-s", fmt.Sprint(mtu-headers))
		sendUnfragmented(t, w, mtu)
	})
}

func TestGatewayAnswersPacketsTooBigForTheTunnel(t *testing.T) {
	t.Parallel()
	top := build(t, options{configure: func(_ *site, c *gatewayConfig) { c.MTU = smallMTU }})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		answers := listenOn(t, w.from, "eth0", tooBigKind(w.src))
		const size = 1400 // fits the node's link, not the tunnel
		_, _ = w.from.try("ping", "-n", "-c", "1", "-W", "60", "-M", "do", "-s", fmt.Sprint(size-ipHeader(w.src)-8), w.seen.String())
		e, _ := icmpErrorOf(answers.first(t, "too big"))
		if e.src != gatewayInternal[family(w.src)] || e.dst != w.src {
			t.Errorf("answered by %s to %s, want %s to %s", e.src, e.dst, gatewayInternal[family(w.src)], w.src)
		}
		if e.mtu != smallMTU {
			t.Errorf("the error states MTU %d, want %d", e.mtu, smallMTU)
		}
		if e.quoted.src != w.src || e.quoted.dst != w.seen || e.quoted.total != size {
			t.Errorf("it quotes %d bytes from %s to %s, want %d from %s to %s as sent", e.quoted.total, e.quoted.src, e.quoted.dst, size, w.src, w.seen)
		}
		if mtu := discover(t, w); mtu != smallMTU {
			t.Errorf("the path MTU is %d, want %d", mtu, smallMTU)
		}
		sendUnfragmented(t, w, smallMTU)
	})
}

func TestSmallMTUOfTheFarGatewayIsLearned(t *testing.T) {
	t.Parallel()
	top := build(t, options{configure: func(s *site, c *gatewayConfig) {
		if s.name == "b" {
			c.MTU = smallMTU
		}
	}})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		if mtu := discover(t, w); mtu != smallMTU {
			t.Errorf("the path MTU is %d, want %d", mtu, smallMTU)
		}
		l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 5001))
		transfer(t, w.from, l, netip.AddrPortFrom(w.seen, 5001), 1<<20, 1)
	})
}

// The bottleneck is between the far node and its pod: that node sends the error, and both
// gateways translate it. On the node's own machine the near gateway must process it too,
// because there the gateway segments TCP.
func TestF14_SmallMTUBehindTheFarNodeIsLearned(t *testing.T) {
	t.Parallel()
	for name, sameMachine := range map[string]bool{"same machine": true, "another machine": false} {
		t.Run(name, func(t *testing.T) {
			top := build(t, options{sameMachine: sameMachine})
			for _, s := range []*site{top.a, top.b} {
				s.node.ip(t, fmt.Sprintf("route replace %s dev pod mtu lock %[3]d\nroute replace %[2]s dev pod mtu lock %[3]d", s.pod4, s.pod6, smallMTU))
			}
			forEachDirection(t, top, func(t *testing.T, w direction) {
				l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 5001))
				transfer(t, w.from, l, netip.AddrPortFrom(w.seen, 5001), 1<<20, 1)
				if mtu := discover(t, w); mtu != smallMTU {
					t.Errorf("the path MTU is %d, want %d", mtu, smallMTU)
				}
				sendUnfragmented(t, w, smallMTU)
			})
		})
	}
}

// Azure's network carries 1400 bytes between interfaces of 1500, and reports no error.
func TestF14_RFC8899_APathThatDropsLargePacketsIsUsedWithSmallerOnes(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	const carried = 1400
	const fits = (carried - (linkMTU - innerMTU)) / 16 * 16 // WireGuard pads to 16 bytes
	for _, s := range []*site{top.a, top.b} {
		s.gw.run(t, "nft", fmt.Sprintf("add table inet azure; add chain inet azure in { type filter hook input priority 0; }; add rule inet azure in iifname wan meta length > %d drop", carried))
	}
	for _, s := range []*site{top.a, top.b} {
		wait.Until(t, fmt.Sprintf("the inner MTU of %s is %d", s.name, fits), func() bool { return s.gateway.metric(t, "strait_inner_mtu_bytes") == fits })
	}
	forEachDirection(t, top, func(t *testing.T, w direction) {
		if mtu := discover(t, w); mtu != fits {
			t.Errorf("the path MTU is %d, want %d", mtu, fits)
		}
		l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 5001))
		transfer(t, w.from, l, netip.AddrPortFrom(w.seen, 5001), 1<<20, 1)
		sendUnfragmented(t, w, fits)
	})
}

func TestGatewayFragmentsWhatMayBeFragmented(t *testing.T) {
	t.Parallel()
	top := build(t, options{configure: func(_ *site, c *gatewayConfig) { c.MTU = smallMTU }})
	for _, w := range top.directions() {
		if w.src.Is4() { // no router fragments IPv6
			t.Run(w.name(), func(t *testing.T) {
				fragments := listenOn(t, w.to, "eth0", func(frame []byte) bool {
					p, ok := ipOf(frame)
					return ok && p.proto == protoICMP && p.total > smallMTU
				})
				ping(t, w.from, w.seen, 3, "-M", "dont", "-s", "1400")
				ping(t, w.from, w.seen, 3, "-M", "dont", "-s", "8000")
				fragments.never(t, "a packet larger than the tunnel's MTU came out of it")
			})
		}
	}
}

var tooBigText = regexp.MustCompile(`Frag needed|Packet too big|[Mm]essage too long`)

// sendUnfragmented sends UDP datagrams of exactly that size, which must not be fragmented,
// and expects their echo.
func sendUnfragmented(t *testing.T, w direction, mtu int) {
	t.Helper()
	go serveEcho(w.to.listenUDP(t, netip.AddrPortFrom(w.real, 7)))
	c := w.from.dial(t, "udp", netip.AddrPortFrom(w.seen, 7)).(*net.UDPConn)
	level, option, do := unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if w.src.Is6() {
		level, option, do = unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	if err := control(c, func(fd int) error { return unix.SetsockoptInt(fd, level, option, do) }); err != nil {
		t.Fatal(err)
	}
	// The path MTU of the return path may have to be learned too.
	if err := echoAfterErrors(t, c, make([]byte, mtu-ipHeader(w.src)-8), listenOn(t, w.to, "eth0", tooBigKind(w.src)), 3); err != nil {
		t.Error(err)
	}
}
