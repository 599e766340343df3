//go:build lab || nightly

package lab

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// The scenarios of the kernel's own WireGuard self-test (tools/testing/selftests/wireguard/netns.sh), under their numbers in
// the order in which it has them, with a gateway at one end. At the other is a plain WireGuard, the reference: wireguard-go,
// and the kernel's where there is one.
//
//	podA ───── nodeA ───── gwA ─────────── net ──────────── ref
//	10.0.1.5               203.0.113.1     203.0.113.254    198.51.100.2
//	                       2001:db8:113::1 198.51.100.254   2001:db8:100::2
//
// The reference has addresses of B's pod network, 10.0.2.9 and fd00:10:0:2::9. A's pod calls it 10.71.2.9 and
// fd00:71:0:2::9, as if it were a pod of B; it knows A's pod by its own address, since at its end nothing translates.

// netnsLab is the picture, running.
type netnsLab struct {
	a       *site
	net     *namespace // the internet between the gateway and the reference
	ref     *wireGuard
	gateway *gateway
	key     keyPair // the gateway's
	outer   int     // family of the outer addresses: 0 IPv4, 1 IPv6
}

type netnsOptions struct {
	outer6  bool
	linkMTU int // of all cables, in bytes; 0 is 1500
	// referenceCalls: the reference knows where the gateway is; otherwise the gateway knows where the reference is.
	referenceCalls bool
	// configure changes the gateway's configuration before it starts.
	configure func(c *gatewayConfig)
}

var (
	gatewayOuter   = addrs("203.0.113.1", "2001:db8:113::1")
	gatewayRouter  = addrs("203.0.113.254", "2001:db8:113::fe")
	referenceOuter = addrs("198.51.100.2", "2001:db8:100::2")
	referenceVia   = addrs("198.51.100.254", "2001:db8:100::fe")
	referenceInner = addrs("10.0.2.9", "fd00:10:0:2::9")
)

const (
	referencePort = 51820
	// wireGuardOverhead is what WireGuard adds to a packet at most, in bytes: outer IPv6 or IPv4, UDP, its own header and tag.
	wireGuardOverhead = 40 + 8 + 32
)

// withEachReference runs a scenario against wireguard-go and against the kernel's WireGuard.
func withEachReference(t *testing.T, scenario func(t *testing.T, k kind)) {
	t.Helper()
	if leftOut != "" {
		t.Skip(leftOut)
	}
	for _, k := range []kind{wireGuardGo, kernelWireGuard} {
		t.Run(string(k), func(t *testing.T) {
			k.need(t)
			scenario(t, k)
		})
	}
}

// joinNetns makes the picture and waits until a ping crosses both ways.
func joinNetns(t *testing.T, k kind, o netnsOptions) *netnsLab {
	t.Helper()
	l := buildNetns(t, k, o)
	waitForPing(t, l.ref.ns, l.a.pod4)
	waitForPing(t, l.a.pod, l.a.sees(referenceInner[1]))
	return l
}

// buildNetns makes the picture. No packet of a pod has crossed yet.
func buildNetns(t *testing.T, k kind, o netnsOptions) *netnsLab {
	t.Helper()
	if o.linkMTU == 0 {
		o.linkMTU = linkMTU
	}
	l := &netnsLab{key: newKeyPair(t)}
	if o.outer6 {
		l.outer = 1
	}
	end := l.wire(t, o.linkMTU)

	l.ref = startWireGuard(t, k, end, referencePort)
	end.ip(t, fmt.Sprintf(`
link set %[1]s mtu %[2]d
addr add %[3]s/32 dev %[1]s
addr add %[4]s/128 dev %[1]s nodad
route add 10.0.1.0/24 dev %[1]s src %[3]s
route add fd00:10:0:1::/64 dev %[1]s src %[4]s
route add 10.70.0.0/16 dev %[1]s src %[3]s
route add fd00:70::/48 dev %[1]s src %[4]s
`, l.ref.device, o.linkMTU-wireGuardOverhead, referenceInner[0], referenceInner[1]))
	// The gateway's probes come from a link-local address. The kernel's WireGuard does not count what it does not take.
	l.ref.peer(t, l.key.public, "allowed-ips", "10.0.1.0/24,fd00:10:0:1::/64,10.70.0.0/16,fd00:70::/48,fe80::/10")

	l.gateway = newGateway(t, l.a, &site{name: "b", endpoint: referenceOuter[l.outer]}, l.key, l.ref.key.public)
	c := &l.gateway.config
	c.PeerEndpoint = netip.AddrPortFrom(referenceOuter[l.outer], referencePort).String()
	if o.referenceCalls {
		c.PeerEndpoint = ""
	}
	if o.configure != nil {
		o.configure(c)
	}
	l.gateway.writeConfig(t)
	l.gateway.start(t)
	l.gateway.waitReady(t)
	if o.referenceCalls {
		l.ref.peer(t, l.key.public, "endpoint", netip.AddrPortFrom(gatewayOuter[l.outer], wireGuardPort).String())
	}
	return l
}

