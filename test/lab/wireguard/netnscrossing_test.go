//go:build lab || nightly

package wireguard

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"strait.dev/strait/test/lab"
)

// The scenarios about packets that cross: counted, of all types and sizes, padded, and
// nested.

func TestNetns1_CountersAreByteExact(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := buildNetns(t, k, netnsOptions{})
		// A packet is padded to 16 bytes; WireGuard adds 32. A keepalive, which is sent if
		// there is no reply for 10 s, is 32.
		const keepalive = 32
		keepalives := lab.ListenOn(t, l.net, "ref", func(frame []byte) bool {
			p, ok := lab.IPOf(frame)
			return ok && lab.WireGuardType(frame) == 4 && len(p.Payload) == 8+keepalive
		})
		lab.Eventually(t, "the reference has had a handshake", func() bool { return l.ref.show(t, "latest-handshakes", l.key.Public) != "0" })
		const response = 92
		_, before := transferred(t, l)
		keepalives.Drain(t)
		before -= keepalives.Count() * keepalive
		if before != response {
			t.Errorf("the reference reports %d bytes sent for a handshake, want %d", before, response)
		}

		for size, want := range map[int]int{0: 32 + 32, 5: 48 + 32, 56: 96 + 32, 1300: 1328 + 32} {
			exactPing(t, l.ref.ns, l.a.Pod4, size)
			var least, sent int
			lab.Eventually(t, "the reference has counted what it sent", func() bool { // it does that afterwards
				keepalives.Drain(t)
				least = keepalives.Count()
				_, sent = transferred(t, l)
				return sent-before >= 10*want+least*keepalive
			})
			keepalives.Drain(t)
			got := sent - before - 10*want
			if got < least*keepalive || got > keepalives.Count()*keepalive || got%keepalive != 0 {
				t.Errorf("the reference reports %d bytes sent for 10 pings of %d, want %d and %d to %d keepalives",
					got+10*want, size, 10*want, least, keepalives.Count())
			}
			before += 10 * want
		}
		// Now the reference sends nothing, and the gateway its probes: one may be sent
		// between two readings.
		lab.Eventually(t, "both ends count the same bytes both directions", func() bool {
			sentBefore := l.gateway.Metric(t, "strait_wireguard_sent_bytes_total")
			received, sent := transferred(t, l)
			sentAfter := l.gateway.Metric(t, "strait_wireguard_sent_bytes_total")
			return sentBefore <= float64(received) && float64(received) <= sentAfter &&
				l.gateway.Metric(t, "strait_wireguard_received_bytes_total") == float64(sent)
		})
		if age := l.gateway.Metric(t, "strait_wireguard_handshake_age_seconds"); age <= 0 || age > 120 {
			t.Errorf("the gateway's last handshake is %v s old", age)
		}
	})
}

// exactPing sends exactly ten requests. ping does not wait for slow last replies, which are
// counted all the same.
func exactPing(t *testing.T, from *lab.Namespace, to netip.Addr, size int) {
	t.Helper()
	out := from.Run(t, "ping", "-n", "-c", "10", "-i", "0.002", "-s", strconv.Itoa(size), to.String())
	if !strings.Contains(out, "10 packets transmitted") {
		t.Errorf("not ten requests were sent:\n%s", out)
	}
}

// transferred returns the reference's counters of the gateway's bytes.
func transferred(t *testing.T, l *netnsLab) (received, sent int) {
	t.Helper()
	if _, err := fmt.Sscan(l.ref.show(t, "transfer", l.key.Public), &received, &sent); err != nil {
		t.Fatal(err)
	}
	return received, sent
}

func TestNetns2_EverythingCrossesOverIPv4(t *testing.T) {
	t.Parallel()
	everythingCrosses(t, netnsOptions{})
}

func TestNetns3_EverythingCrossesOverIPv6(t *testing.T) {
	t.Parallel()
	everythingCrosses(t, netnsOptions{outer6: true})
}

// jumbo is the self-test's large MTU, in bytes.
const jumbo = 34816

func everythingCrosses(t *testing.T, o netnsOptions) {
	withEachReference(t, func(t *testing.T, k kind) {
		for _, o.linkMTU = range []int{lab.LinkMTU, jumbo} {
			t.Run(fmt.Sprint("MTU_", o.linkMTU), func(t *testing.T) {
				l := joinNetns(t, k, o)
				overhead := wireGuardOverhead
				if !o.outer6 {
					overhead -= 20
				}
				if got := int(l.gateway.Metric(t, "strait_inner_mtu_bytes")); got != o.linkMTU-overhead {
					t.Errorf("the gateway's inner MTU is %d, want %d", got, o.linkMTU-overhead)
				}
				exchangeEverything(t, l.directions(), o.linkMTU-wireGuardOverhead)
			})
		}
	})
}

