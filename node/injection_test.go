//go:build lab

package node

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/geneve"
	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/wait"
	"strait.dev/strait/vxlan"
)

// attackedPort is the UDP destination port of injected packets.
const attackedPort = 9999

// observer counts what reaches pods and processes of the node, and stands for kube-proxy.
const observer = `
table inet observer {
	chain forward {
		type filter hook forward priority filter
		udp dport 9999 counter
	}
	chain input {
		type filter hook input priority filter
		udp dport 9999 counter
	}
	chain prerouting {
		type nat hook prerouting priority dstnat
		ip daddr 10.96.0.10 udp dport 9999 dnat ip to 10.0.1.5
		ip6 daddr fd00:96::10 udp dport 9999 dnat ip6 to [fd00:10:0:1::5]
	}
}`

// injectionWorld adds a second pod, 10.0.1.6, a host that is no gateway, 192.0.2.13, and a
// gateway of another Peering, 192.0.2.12, whose remote cluster is mapped to 10.72.0.0/16.
func injectionWorld(t *testing.T, w *world) (d Desired, attacker *netns.Namespace) {
	t.Helper()
	attacker = netns.New(t)
	w.node.IP(t, fmt.Sprintf(`
link add pod1 type veth peer name eth0 %s
link set pod1 up
route add 10.0.1.6 dev pod1
route add fd00:10:0:1::6 dev pod1
route add 192.0.2.13 dev gw1 src 192.0.2.21
route add 10.0.2.0/24 via 192.0.2.12 dev gw1 onlink`, attacker.Here()))
	attacker.IP(t, `
addr add 10.0.1.6/32 dev eth0
link set eth0 up
route add 10.0.1.1 dev eth0
route add default via 10.0.1.1`)
	w.moved.IP(t, "addr add 192.0.2.13/32 dev eth0")
	w.node.NFT(t, observer)
	d = w.desired()
	d.Gateways = append(d.Gateways, Gateway{
		Name: "c-0", Underlay: netip.MustParseAddr("192.0.2.12"), Addresses: addrs("10.80.0.2", "fd00:80::2"),
		VNI: worldVNI + 1, Encapsulation: w.encapsulation, MTU: 1400, Remote: prefixes("10.72.0.0/16", "fd00:72::/48"),
	})
	d.Groups = append(d.Groups, Group{Name: "c", Gateways: []string{"c-0"}, MTU: 1400})
	d.Routes = append(d.Routes, Route{netip.MustParsePrefix("10.72.0.0/16"), "c"}, Route{netip.MustParsePrefix("fd00:72::/48"), "c"})
	w.apply(t, d)
	return d, attacker
}

// arrived returns how many injected packets the node has accepted so far.
func (w *world) arrived(t *testing.T) (packets int) {
	t.Helper()
	for _, m := range regexp.MustCompile(`dport 9999 counter packets (\d+)`).FindAllStringSubmatch(w.node.Run(t, "nft", "list", "table", "inet", "observer"), -1) {
		n, err := strconv.Atoi(m[1])
		must(t, err)
		packets += n
	}
	return packets
}

// inject sends a frame with an ordinary UDP socket.
func (w *world) inject(t *testing.T, n *netns.Namespace, from string, vni uint32, source, destination string) {
	t.Helper()
	inner := udpPacket(netip.MustParseAddr(source), netip.MustParseAddr(destination))
	etherType := uint16(unix.ETH_P_IP)
	if inner[0]>>4 == 6 {
		etherType = unix.ETH_P_IPV6
	}
	frame := make([]byte, 8)
	if w.encapsulation == VXLAN {
		vxlan.Put(frame, vni)
	} else {
		geneve.Put(frame, vni)
	}
	node, gateway := macOf(w.desired().Addresses), macOf(w.desired().Gateways[0].Addresses)
	frame = append(append(append(frame, node[:]...), gateway[:]...), byte(etherType>>8), byte(etherType))
	must(t, n.In(func() error {
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.21"), w.encapsulation.port()))
		conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0)), to)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write(append(frame, inner...))
		return err
	}))
}

// udpPacket returns an IP packet with an empty UDP datagram.
func udpPacket(from, to netip.Addr) []byte {
	udp := binary.BigEndian.AppendUint16(nil, 1234)
	udp = append(binary.BigEndian.AppendUint16(udp, attackedPort), 0, 8, 0, 0)
	if from.Is6() {
		b := append([]byte{0x60, 0, 0, 0, 0, 8, unix.IPPROTO_UDP, 64}, from.AsSlice()...)
		return append(append(b, to.AsSlice()...), udp...)
	}
	b := append([]byte{0x45, 0, 0, 28, 0, 1, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}, from.AsSlice()...)
	b = append(b, to.AsSlice()...)
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
	return append(b, udp...)
}

