//go:build lab || nightly

package wireguard

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"strait.dev/strait/test/lab"
)

// The scenarios about endpoints: each end may move while packets cross, and each has
// several addresses.

func TestNetns5_EitherEndMayMoveOverIPv4(t *testing.T) {
	t.Parallel()
	eitherEndMayMove(t, 0)
}
func TestNetns6_EitherEndMayMoveOverIPv6(t *testing.T) {
	t.Parallel()
	eitherEndMayMove(t, 1)
}

var (
	gatewayElsewhere   = lab.Addrs("203.0.113.77", "2001:db8:113::77")
	referenceElsewhere = lab.Addrs("198.51.100.77", "2001:db8:100::77")
)

func eitherEndMayMove(t *testing.T, outer int) {
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{outer6: outer == 1})
		gateway := netip.AddrPortFrom(gatewayOuter[outer], lab.WireGuardPort)
		expect := func(moved string) {
			t.Helper()
			if at := l.gatewayAt(t); at != gateway.String() {
				t.Errorf("%s: the reference has the gateway at %s, want %s", moved, at, gateway)
			}
		}
		expect("before")

		// Packets from the reference update the gateway's endpoint. Then the gateway's side
		// may send first.
		l.ref.set(t, "listen-port", "9998")
		lab.WaitForPing(t, l.ref.ns, l.a.Pod4)
		l.pingBothDirections(t)
		move(t, l.ref.ns, referenceOuter[outer], referenceElsewhere[outer], referenceVia[outer])
		lab.WaitForPing(t, l.ref.ns, l.a.Pod6)
		l.pingBothDirections(t)
		expect("the reference changed its address")

		// And in the other direction.
		move(t, l.a.GW, gatewayOuter[outer], gatewayElsewhere[outer], gatewayRouter[outer])
		gateway = netip.AddrPortFrom(gatewayElsewhere[outer], lab.WireGuardPort)
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
		expect("the gateway has another address")
		l.pingBothDirections(t)
		c := &l.gateway.Config
		c.WireGuardPort = 9999
		c.PeerEndpoint = netip.AddrPortFrom(referenceElsewhere[outer], 9998).String()
		l.gateway.Kill() // a gateway keeps its port for life
		l.gateway.WriteConfig(t)
		l.gateway.Start(t)
		gateway = netip.AddrPortFrom(gatewayElsewhere[outer], 9999)
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[1]))
		expect("the gateway has another port")
		for _, w := range l.directions() { // a packet may be lost because of simultaneous handshakes: the reference connects to the new gateway, too
			lab.WaitForPing(t, w.From, w.Seen)
		}
	})
}

// move replaces the address of a namespace on its link to the network.
func move(t *testing.T, n *lab.Namespace, from, to, via netip.Addr) {
	t.Helper()
	if err := n.In(func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/all/promote_secondaries", []byte("1"), 0) }); err != nil {
		t.Fatal(err)
	}
	bits := [2]int{24, 64}[lab.Family(to)]
	nodad := [2]string{"", "nodad"}[lab.Family(to)]
	n.IP(t, fmt.Sprintf("addr add %s/%d dev wan %[3]s\naddr del %[4]s/%[2]d dev wan\nroute replace default via %[5]s", to, bits, nodad, from, via))
}

func TestNetns16_AVanishedSourceAddressIsLetGo(t *testing.T) {
	t.Parallel()
	withEachFamily(t, func(t *testing.T, l *netnsLab, f int) {
		move(t, l.a.GW, gatewayOuter[f], gatewayElsewhere[f], gatewayRouter[f])
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[f]))
		if at, want := l.gatewayAt(t), netip.AddrPortFrom(gatewayElsewhere[f], lab.WireGuardPort).String(); at != want {
			t.Errorf("the reference has the gateway at %s, want %s", at, want)
		}
		l.pingBothDirections(t)
	})
}

func TestNetns17_RepliesComeFromTheAddressCalled(t *testing.T) {
	t.Parallel()
	withEachFamily(t, func(t *testing.T, l *netnsLab, f int) {
		l.a.GW.IP(t, fmt.Sprintf("addr add %s/%d dev wan %s", gatewayElsewhere[f], [2]int{24, 64}[f], [2]string{"", "nodad"}[f]))
		answersFromTheCalledAddress(t, l, gatewayOuter[f], gatewayElsewhere[f], gatewayOuter[f])
	})
}

func TestNetns18_RepliesComeFromAnAddressOfAnotherInterface(t *testing.T) {
	t.Parallel()
	withEachFamily(t, func(t *testing.T, l *netnsLab, f int) {
		other := lab.Addrs("192.0.2.1", "2001:db8:2::1")[f]
		l.a.GW.IP(t, fmt.Sprintf("link add other type bridge\nlink set other up\naddr add %s/%d dev other %s", other, other.BitLen(), [2]string{"", "nodad"}[f]))
		l.net.IP(t, fmt.Sprintf("route add %s via %s", other, gatewayOuter[f]))
		answersFromTheCalledAddress(t, l, other)
	})
}

// withEachFamily runs a test in a lab for each outer family, in which the reference
// connects: wireguard-go sends its first packets over IPv6 after IPv4 to a wrong address.
func withEachFamily(t *testing.T, test func(t *testing.T, l *netnsLab, f int)) {
	withEachReference(t, func(t *testing.T, k kind) {
		for f, name := range []string{"IPv4", "IPv6"} {
			t.Run(name, func(t *testing.T) {
				test(t, joinNetns(t, k, netnsOptions{outer6: f == 1, referenceCalls: true}), f)
			})
		}
	})
}

// answersFromTheCalledAddress connects to several of the gateway's addresses in turn: it
// must answer from the same address, because a firewall or NAT on the path would block
// other replies.
func answersFromTheCalledAddress(t *testing.T, l *netnsLab, addresses ...netip.Addr) {
	t.Helper()
	for _, a := range addresses {
		called := netip.AddrPortFrom(a, lab.WireGuardPort).String()
		lab.Eventually(t, "the gateway answers from "+called+" when that address is used", func() bool {
			l.ref.peer(t, l.key.Public, "endpoint", called)
			lab.WaitForPing(t, l.ref.ns, l.a.Pod4)
			lab.WaitForPing(t, l.ref.ns, l.a.Pod6)
			return l.gatewayAt(t) == called // a probe from the previous address may have been in transit
		})
	}
}

func TestNetns19_ABetterRouteIsTaken(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		lab.Connect(t, l.a.GW, "wan2", l.net, "gw2")
		lab.LikeAWire(t, l.a.GW, "wan2")
		lab.LikeAWire(t, l.net, "gw2")
		second := lab.Addr("203.0.114.1")
		l.net.IP(t, "addr add 203.0.114.254/24 dev gw2")
		l.a.GW.IP(t, fmt.Sprintf("addr add %s/24 dev wan2\nroute add %s/32 via 203.0.114.254", second, referenceOuter[0]))
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
		l.pingBothDirections(t)
		if at, want := l.gatewayAt(t), netip.AddrPortFrom(second, lab.WireGuardPort).String(); at != want {
			t.Errorf("the reference has the gateway at %s, want %s", at, want)
		}

		// And back, when that link is cut.
		l.a.GW.IP(t, "link set wan2 down")
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[1]))
		l.pingBothDirections(t)
		if at, want := l.gatewayAt(t), netip.AddrPortFrom(gatewayOuter[0], lab.WireGuardPort).String(); at != want {
			t.Errorf("the reference has the gateway at %s, want %s", at, want)
		}
	})
}