// exchangeEverything sends what the self-test sends: pings, one TCP stream and datagrams in
// each direction, then many streams.
func exchangeEverything(t *testing.T, directions []lab.Direction, mtu int) {
	t.Helper()
	size, port := lab.TransferBytes(t)/256, uint16(5000)
	stream := func(w lab.Direction, size int64, streams int) {
		t.Helper()
		port++
		l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, port))
		lab.Transfer(t, w.From, l, netip.AddrPortFrom(w.Seen, port), size, streams)
	}
	random := rand.NewChaCha8([32]byte{})
	for _, w := range directions {
		lab.Ping(t, w.From, w.Seen, 10, "-i", "0.002")
		stream(w, size, 1)

		go lab.ServeEcho(w.To.ListenUDP(t, netip.AddrPortFrom(w.Real, 7)))
		c := w.From.Dial(t, "udp", netip.AddrPortFrom(w.Seen, 7))
		for step := range 8 {
			payload := make([]byte, (mtu-48)*(step+1)/8)
			_, _ = random.Read(payload) // never fails
			if err := lab.Echo(t, c, payload); err != nil {
				t.Errorf("%s: %v", w.Name(), err)
			}
		}
	}
	for i, streams := range []int{4, 5, 50} {
		stream(directions[i%len(directions)], size, streams)
	}
}

// A WireGuard that padded to 16 bytes regardless of the MTU would send 1372 bytes for the
// largest packet here.
func TestNetns4_PaddingDoesNotExceedTheMTU(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		const mtu, padded = 1299, 1299 + 32 + 8 + 20
		l := joinNetns(t, k, netnsOptions{configure: func(c *lab.GatewayConfig) { c.MTU = mtu }})
		l.ref.ns.IP(t, fmt.Sprintf("link set %s mtu %d", l.ref.device, mtu))
		l.net.Run(t, "nft", fmt.Sprintf("add table ip narrow; add chain ip narrow forward { type filter hook forward priority 0; }; "+
			"add rule ip narrow forward ip length > %d drop", padded))
		// wireguard-go reads the new MTU from a netlink message, and pads for the old one until then.
		first := l.directions()[0]
		lab.Eventually(t, "the reference pads for its new MTU", func() bool {
			_, err := first.From.Try("ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", strconv.Itoa(mtu-lab.IPHeader(first.Src)-8), first.Seen.String())
			return err == nil
		})
		for _, w := range l.directions() {
			for _, total := range []int{mtu, mtu - 1, mtu - 2, 1281, 1280} {
				lab.Ping(t, w.From, w.Seen, 2, "-i", "0.01", "-M", "do", "-s", strconv.Itoa(total-lab.IPHeader(w.Src)-8))
			}
		}
	})
}

func TestNetns9_WireGuardCrossesInsideTheTunnel(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		const port = 51821
		ends := [2]*wireGuard{startWireGuard(t, k, l.a.Pod, port), startWireGuard(t, k, l.ref.ns, port)}
		inner := [2][]netip.Addr{lab.Addrs("192.168.241.1", "fd00:241::1"), lab.Addrs("192.168.241.2", "fd00:241::2")}
		const mtu = lab.LinkMTU - 2*wireGuardOverhead
		for i, end := range ends {
			end.ns.IP(t, fmt.Sprintf(`
link set %[1]s mtu %[2]d
addr add %[3]s/24 dev %[1]s
addr add %[4]s/64 dev %[1]s nodad
`, end.device, mtu, inner[i][0], inner[i][1]))
			end.peer(t, ends[1-i].key.Public, "allowed-ips", fmt.Sprintf("%s/32,%s/128", inner[1-i][0], inner[1-i][1]))
		}
		ends[0].peer(t, ends[1].key.Public, "endpoint", netip.AddrPortFrom(l.a.Sees(referenceInner[0]), port).String())
		var directions []lab.Direction
		for f := range inner[0] {
			for i, end := range ends {
				directions = append(directions, lab.Direction{From: end.ns, To: ends[1-i].ns, Src: inner[i][f], Seen: inner[1-i][f], Real: inner[1-i][f],
					Site: &lab.Site{Name: "inner"}, FarSite: &lab.Site{Name: "inner"}})
			}
		}
		lab.WaitForPing(t, l.a.Pod, inner[1][0])
		exchangeEverything(t, directions, mtu)
	})
}
