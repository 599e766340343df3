//go:build lab || nightly

package hostile

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/test/lab"
)

// The topology under attack has these additions:
//
//	attacker pod ── nodeA    10.0.1.66, next to the pod whose transfer must continue
//	nodeA                    configured by package node, as the node helper does it
//	outsider ── gwA          198.51.100.2, and any other address of 198.51.100.0/24;
//	                         also the location of b-1, a second peer with a valid key
//	node-2                   10.0.3.0/24, in gateway A's configuration only

// attackers are the sources of attacks.
type attackers struct {
	pod, outsider *lab.Namespace
	pod4, pod6    netip.Addr
	at            netip.AddrPort // gateway A's WireGuard endpoint for the outsider
	gatewayKey    []byte         // its public key
	key           lab.KeyPair    // of b-1
	peer          *wireGuardPeer // b-1
}

var (
	outsiderAddr = lab.Addr("198.51.100.2")
	nobodysAddr  = lab.Addr("192.0.2.99")
)

// hostileSetup is the settings that a test changes.
type hostileSetup struct {
	title     string
	configure func(s *lab.Site, c *lab.GatewayConfig)
	more      string // of gateway A's configuration
}

// buildHostile builds the topology with attackers and watchers; no packet has crossed yet.
func buildHostile(t *testing.T, setup hostileSetup) *hostile {
	t.Helper()
	top := lab.Wire(t, lab.Options{})
	h := &hostile{t: t, title: setup.title, more: setup.more, top: top}
	h.attackers.key = lab.NewKeyPair(t)
	h.node = keepNode(t, top.A)
	h.joinAttackers(t)
	keys := [2]lab.KeyPair{lab.NewKeyPair(t), lab.NewKeyPair(t)}
	h.attackers.gatewayKey = keys[0].Public
	for i, s := range []*lab.Site{top.A, top.B} {
		g := lab.NewGateway(t, s, top.Other(s), keys[i], keys[1-i].Public)
		s.Gateway = g
		// Garbage that has not been collected is not a leak, but looks like one: by default
		// it may be as large as the heap, most of which is unused buffers of WireGuard.
		g.Env = []string{"GOGC=2"}
		if s == top.A {
			g.Config.Nodes = append(g.Config.Nodes, lab.NodeConfig{
				Name: "node-2", Underlay: lab.Addr("10.0.1.3"), Encapsulation: s.Encapsulation, VNI: lab.VNI + 1,
				Addresses: lab.Addrs("10.80.0.12", "fd00:80::12"), ExternalAddresses: lab.Addrs("10.70.0.12", "fd00:70::12"),
				Prefixes: lab.Prefixes("10.0.3.0/24", "fd00:10:0:3::/64"),
			})
		}
		if setup.configure != nil {
			setup.configure(s, &g.Config)
		}
		g.WriteConfig(t)
		if s == top.A {
			h.extendConfig(t, g)
		}
		g.Start(t)
	}
	top.A.Gateway.WaitReady(t)
	top.B.Gateway.WaitReady(t)
	h.watch = newWatch(t, top)
	h.watch.receive(t, nodeItself, top.A.Node)
	return h
}

