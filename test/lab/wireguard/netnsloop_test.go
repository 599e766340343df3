//go:build lab || nightly

package wireguard

import (
	"fmt"
	"net/netip"
	"testing"

	"strait.dev/strait/test/lab"
)

// The scenarios in which packets of WireGuard go through a tunnel themselves, intentionally
// or in a loop.

// grantTheReferencesNetwork permits packets for the reference itself in the tunnel.
func grantTheReferencesNetwork(c *lab.GatewayConfig) {
	network := netip.MustParsePrefix("198.51.100.0/24")
	c.Remote = append(c.Remote[:len(c.Remote):len(c.Remote)], lab.RemotePrefix{CIDR: network, SeenAs: network})
}

// loop adds or deletes the routes that send the gateway's own datagrams through the node
// and back to the gateway.
func (l *netnsLab) loop(t *testing.T, action string) {
	t.Helper()
	l.a.Node.IP(t, fmt.Sprintf("route %s %s via %s dev strait0", action, referenceOuter[0], lab.GatewayInternal[0]))
	l.a.GW.IP(t, fmt.Sprintf("route %s %s via %s dev eth0 src %s", action, referenceOuter[0], l.a.Bridge4, l.a.GW4))
}

// The gateway's datagrams cross another WireGuard in transit. Then that one's datagrams
// cross the gateway: a loop.
func TestNetns13_OnionRoutingWorksAndALoopedOnionDoesNoHarm(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		inside := lab.Addrs("192.168.241.1", "192.168.241.2")
		l := buildNetns(t, k, netnsOptions{configure: func(c *lab.GatewayConfig) {
			grantTheReferencesNetwork(c)
			c.PeerEndpoint = netip.AddrPortFrom(inside[1], referencePort).String()
			c.MTU = lab.LinkMTU - 2*wireGuardOverhead
		}})
		const port = 51821
		ends := [2]*wireGuard{startWireGuard(t, k, l.a.GW, port), startWireGuard(t, k, l.ref.ns, port)}
		for i, end := range ends {
			end.ns.IP(t, fmt.Sprintf("link set %[1]s mtu %[2]d\naddr add %[3]s/24 dev %[1]s", end.device, lab.LinkMTU-wireGuardOverhead, inside[i]))
		}
		// The gateway's packets start a handshake as soon as they are allowed. Without an endpoint it fails and is
		// repeated after 5 s; meanwhile the gateway tries other source ports.
		ends[1].peer(t, ends[0].key.Public, "allowed-ips", inside[0].String()+"/32")
		ends[0].peer(t, ends[1].key.Public, "endpoint", netip.AddrPortFrom(referenceOuter[0], port).String(), "allowed-ips", inside[1].String()+"/32")
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
		l.pingBothDirections(t)
		// At any port: a gateway that gets no answer, for as long as the other WireGuard takes to start, tries others.
		if at, err := netip.ParseAddrPort(l.gatewayAt(t)); err != nil || at.Addr() != inside[0] {
			t.Errorf("the reference has the gateway at %v (%v), want %v, inside the other WireGuard", at, err, inside[0])
		}

		l.loop(t, "add")
		if out, err := l.a.Pod.Try("ping", "-n", "-c", "3", "-i", "0.2", "-W", "1", l.a.Sees(referenceInner[0]).String()); err == nil {
			t.Errorf("a ping was answered although the tunnels' packets loop:\n%s", out)
		}
		l.loop(t, "del")
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
		l.pingBothDirections(t)
	})
}