var (
	honest       = [][2]string{{"10.71.2.9", "10.0.1.5"}, {"fd00:71::9", "fd00:10:0:1::5"}, {"10.80.0.1", "10.0.1.5"}}
	falseSources = []struct{ name, ipv4, ipv6 string }{
		{"another remote cluster", "10.72.2.9", "fd00:72::9"},
		{"a pod of another node", "10.0.2.9", "fd00:10:0:2::9"},
		{"a pod of this node", "10.0.1.6", "fd00:10:0:1::6"},
		{"the API server", "192.0.2.1", "2001:db8::1"},
		{"this node on the overlay", "10.80.0.11", "fd00:80::11"},
		{"the gateway of another Peering", "10.80.0.2", "fd00:80::2"},
		{"a Service", "10.96.0.10", "fd00:96::10"},
		{"the Internet", "8.8.8.8", "2001:4860:4860::8888"},
	}
	falseDestinations = []struct{ name, ipv4, ipv6, reason string }{
		{"the node on the overlay", "10.80.0.11", "fd00:80::11", RefusedNode},
		{"the node's own address", "192.0.2.21", "2001:db8::21", RefusedNode},
		{"the node's bridge of its pods", "10.0.1.1", "fd00:10:0:1::1", RefusedNode},
		{"a Service", "10.96.0.10", "fd00:96::10", RefusedDestination},
		{"a pod of another node", "10.0.2.9", "fd00:10:0:2::9", RefusedDestination},
		{"another remote cluster", "10.72.2.9", "fd00:72::9", RefusedDestination},
	}
)

func TestT3_T6_ACompromisedGatewayReachesOnlyWhatItsPeeringGrants(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		d, _ := injectionWorld(t, w)
		send := func(source, destination string) { w.inject(t, w.gateway, "192.0.2.10", worldVNI, source, destination) }
		reasons := map[string]int{}
		attack := func() {
			for _, s := range falseSources {
				send(s.ipv4, "10.0.1.5")
				send(s.ipv6, "fd00:10:0:1::5")
				reasons[RefusedSource] += 2
			}
			for _, to := range falseDestinations {
				send("10.71.2.9", to.ipv4)
				send("fd00:71::9", to.ipv6)
				reasons[to.reason] += 2
			}
		}
		attack()
		for _, p := range honest {
			send(p[0], p[1])
		}
		wait.Until(t, "granted packets arrive", func() bool { return w.arrived(t) >= len(honest) })
		counted, err := w.kernel.Refused()
		must(t, err)
		for reason, want := range reasons {
			if got := counted[Refused{d.Gateways[0].Link(), reason}]; got < uint64(want) { // the kernel of the gateway sends packets of its own
				t.Errorf("%s: %d packets counted, want %d", reason, got, want)
			}
		}
		if got := w.arrived(t); got != len(honest) {
			t.Errorf("%d packets arrived, want %d", got, len(honest))
		}
		w.apply(t, Desired{Addresses: d.Addresses, Pods: d.Pods, Gateways: d.Gateways, Groups: d.Groups, Routes: d.Routes})
		send(honest[0][0], honest[0][1])
		w.pod.Run(t, "ping", "-c1", "-W5", "10.71.2.9") // follows it on the same path: a reply
		if got := w.arrived(t); got != len(honest) {
			t.Error("a packet arrived at a node without pods")
		}
		w.node.Run(t, "nft", "delete", "table", "inet", tableName)
		attack()
		wait.Until(t, "attacks arrive without the rules, so that this test detects them", func() bool { return w.arrived(t) > len(honest)+5 })
	})
}

func TestT1_T6_FramesOfOtherSendersAreRefused(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		_, pod := injectionWorld(t, w)
		senders := []struct {
			name string
			in   *netns.Namespace
			from string
			vni  uint32
		}{
			{"a pod", pod, "10.0.1.6", worldVNI},
			{"a host outside", w.moved, "192.0.2.13", worldVNI},
			{"the gateway of another Peering", w.moved, "192.0.2.12", worldVNI},
			{"a gateway with the VNI of another", w.gateway, "192.0.2.10", worldVNI + 1},
			{"a process of the node", w.node, "192.0.2.21", worldVNI},
		}
		attack := func() {
			for _, s := range senders {
				for _, p := range honest {
					w.inject(t, s.in, s.from, s.vni, p[0], p[1])
				}
				for _, source := range falseSources {
					w.inject(t, s.in, s.from, s.vni, source.ipv4, "10.0.1.5")
				}
			}
		}
		attack()
		w.inject(t, w.gateway, "192.0.2.10", worldVNI, honest[0][0], honest[0][1])
		wait.Until(t, "a granted packet arrives", func() bool { return w.arrived(t) >= 1 })
		if got := w.arrived(t); got != 1 {
			t.Errorf("%d packets arrived, want 1", got)
		}
		counted, err := w.kernel.Refused()
		must(t, err)
		if got, want := counted[Refused{chainFrames, RefusedFrame}], uint64(len(senders)*(len(honest)+len(falseSources))); got < want {
			t.Errorf("%d frames counted, want %d", got, want)
		}
		if w.encapsulation != VXLAN {
			return // Geneve checks the outer source itself
		}
		w.node.Run(t, "nft", "delete", "table", "inet", tableName)
		attack()
		wait.Until(t, "attacks arrive without the rules, so that this test detects them", func() bool { return w.arrived(t) > 5 })
	})
}