// extendConfig adds the second peer, and more, to gateway A's configuration.
func (h *hostile) extendConfig(t *testing.T, g *lab.Gateway) {
	t.Helper()
	text, err := os.ReadFile(g.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	second := fmt.Sprintf("  - name: b-1\n    publicKey: %q\nlocal:\n", base64.StdEncoding.EncodeToString(h.attackers.key.Public))
	g.ReplaceConfigFile(t, strings.Replace(string(text), "local:\n", second, 1)+h.more)
}

// renumberSecondNode changes the VNI of node-2 while gateway A runs.
func (h *hostile) renumberSecondNode(t *testing.T, i int) {
	t.Helper()
	g := h.top.A.Gateway
	g.Config.Nodes[1].VNI = 200 + i
	g.WriteConfig(t)
	h.extendConfig(t, g)
}

// joinAttackers connects the attacker pod and the outsider.
func (h *hostile) joinAttackers(t *testing.T) {
	t.Helper()
	e, a := &h.attackers, h.top.A
	e.pod4, e.pod6 = lab.Addr("10.0.1.66"), lab.Addr("fd00:10:0:1::66")
	e.at = netip.AddrPortFrom(lab.Addr("198.51.100.1"), lab.WireGuardPort)
	host := map[string]string{"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0"}

	e.pod = lab.NewNamespace(t, "attacker", host)
	lab.Connect(t, e.pod, "eth0", a.Node, "attacker")
	a.Node.IP(t, fmt.Sprintf("addr add %[1]s/32 dev attacker\naddr add %[2]s/128 dev attacker nodad\nroute add %[3]s dev attacker\nroute add %[4]s dev attacker",
		a.Bridge4, a.Bridge6, e.pod4, e.pod6))
	e.pod.IP(t, fmt.Sprintf(`
addr add %[1]s/32 dev eth0
addr add %[2]s/128 dev eth0 nodad
route add %[3]s dev eth0
route add default via %[3]s dev eth0
route add %[4]s dev eth0
route add default via %[4]s dev eth0
`, e.pod4, e.pod6, a.Bridge4, a.Bridge6))

	e.outsider = lab.NewNamespace(t, "outsider", host)
	lab.Connect(t, e.outsider, "eth0", a.GW, "wan2")
	a.GW.IP(t, fmt.Sprintf("addr add %s/30 dev wan2\nroute add 198.51.100.0/24 via %s", e.at.Addr(), outsiderAddr))
	e.outsider.IP(t, fmt.Sprintf("addr add %s/30 dev eth0", outsiderAddr))
	lab.LikeAWire(t, e.outsider, "eth0")
}

// No forbidden packet passes, and every drop has its reason.
func TestT1_T2_T3_HostilePacketsAreDroppedByReason(t *testing.T) {
	t.Parallel()
	h := buildHostile(t, hostileSetup{title: "While nothing else crosses"})
	h.awaitTraffic(t)
	h.expectWatchersSee(t)
	h.all(t, slices.Concat(h.forgedFrames(), h.spoofedSources(), h.outsideTheGrant()))
	lab.Ping(t, h.top.A.Pod, h.top.A.Sees(h.top.B.Pod4), 3)
}

// awaitTraffic waits until all valid traffic crosses.
func (h *hostile) awaitTraffic(t *testing.T) {
	t.Helper()
	lab.WaitForPing(t, h.top.A.Pod, h.top.A.Sees(h.top.B.Pod4))
	lab.WaitForPing(t, h.top.B.Pod, h.top.B.Sees(h.top.A.Pod6))
	h.startPeer(t)
}

// startPeer makes the outsider a peer of gateway A.
func (h *hostile) startPeer(t *testing.T) {
	t.Helper()
	e := &h.attackers
	e.peer = newWireGuardPeer(h.t, e.outsider, e.key, e.gatewayKey, e.at)
	e.peer.handshake(t, h.fromPeer(nil))
}

// fromPeer returns a packet that b-1 may send: from a missing pod of B to the pod of A.
func (h *hostile) fromPeer(payload []byte) []byte {
	return lab.UDPTo(netip.AddrPortFrom(peerPod4, 9), netip.AddrPortFrom(h.top.A.Pod4, 9), payload)
}

// expectWatchersSee sends marked packets that may cross, in all directions: it proves that
// the watchers work.
func (h *hostile) expectWatchersSee(t *testing.T) {
	t.Helper()
	h.attacks++
	n, top := h.attacks, h.top
	far := netip.AddrPortFrom(top.A.Sees(top.B.Pod4), 9)
	fromPod := fromAnywhere(t, h.attackers.pod, far.Addr())
	bridge := netip.AddrPortFrom(top.A.Bridge4, 9)
	toNode := fromAnywhere(t, h.attackers.pod, bridge.Addr())
	want := []string{"gateway b to its node", "pod b", toNodeA, "pod a", nodeItself}
	lab.Eventually(t, "the watchers see packets that may cross", func() bool {
		fromPod(lab.UDPTo(netip.AddrPortFrom(h.attackers.pod4, 9), far, marked(n, 32)))
		h.attackers.peer.send(h.fromPeer(marked(n, 32)))
		toNode(lab.UDPTo(netip.AddrPortFrom(h.attackers.pod4, 9), bridge, marked(n, 32)))
		_, where := h.watch.count(n, "")
		for _, point := range want {
			if !strings.Contains(where, point) {
				return false
			}
		}
		return true
	})
}
