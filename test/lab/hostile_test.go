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

// The picture under attack has these besides:
//
//	evil pod ── nodeA    10.0.1.66, beside the pod whose transfer is to go on
//	stranger ── gwA      198.51.100.2, and any other address of 198.51.100.0/24 that it likes;
//	                     also the seat of b-1, a second peer with a valid key
//	node-2               10.0.3.0/24, in gateway A's configuration only

// evil is who attacks.
type evil struct {
	pod, stranger *namespace
	pod4, pod6    netip.Addr
	at            netip.AddrPort // gateway A's WireGuard, as the stranger knows it
	gatewayKey    []byte         // its public key
	key           keyPair        // of b-1
	peer          *wireGuardPeer // b-1
}

var (
	strangerAddr = addr("198.51.100.2")
	nobodysAddr  = addr("192.0.2.99")
)

// hostileSetup is what a test wants to have otherwise.
type hostileSetup struct {
	title     string
	configure func(s *site, c *gatewayConfig)
	more      string // of gateway A's configuration
}

// buildHostile makes the picture with attackers and watchers in place; nothing crosses yet.
func buildHostile(t *testing.T, setup hostileSetup) *hostile {
	t.Helper()
	top := wire(t, options{})
	h := &hostile{t: t, title: setup.title, more: setup.more, top: top}
	h.evil.key = newKeyPair(t)
	h.joinAttackers(t)
	keys := [2]keyPair{newKeyPair(t), newKeyPair(t)}
	h.evil.gatewayKey = keys[0].public
	for i, s := range []*site{top.a, top.b} {
		g := newGateway(t, s, top.other(s), keys[i], keys[1-i].public)
		s.gateway = g
		// Garbage that waits to be collected is no leak, but looks like one: by default it may be as much as the heap, most
		// of which is buffers of WireGuard's that were never touched.
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
	return h
}

// extendConfig gives gateway A its second peer, and more.
func (h *hostile) extendConfig(t *testing.T, g *gateway) {
	t.Helper()
	text, err := os.ReadFile(g.configFile())
	if err != nil {
		t.Fatal(err)
	}
	second := fmt.Sprintf("  - name: b-1\n    publicKey: %q\nlocal:\n", base64.StdEncoding.EncodeToString(h.evil.key.public))
	g.replaceConfigFile(t, strings.Replace(string(text), "local:\n", second, 1)+h.more)
}

// renumberSecondNode gives node-2 another VNI while gateway A runs.
func (h *hostile) renumberSecondNode(t *testing.T, i int) {
	t.Helper()
	g := h.top.a.gateway
	g.config.Nodes[1].VNI = 200 + i
	g.writeConfig(t)
	h.extendConfig(t, g)
}

// joinAttackers lays the cables to evil pod and stranger.
func (h *hostile) joinAttackers(t *testing.T) {
	t.Helper()
	e, a, id := &h.evil, h.top.a, serial.Add(1)
	e.pod4, e.pod6 = addr("10.0.1.66"), addr("fd00:10:0:1::66")
	e.at = netip.AddrPortFrom(addr("198.51.100.1"), wireGuardPort)
	host := map[string]string{"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0"}

	e.pod = newNamespace(t, id, "evil", host)
	connect(t, e.pod, "eth0", a.node, "evil")
	a.node.ip(t, fmt.Sprintf("addr add %[1]s/32 dev evil\naddr add %[2]s/128 dev evil nodad\nroute add %[3]s dev evil\nroute add %[4]s dev evil",
		a.bridge4, a.bridge6, e.pod4, e.pod6))
	e.pod.ip(t, fmt.Sprintf(`
addr add %[1]s/32 dev eth0
addr add %[2]s/128 dev eth0 nodad
route add %[3]s dev eth0
route add default via %[3]s dev eth0
route add %[4]s dev eth0
route add default via %[4]s dev eth0
`, e.pod4, e.pod6, a.bridge4, a.bridge6))

	e.stranger = newNamespace(t, id, "stranger", host)
	connect(t, e.stranger, "eth0", a.gw, "wan2")
	a.gw.ip(t, fmt.Sprintf("addr add %s/30 dev wan2\nroute add 198.51.100.0/24 via %s", e.at.Addr(), strangerAddr))
	e.stranger.ip(t, fmt.Sprintf("addr add %s/30 dev eth0", strangerAddr))
	likeAWire(t, e.stranger, "eth0")
}

// Nothing passes that must not, and every drop has its reason.
func TestT1_T2_T3_HostilePacketsAreDroppedByReason(t *testing.T) {
	t.Parallel()
	h := buildHostile(t, hostileSetup{title: "While nothing else crosses"})
	h.awaitWays(t)
	h.expectWatchersSee(t)
	h.all(t, slices.Concat(h.forgedFrames(), h.spoofedSources(), h.outsideTheGrant()))
	ping(t, h.top.a.pod, h.top.a.sees(h.top.b.pod4), 3)
}

// awaitWays waits until all who talk can.
func (h *hostile) awaitWays(t *testing.T) {
	t.Helper()
	waitForPing(t, h.top.a.pod, h.top.a.sees(h.top.b.pod4))
	waitForPing(t, h.top.b.pod, h.top.b.sees(h.top.a.pod6))
	h.startPeer(t)
}

// startPeer makes the stranger a peer of gateway A.
func (h *hostile) startPeer(t *testing.T) {
	t.Helper()
	e := &h.evil
	e.peer = newWireGuardPeer(h.t, e.stranger, e.key, e.gatewayKey, e.at)
	e.peer.handshake(t, h.fromPeer(nil))
}

// fromPeer is a packet that b-1 may send: from a pod of B that is not there, to the pod of A.
func (h *hostile) fromPeer(payload []byte) []byte {
	return udpTo(netip.AddrPortFrom(peerPod4, 9), netip.AddrPortFrom(h.top.a.pod4, 9), payload)
}

// expectWatchersSee sends marked packets that may cross, all ways: a watcher that is blind would find no fault.
func (h *hostile) expectWatchersSee(t *testing.T) {
	t.Helper()
	h.attacks++
	n, top := h.attacks, h.top
	far := netip.AddrPortFrom(top.a.sees(top.b.pod4), 9)
	fromPod := h.evil.pod.fromAnywhere(t, far.Addr())
	want := []string{"gateway b to its node", "pod b", "gateway a to its node", "pod a"}
	eventually(t, "the watchers see packets that may cross", func() bool {
		fromPod(udpTo(netip.AddrPortFrom(h.evil.pod4, 9), far, marked(n, 32)))
		h.evil.peer.send(h.fromPeer(marked(n, 32)))
		_, where := h.watch.count(n)
		for _, place := range want {
			if !strings.Contains(where, place) {
				return false
			}
		}
		return true
	})
}