// wire lays the cables, and returns the reference's end.
func (l *netnsLab) wire(t *testing.T, mtu int) (end *namespace) {
	t.Helper()
	l.a = &site{
		name: "a", pod4: addr("10.0.1.5"), pod6: addr("fd00:10:0:1::5"),
		bridge4: addr("10.0.1.1"), bridge6: addr("fd00:10:0:1::1"), gw4: addr("10.0.1.2"), gw6: addr("fd00:10:0:1::2"),
		podNet4: netip.MustParsePrefix("10.0.1.0/24"), podNet6: netip.MustParsePrefix("fd00:10:0:1::/64"),
		remote: seenAs("10.71.0.0/16", "fd00:71::/48", "10.73.0.0/16", "fd00:73::/48"),
	}
	id := serial.Add(1)
	l.a.makeNamespaces(t, id)
	l.net = newNamespace(t, id, "net", map[string]string{"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1",
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0"})
	// No router solicitations and no multicast reports of its own: what the reference sends, it was asked to.
	end = newNamespace(t, id, "ref", map[string]string{"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
		"ipv6/conf/default/addr_gen_mode": "1", "ipv6/conf/default/router_solicitations": "0"})
	l.a.encapsulation = kernelEncapsulation(l.a.node)
	l.a.underlay = l.a.gw4
	l.a.joinPod(t)
	l.a.joinGateway(t, false)
	l.a.joinOverlay(t)

	connect(t, l.a.gw, "wan", l.net, "gw")
	connect(t, end, "wan", l.net, "ref")
	for _, side := range []struct {
		ns                 *namespace
		dev                string
		address, neighbour []netip.Addr
	}{{l.a.gw, "gw", gatewayOuter, gatewayRouter}, {end, "ref", referenceOuter, referenceVia}} {
		side.ns.ip(t, fmt.Sprintf(`
addr add %s/24 dev wan
addr add %s/64 dev wan nodad
route add default via %s
route add default via %s
`, side.address[0], side.address[1], side.neighbour[0], side.neighbour[1]))
		l.net.ip(t, fmt.Sprintf("addr add %s/24 dev %[3]s\naddr add %[2]s/64 dev %[3]s nodad", side.neighbour[0], side.neighbour[1], side.dev))
		likeAWire(t, side.ns, "wan")
		likeAWire(t, l.net, side.dev)
	}
	if mtu == linkMTU {
		return end
	}
	for _, link := range []struct {
		ns  *namespace
		dev string
		mtu int
	}{
		{l.a.pod, "eth0", mtu}, {l.a.node, "pod", mtu}, {l.a.node, "gw0", mtu}, {l.a.gw, "eth0", mtu}, {l.a.node, "strait0", mtu - 50},
		{l.a.gw, "wan", mtu}, {l.net, "gw", mtu}, {l.net, "ref", mtu}, {end, "wan", mtu},
	} {
		link.ns.ip(t, fmt.Sprintf("link set %s mtu %d", link.dev, link.mtu))
	}
	return end
}

// ways are those between A's pod and the reference, as if that were a pod of B.
func (l *netnsLab) ways() (ways []way) {
	b := &site{name: "b"}
	for f, pod := range []netip.Addr{l.a.pod4, l.a.pod6} {
		ref := referenceInner[f]
		ways = append(ways,
			way{from: l.a.pod, to: l.ref.ns, src: pod, srcSeen: pod, seen: l.a.sees(ref), real: ref, site: l.a, farSite: b},
			way{from: l.ref.ns, to: l.a.pod, src: ref, srcSeen: l.a.sees(ref), seen: pod, real: pod, site: b, farSite: l.a})
	}
	return ways
}

// pingBothWays expects an answer to every request.
func (l *netnsLab) pingBothWays(t *testing.T) {
	t.Helper()
	for _, w := range l.ways() {
		ping(t, w.from, w.seen, 3, "-i", "0.01")
	}
}

// gatewayAt is where the reference believes the gateway to be.
func (l *netnsLab) gatewayAt(t *testing.T) string {
	t.Helper()
	return l.ref.show(t, "endpoints", l.key.public)
}

// text is the configuration file of what is in l.gateway.config.
func (l *netnsLab) text(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	if err := configTemplate.Execute(&text, l.gateway.config); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// reconfigure applies what was changed of l.gateway.config.
func (l *netnsLab) reconfigure(t *testing.T) {
	t.Helper()
	l.apply(t, "ok", l.text(t))
}

// apply gives the gateway a configuration and waits for that result. The gateway watches the file too, so that the first reload
// may be one that began before: the second is of what is there now.
func (l *netnsLab) apply(t *testing.T, result, text string) {
	t.Helper()
	l.gateway.replaceConfigFile(t, text)
	for _, label := range [][]string{nil, {`result="` + result + `"`}} {
		before := l.gateway.metric(t, "strait_config_reloads_total", label...)
		l.gateway.signal(t, syscall.SIGHUP)
		eventually(t, "another reload, the second with result "+result, func() bool {
			return l.gateway.metric(t, "strait_config_reloads_total", label...) > before
		})
	}
}

// refuse gives the gateway a configuration that it does not take, and looks for the reason in its log.
func (l *netnsLab) refuse(t *testing.T, why, text string) {
	t.Helper()
	l.apply(t, "error", text)
	log, err := os.ReadFile(l.gateway.logFile())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, why) {
		t.Errorf("the gateway refused a configuration with %q, want %q", last, why)
	}
}

// peerEntry is an entry of wireguard.peers.
type peerEntry struct{ name, gateway, publicKey, privateKeyFile, endpoint string }

var peersOfConfig = regexp.MustCompile(`(?s)  peers:\n.*?\nlocal:`)

// withPeers is the gateway's configuration with these peers.
func (l *netnsLab) withPeers(t *testing.T, peers ...peerEntry) string {
	t.Helper()
	var entries strings.Builder
	for _, p := range peers {
		fmt.Fprintf(&entries, "  - {name: %q, gateway: %q, publicKey: %q, privateKeyFile: %q, endpoint: %q, persistentKeepalive: 1s}\n",
			p.name, p.gateway, p.publicKey, p.privateKeyFile, p.endpoint)
	}
	text := l.text(t)
	if !peersOfConfig.MatchString(text) {
		t.Fatalf("no peers to replace in:\n%s", text)
	}
	return peersOfConfig.ReplaceAllLiteralString(text, "  peers:\n"+entries.String()+"local:")
}

// setPeers applies a configuration with these peers.
func (l *netnsLab) setPeers(t *testing.T, peers ...peerEntry) {
	t.Helper()
	l.apply(t, "ok", l.withPeers(t, peers...))
}

// peer is the entry for the reference under a public key.
func (l *netnsLab) peer(name string, public []byte) peerEntry {
	return peerEntry{name: name, gateway: "b-0", publicKey: base64.StdEncoding.EncodeToString(public), endpoint: l.gateway.config.PeerEndpoint}
}

// secret writes a key where the gateway, which is nobody, may read it.
func (g *gateway) secret(t *testing.T, name, text string) (file string) {
	t.Helper()
	file = g.dir + "/" + name
	if err := os.WriteFile(file, []byte(text+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return file
}
