//go:build lab || nightly

package lab

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
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
	pod, outsider *namespace
	pod4, pod6    netip.Addr
	at            netip.AddrPort // gateway A's WireGuard endpoint for the outsider
	gatewayKey    []byte         // its public key
	key           keyPair        // of b-1
	peer          *wireGuardPeer // b-1
}

var (
	outsiderAddr = addr("198.51.100.2")
	nobodysAddr  = addr("192.0.2.99")
)

// hostileSetup is the settings that a test changes.
type hostileSetup struct {
	title     string
	configure func(s *site, c *gatewayConfig)
	more      string // of gateway A's configuration
}

// buildHostile builds the topology with attackers and watchers; no packet has crossed yet.
func buildHostile(t *testing.T, setup hostileSetup) *hostile {
	t.Helper()
	top := wire(t, options{})
	h := &hostile{t: t, title: setup.title, more: setup.more, top: top}
	h.attackers.key = newKeyPair(t)
	h.node = keepNode(t, top.a)
	h.joinAttackers(t)
	keys := [2]keyPair{newKeyPair(t), newKeyPair(t)}
	h.attackers.gatewayKey = keys[0].public
	for i, s := range []*site{top.a, top.b} {
		g := newGateway(t, s, top.other(s), keys[i], keys[1-i].public)
		s.gateway = g
		// Garbage that has not been collected is not a leak, but looks like one: by default
		// it may be as large as the heap, most of which is unused buffers of WireGuard.
		g.env = []string{"GOGC=2"}
		if s == top.a {
			g.config.Nodes = append(g.config.Nodes, nodeConfig{
				Name: "node-2", Underlay: addr("10.0.1.3"), Encapsulation: s.encapsulation, VNI: vni + 1,
				Addresses: addrs("10.80.0.12", "fd00:80::12"), ExternalAddresses: addrs("10.70.0.12", "fd00:70::12"),
				Prefixes: prefixes("10.0.3.0/24", "fd00:10:0:3::/64"),
			})
		}
		if setup.configure != nil {
			setup.configure(s, &g.config)
		}
		g.writeConfig(t)
		if s == top.a {
			h.extendConfig(t, g)
		}
		g.start(t)
	}
	top.a.gateway.waitReady(t)
	top.b.gateway.waitReady(t)
	h.watch = newWatch(t, top)
	h.watch.receive(t, nodeItself, top.a.node)
	return h
}

// extendConfig adds the second peer, and more, to gateway A's configuration.
func (h *hostile) extendConfig(t *testing.T, g *gateway) {
	t.Helper()
	text, err := os.ReadFile(g.configFile())
	if err != nil {
		t.Fatal(err)
	}
	second := fmt.Sprintf("  - name: b-1\n    publicKey: %q\nlocal:\n", base64.StdEncoding.EncodeToString(h.attackers.key.public))
	g.replaceConfigFile(t, strings.Replace(string(text), "local:\n", second, 1)+h.more)
}

// renumberSecondNode changes the VNI of node-2 while gateway A runs.
func (h *hostile) renumberSecondNode(t *testing.T, i int) {
	t.Helper()
	g := h.top.a.gateway
	g.config.Nodes[1].VNI = 200 + i
	g.writeConfig(t)
	h.extendConfig(t, g)
}

// joinAttackers connects the attacker pod and the outsider.
func (h *hostile) joinAttackers(t *testing.T) {
	t.Helper()
	e, a := &h.attackers, h.top.a
	e.pod4, e.pod6 = addr("10.0.1.66"), addr("fd00:10:0:1::66")
	e.at = netip.AddrPortFrom(addr("198.51.100.1"), wireGuardPort)
	host := map[string]string{"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0"}

	e.pod = newNamespace(t, "attacker", host)
	connect(t, e.pod, "eth0", a.node, "attacker")
	a.node.ip(t, fmt.Sprintf("addr add %[1]s/32 dev attacker\naddr add %[2]s/128 dev attacker nodad\nroute add %[3]s dev attacker\nroute add %[4]s dev attacker",
		a.bridge4, a.bridge6, e.pod4, e.pod6))
	e.pod.ip(t, fmt.Sprintf(`
addr add %[1]s/32 dev eth0
addr add %[2]s/128 dev eth0 nodad
route add %[3]s dev eth0
route add default via %[3]s dev eth0
route add %[4]s dev eth0
route add default via %[4]s dev eth0
`, e.pod4, e.pod6, a.bridge4, a.bridge6))

	e.outsider = newNamespace(t, "outsider", host)
	connect(t, e.outsider, "eth0", a.gw, "wan2")
	a.gw.ip(t, fmt.Sprintf("addr add %s/30 dev wan2\nroute add 198.51.100.0/24 via %s", e.at.Addr(), outsiderAddr))
	e.outsider.ip(t, fmt.Sprintf("addr add %s/30 dev eth0", outsiderAddr))
	likeAWire(t, e.outsider, "eth0")
}

// No forbidden packet passes, and every drop has its reason.
func TestT1_T2_T3_HostilePacketsAreDroppedByReason(t *testing.T) {
	t.Parallel()
	h := buildHostile(t, hostileSetup{title: "While nothing else crosses"})
	h.awaitTraffic(t)
	h.expectWatchersSee(t)
	h.all(t, slices.Concat(h.forgedFrames(), h.spoofedSources(), h.outsideTheGrant()))
	ping(t, h.top.a.pod, h.top.a.sees(h.top.b.pod4), 3)
}

// awaitTraffic waits until all valid traffic crosses.
func (h *hostile) awaitTraffic(t *testing.T) {
	t.Helper()
	waitForPing(t, h.top.a.pod, h.top.a.sees(h.top.b.pod4))
	waitForPing(t, h.top.b.pod, h.top.b.sees(h.top.a.pod6))
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
	return udpTo(netip.AddrPortFrom(peerPod4, 9), netip.AddrPortFrom(h.top.a.pod4, 9), payload)
}

// expectWatchersSee sends marked packets that may cross, in all directions: it proves that
// the watchers work.
func (h *hostile) expectWatchersSee(t *testing.T) {
	t.Helper()
	h.attacks++
	n, top := h.attacks, h.top
	far := netip.AddrPortFrom(top.a.sees(top.b.pod4), 9)
	fromPod := h.attackers.pod.fromAnywhere(t, far.Addr())
	bridge := netip.AddrPortFrom(top.a.bridge4, 9)
	toNode := h.attackers.pod.fromAnywhere(t, bridge.Addr())
	want := []string{"gateway b to its node", "pod b", toNodeA, "pod a", nodeItself}
	eventually(t, "the watchers see packets that may cross", func() bool {
		fromPod(udpTo(netip.AddrPortFrom(h.attackers.pod4, 9), far, marked(n, 32)))
		h.attackers.peer.send(h.fromPeer(marked(n, 32)))
		toNode(udpTo(netip.AddrPortFrom(h.attackers.pod4, 9), bridge, marked(n, 32)))
		_, where := h.watch.count(n, "")
		for _, point := range want {
			if !strings.Contains(where, point) {
				return false
			}
		}
		return true
	})
}
