//go:build lab || nightly

package forwarding

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/lab"
	"strait.dev/strait/test/wait"
)

func TestPathMTUDiscovery(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		headers := lab.IPHeader(w.Src) + 8
		out, err := w.From.Try("ping", "-n", "-c", "1", "-W", "60", "-M", "do", "-s", fmt.Sprint(lab.LinkMTU-headers), w.Seen.String())
		if err == nil || !tooBigText.MatchString(out) {
			t.Fatalf("a packet of %d bytes that must not be fragmented: %v, want an error that it is too big\n%s", lab.LinkMTU, err, out)
		}
		mtu := lab.Discover(t, w)
		if mtu != lab.InnerMTU {
			t.Errorf("the path MTU is %d, want %d", mtu, lab.InnerMTU)
		}
		lab.Ping(t, w.From, w.Seen, 3, "-M", "do", "-s", fmt.Sprint(mtu-headers))
		sendUnfragmented(t, w, mtu)
	})
}

func TestGatewayAnswersPacketsTooBigForTheTunnel(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{Configure: func(_ *lab.Site, c *lab.GatewayConfig) { c.MTU = lab.SmallMTU }})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		answers := lab.ListenOn(t, w.From, "eth0", lab.TooBigKind(w.Src))
		const size = 1400 // fits the node's link, not the tunnel
		_, _ = w.From.Try("ping", "-n", "-c", "1", "-W", "60", "-M", "do", "-s", fmt.Sprint(size-lab.IPHeader(w.Src)-8), w.Seen.String())
		e, _ := lab.ICMPErrorOf(answers.First(t, "too big"))
		if e.Src != lab.GatewayInternal[lab.Family(w.Src)] || e.Dst != w.Src {
			t.Errorf("answered by %s to %s, want %s to %s", e.Src, e.Dst, lab.GatewayInternal[lab.Family(w.Src)], w.Src)
		}
		if e.MTU != lab.SmallMTU {
			t.Errorf("the error states MTU %d, want %d", e.MTU, lab.SmallMTU)
		}
		if e.Quoted.Src != w.Src || e.Quoted.Dst != w.Seen || e.Quoted.Total != size {
			t.Errorf("it quotes %d bytes from %s to %s, want %d from %s to %s as sent", e.Quoted.Total, e.Quoted.Src, e.Quoted.Dst, size, w.Src, w.Seen)
		}
		if mtu := lab.Discover(t, w); mtu != lab.SmallMTU {
			t.Errorf("the path MTU is %d, want %d", mtu, lab.SmallMTU)
		}
		sendUnfragmented(t, w, lab.SmallMTU)
	})
}

func TestSmallMTUOfTheFarGatewayIsLearned(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{Configure: func(s *lab.Site, c *lab.GatewayConfig) {
		if s.Name == "b" {
			c.MTU = lab.SmallMTU
		}
	}})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		if mtu := lab.Discover(t, w); mtu != lab.SmallMTU {
			t.Errorf("the path MTU is %d, want %d", mtu, lab.SmallMTU)
		}
		l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
		lab.Transfer(t, w.From, l, netip.AddrPortFrom(w.Seen, 5001), 1<<20, 1)
	})
}

// The bottleneck is between the far node and its pod: that node sends the error, and both
// gateways translate it. On the node's own machine the near gateway must process it too,
// because there the gateway segments TCP.
func TestF14_SmallMTUBehindTheFarNodeIsLearned(t *testing.T) {
	t.Parallel()
	for name, sameMachine := range map[string]bool{"same machine": true, "another machine": false} {
		t.Run(name, func(t *testing.T) {
			top := lab.Build(t, lab.Options{SameMachine: sameMachine})
			for _, s := range []*lab.Site{top.A, top.B} {
				s.Node.IP(t, fmt.Sprintf("route replace %s dev pod mtu lock %[3]d\nroute replace %[2]s dev pod mtu lock %[3]d", s.Pod4, s.Pod6, lab.SmallMTU))
			}
			lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
				l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
				lab.Transfer(t, w.From, l, netip.AddrPortFrom(w.Seen, 5001), 1<<20, 1)
				if mtu := lab.Discover(t, w); mtu != lab.SmallMTU {
					t.Errorf("the path MTU is %d, want %d", mtu, lab.SmallMTU)
				}
				sendUnfragmented(t, w, lab.SmallMTU)
			})
		})
	}
}

// Azure's network carries 1400 bytes between interfaces of 1500, and reports no error.
func TestF14_RFC8899_APathThatDropsLargePacketsIsUsedWithSmallerOnes(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	const carried = 1400
	const fits = (carried - (lab.LinkMTU - lab.InnerMTU)) / 16 * 16 // WireGuard pads to 16 bytes
	for _, s := range []*lab.Site{top.A, top.B} {
		s.GW.Run(t, "nft", fmt.Sprintf("add table inet azure; add chain inet azure in { type filter hook input priority 0; }; add rule inet azure in iifname wan meta length > %d drop", carried))
	}
	for _, s := range []*lab.Site{top.A, top.B} {
		wait.Until(t, fmt.Sprintf("the inner MTU of %s is %d", s.Name, fits), func() bool { return s.Gateway.Metric(t, "strait_inner_mtu_bytes") == fits })
	}
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		if mtu := lab.Discover(t, w); mtu != fits {
			t.Errorf("the path MTU is %d, want %d", mtu, fits)
		}
		l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
		lab.Transfer(t, w.From, l, netip.AddrPortFrom(w.Seen, 5001), 1<<20, 1)
		sendUnfragmented(t, w, fits)
	})
}

func TestGatewayFragmentsWhatMayBeFragmented(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{Configure: func(_ *lab.Site, c *lab.GatewayConfig) { c.MTU = lab.SmallMTU }})
	for _, w := range top.Directions() {
		if w.Src.Is4() { // no router fragments IPv6
			t.Run(w.Name(), func(t *testing.T) {
				fragments := lab.ListenOn(t, w.To, "eth0", func(frame []byte) bool {
					p, ok := lab.IPOf(frame)
					return ok && p.Proto == lab.ProtoICMP && p.Total > lab.SmallMTU
				})
				lab.Ping(t, w.From, w.Seen, 3, "-M", "dont", "-s", "1400")
				lab.Ping(t, w.From, w.Seen, 3, "-M", "dont", "-s", "8000")
				fragments.Never(t, "a packet larger than the tunnel's MTU came out of it")
			})
		}
	}
}

var tooBigText = regexp.MustCompile(`Frag needed|Packet too big|[Mm]essage too long`)

// sendUnfragmented sends UDP datagrams of exactly that size, which must not be fragmented,
// and expects their echo.
func sendUnfragmented(t *testing.T, w lab.Direction, mtu int) {
	t.Helper()
	go lab.ServeEcho(w.To.ListenUDP(t, netip.AddrPortFrom(w.Real, 7)))
	c := w.From.Dial(t, "udp", netip.AddrPortFrom(w.Seen, 7)).(*net.UDPConn)
	level, option, do := unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if w.Src.Is6() {
		level, option, do = unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	if err := lab.Control(c, func(fd int) error { return unix.SetsockoptInt(fd, level, option, do) }); err != nil {
		t.Fatal(err)
	}
	// The path MTU of the return path may have to be learned too.
	if err := lab.EchoAfterErrors(t, c, make([]byte, mtu-lab.IPHeader(w.Src)-8), lab.ListenOn(t, w.To, "eth0", lab.TooBigKind(w.Src)), 3); err != nil {
		t.Error(err)
	}
}