func TestT3_ANodeGetsAnswersButNoConnections(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		d := w.desired()
		w.apply(t, d)
		for _, to := range []string{"10.71.2.9", "fd00:71::9"} {
			w.node.Run(t, "ping", "-c1", "-W5", to)
			w.node.Run(t, "ping", "-c1", "-W5", "-s3000", to) // fragments
			var refused error
			must(t, w.node.In(func() error {
				conn, err := net.Dial("udp", net.JoinHostPort(to, "9"))
				if err != nil {
					return err
				}
				defer conn.Close()
				wait.Until(t, "an ICMP error reaches a process of the node", func() bool {
					_, refused = conn.Write([]byte("hello"))
					return refused != nil
				})
				return nil
			}))
		}
		for _, from := range [][2]string{{"10.71.2.9", "10.80.0.11"}, {"fd00:71::9", "fd00:80::11"}} {
			if out, err := w.gateway.Try("ping", "-c1", "-W0.5", "-I", from[0], from[1]); err == nil {
				t.Errorf("the remote cluster reaches the node:\n%s", out)
			}
		}
		d.Gateways[0].LocalNodes = true
		w.apply(t, d)
		for _, from := range [][2]string{{"10.71.2.9", "10.80.0.11"}, {"fd00:71::9", "fd00:80::11"}} {
			w.gateway.Run(t, "ping", "-c1", "-W5", "-I", from[0], from[1])
		}
		for _, from := range [][2]string{{"10.71.2.9", "192.0.2.21"}, {"10.71.2.9", "10.0.1.1"}} {
			if out, err := w.gateway.Try("ping", "-c1", "-W0.5", "-I", from[0], from[1]); err == nil {
				t.Errorf("the remote cluster reaches %s of the node:\n%s", from[1], out)
			}
		}
	})
}

// The table is replaced all the time, as on a node whose pods come and go, and no granted packet
// is lost.
func TestGrantedTrafficLosesNothingWhileTheTableChanges(t *testing.T) {
	w := newWorld(t, Support{})
	d := w.desired()
	w.apply(t, d)
	echo(t, w.gateway, "10.71.2.9:7")
	var conn *net.UDPConn
	must(t, w.pod.In(func() (err error) {
		conn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.71.2.9:7")))
		return err
	}))
	defer conn.Close()
	const packets, window = 100_000, 32 // window: so that no queue overflows
	ended := make(chan error, 1)
	go func() {
		b := make([]byte, 64)
		for i := range packets + window {
			if i >= window {
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
				if _, err := conn.Read(b); err != nil {
					ended <- fmt.Errorf("%d of %d packets were answered: %w", i-window, packets, err)
					return
				}
			}
			if i < packets {
				if _, err := conn.Write([]byte("hello")); err != nil {
					ended <- err
					return
				}
			}
		}
		ended <- nil
	}()
	changes := 0
	for running := true; running; changes++ {
		select {
		case err := <-ended:
			must(t, err)
			running = false
		default:
		}
		d.LocalPods = append(w.desired().LocalPods, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 9, byte(changes)}), 32))
		w.apply(t, d)
	}
	t.Logf("%d packets, %d changes of the table", packets, changes)
}

func TestCountersOfRefusedPacketsOutliveAChange(t *testing.T) {
	w := newWorld(t, Support{})
	d, _ := injectionWorld(t, w)
	of := Refused{d.Gateways[0].Link(), RefusedSource}
	w.inject(t, w.gateway, "192.0.2.10", worldVNI, "8.8.8.8", "10.0.1.5")
	w.inject(t, w.gateway, "192.0.2.10", worldVNI, "2001:db8::8", "fd00:10:0:1::5")
	counted := func() uint64 {
		all, err := w.kernel.Refused()
		must(t, err)
		return all[of]
	}
	wait.Until(t, "packets are counted", func() bool { return counted() >= 2 })
	before := counted()
	d.LocalPods = append(d.LocalPods, prefixes("10.0.7.0/24")...)
	w.apply(t, d)
	if got := counted(); got < before {
		t.Errorf("%d refused packets after a change, %d before", got, before)
	}
}
