//go:build lab || nightly

package wireguard

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/test/lab"
)

// The scenarios of the kernel's WireGuard self-test
// (tools/testing/selftests/wireguard/netns.sh), by their numbers and in their order, with a
// gateway at one end. At the other end is a plain WireGuard, the reference: wireguard-go,
// and the kernel's if available.
//
//	podA ───── nodeA ───── gwA ─────────── net ──────────── ref
//	10.0.1.5               203.0.113.1     203.0.113.254    198.51.100.2
//	                       2001:db8:113::1 198.51.100.254   2001:db8:100::2
//
// The reference has addresses of B's pod network, 10.0.2.9 and fd00:10:0:2::9. A's pod
// reaches it at 10.71.2.9 and fd00:71:0:2::9, as if it were a pod of B; the reference
// reaches A's pod at its real address, because nothing translates at that end.

// netnsLab is the running topology.
type netnsLab struct {
	a       *lab.Site
	net     *lab.Namespace // the network between the gateway and the reference
	ref     *wireGuard
	gateway *lab.Gateway
	key     lab.KeyPair // of the gateway
	outer   int         // family of the outer addresses: 0 IPv4, 1 IPv6
}

type netnsOptions struct {
	outer6  bool
	linkMTU int // of all links, in bytes; 0 is 1500
	// referenceCalls: the reference has the gateway's endpoint; otherwise the gateway has
	// the reference's.
	referenceCalls bool
	// configure changes the gateway's configuration before it starts.
	configure func(c *lab.GatewayConfig)
}

var (
	gatewayOuter   = lab.Addrs("203.0.113.1", "2001:db8:113::1")
	gatewayRouter  = lab.Addrs("203.0.113.254", "2001:db8:113::fe")
	referenceOuter = lab.Addrs("198.51.100.2", "2001:db8:100::2")
	referenceVia   = lab.Addrs("198.51.100.254", "2001:db8:100::fe")
	referenceInner = lab.Addrs("10.0.2.9", "fd00:10:0:2::9")
)

const (
	referencePort = 51820
	// wireGuardOverhead is the most that WireGuard adds to a packet, in bytes: outer IPv6
	// or IPv4, UDP, its header and tag.
	wireGuardOverhead = 40 + 8 + 32
)

// withEachReference runs a scenario against wireguard-go and against the kernel's WireGuard.
func withEachReference(t *testing.T, scenario func(t *testing.T, k kind)) {
	t.Helper()
	lab.Need(t)
	for _, k := range []kind{wireGuardGo, kernelWireGuard} {
		t.Run(string(k), func(t *testing.T) {
			k.need(t)
			scenario(t, k)
		})
	}
}

// joinNetns builds the topology and waits until a ping crosses in both directions.
func joinNetns(t *testing.T, k kind, o netnsOptions) *netnsLab {
	t.Helper()
	l := buildNetns(t, k, o)
	lab.WaitForPing(t, l.ref.ns, l.a.Pod4)
	lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[1]))
	return l
}

// buildNetns builds the topology. No packet of a pod has crossed yet.
func buildNetns(t *testing.T, k kind, o netnsOptions) *netnsLab {
	t.Helper()
	if o.linkMTU == 0 {
		o.linkMTU = lab.LinkMTU
	}
	l := &netnsLab{key: lab.NewKeyPair(t)}
	if o.outer6 {
		l.outer = 1
	}
	end := l.wire(t, o.linkMTU)

	l.ref = startWireGuard(t, k, end, referencePort)
	end.IP(t, fmt.Sprintf(`
link set %[1]s mtu %[2]d
addr add %[3]s/32 dev %[1]s
addr add %[4]s/128 dev %[1]s nodad
route add 10.0.1.0/24 dev %[1]s src %[3]s
route add fd00:10:0:1::/64 dev %[1]s src %[4]s
route add 10.70.0.0/16 dev %[1]s src %[3]s
route add fd00:70::/48 dev %[1]s src %[4]s
`, l.ref.device, o.linkMTU-wireGuardOverhead, referenceInner[0], referenceInner[1]))
	// The gateway's probes have a link-local source. The kernel's WireGuard does not count
	// packets that it rejects.
	l.ref.peer(t, l.key.Public, "allowed-ips", "10.0.1.0/24,fd00:10:0:1::/64,10.70.0.0/16,fd00:70::/48,fe80::/10")

	l.gateway = lab.NewGateway(t, l.a, &lab.Site{Name: "b", Endpoint: referenceOuter[l.outer]}, l.key, l.ref.key.Public)
	c := &l.gateway.Config
	c.PeerEndpoint = netip.AddrPortFrom(referenceOuter[l.outer], referencePort).String()
	if o.referenceCalls {
		c.PeerEndpoint = ""
	}
	if o.configure != nil {
		o.configure(c)
	}
	l.gateway.WriteConfig(t)
	l.gateway.Start(t)
	l.gateway.WaitReady(t)
	if o.referenceCalls {
		l.ref.peer(t, l.key.Public, "endpoint", netip.AddrPortFrom(gatewayOuter[l.outer], lab.WireGuardPort).String())
	}
	return l
}

// wire creates the links, and returns the reference's end.
func (l *netnsLab) wire(t *testing.T, mtu int) (end *lab.Namespace) {
	t.Helper()
	l.a = &lab.Site{
		Name: "a", Pod4: lab.Addr("10.0.1.5"), Pod6: lab.Addr("fd00:10:0:1::5"),
		Bridge4: lab.Addr("10.0.1.1"), Bridge6: lab.Addr("fd00:10:0:1::1"), GW4: lab.Addr("10.0.1.2"), GW6: lab.Addr("fd00:10:0:1::2"),
		PodNet4: netip.MustParsePrefix("10.0.1.0/24"), PodNet6: netip.MustParsePrefix("fd00:10:0:1::/64"),
		Remote: lab.SeenAs("10.71.0.0/16", "fd00:71::/48", "10.73.0.0/16", "fd00:73::/48"),
	}
	l.a.MakeNamespaces(t)
	l.net = lab.NewNamespace(t, "net", map[string]string{"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1",
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0"})
	// No router solicitations or multicast reports: the reference sends only what the test
	// requests.
	end = lab.NewNamespace(t, "ref", map[string]string{"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
		"ipv6/conf/default/addr_gen_mode": "1", "ipv6/conf/default/router_solicitations": "0"})
	l.a.Encapsulation = l.a.Node.Encapsulation()
	l.a.Underlay = l.a.GW4
	l.a.JoinPod(t)
	l.a.JoinGateway(t, false)
	l.a.JoinOverlay(t)

	lab.Connect(t, l.a.GW, "wan", l.net, "gw")
	lab.Connect(t, end, "wan", l.net, "ref")
	for _, side := range []struct {
		ns                 *lab.Namespace
		dev                string
		address, neighbour []netip.Addr
	}{{l.a.GW, "gw", gatewayOuter, gatewayRouter}, {end, "ref", referenceOuter, referenceVia}} {
		side.ns.IP(t, fmt.Sprintf(`
addr add %s/24 dev wan
addr add %s/64 dev wan nodad
route add default via %s
route add default via %s
`, side.address[0], side.address[1], side.neighbour[0], side.neighbour[1]))
		l.net.IP(t, fmt.Sprintf("addr add %s/24 dev %[3]s\naddr add %[2]s/64 dev %[3]s nodad", side.neighbour[0], side.neighbour[1], side.dev))
		lab.LikeAWire(t, side.ns, "wan")
		lab.LikeAWire(t, l.net, side.dev)
	}
	if mtu == lab.LinkMTU {
		return end
	}
	for _, link := range []struct {
		ns  *lab.Namespace
		dev string
		mtu int
	}{
		{l.a.Pod, "eth0", mtu}, {l.a.Node, "pod", mtu}, {l.a.Node, "gw0", mtu}, {l.a.GW, "eth0", mtu}, {l.a.Node, "strait0", mtu - 50},
		{l.a.GW, "wan", mtu}, {l.net, "gw", mtu}, {l.net, "ref", mtu}, {end, "wan", mtu},
	} {
		link.ns.IP(t, fmt.Sprintf("link set %s mtu %d", link.dev, link.mtu))
	}
	return end
}

// directions returns those between A's pod and the reference, as if that were a pod of B.
func (l *netnsLab) directions() (directions []lab.Direction) {
	b := &lab.Site{Name: "b"}
	for f, pod := range []netip.Addr{l.a.Pod4, l.a.Pod6} {
		ref := referenceInner[f]
		directions = append(directions,
			lab.Direction{From: l.a.Pod, To: l.ref.ns, Src: pod, SrcSeen: pod, Seen: l.a.Sees(ref), Real: ref, Site: l.a, FarSite: b},
			lab.Direction{From: l.ref.ns, To: l.a.Pod, Src: ref, SrcSeen: l.a.Sees(ref), Seen: pod, Real: pod, Site: b, FarSite: l.a})
	}
	return directions
}

// pingBothDirections expects a reply to every request.
func (l *netnsLab) pingBothDirections(t *testing.T) {
	t.Helper()
	for _, w := range l.directions() {
		lab.Ping(t, w.From, w.Seen, 3, "-i", "0.01")
	}
}

// gatewayAt returns the reference's endpoint of the gateway.
func (l *netnsLab) gatewayAt(t *testing.T) string {
	t.Helper()
	return l.ref.show(t, "endpoints", l.key.Public)
}

// text returns the configuration file of l.gateway.config.
func (l *netnsLab) text(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	if err := lab.ConfigTemplate.Execute(&text, l.gateway.Config); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// reconfigure applies changes of l.gateway.config.
func (l *netnsLab) reconfigure(t *testing.T) {
	t.Helper()
	l.apply(t, "ok", l.text(t))
}

// apply writes a configuration and waits for that result. The gateway also watches the
// file, so the first reload may have begun before: the second one reads the current
// content.
func (l *netnsLab) apply(t *testing.T, result, text string) {
	t.Helper()
	l.gateway.ReplaceConfigFile(t, text)
	for _, label := range [][]string{nil, {`result="` + result + `"`}} {
		before := l.gateway.Metric(t, "strait_config_reloads_total", label...)
		l.gateway.Signal(t, syscall.SIGHUP)
		lab.Eventually(t, "another reload, the second with result "+result, func() bool {
			return l.gateway.Metric(t, "strait_config_reloads_total", label...) > before
		})
	}
}

// refuse writes an invalid configuration, and checks the reason in the gateway's log.
func (l *netnsLab) refuse(t *testing.T, why, text string) {
	t.Helper()
	before := l.gateway.Logged(why)
	l.apply(t, "error", text)
	lab.Eventually(t, fmt.Sprintf("the gateway refuses a configuration with %q", why), func() bool { return l.gateway.Logged(why) > before })
}

// peerEntry is an entry of wireguard.peers.
type peerEntry struct{ name, gateway, publicKey, privateKeyFile, endpoint string }

var peersOfConfig = regexp.MustCompile(`(?s)  peers:\n.*?\nlocal:`)

// withPeers returns the gateway's configuration with these peers.
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

// peer returns the entry for the reference with a public key.
func (l *netnsLab) peer(name string, public []byte) peerEntry {
	return peerEntry{name: name, gateway: "b-0", publicKey: base64.StdEncoding.EncodeToString(public), endpoint: l.gateway.Config.PeerEndpoint}
}

// secret writes a key to a file that the gateway, which runs as user nobody, can read.
func secret(t *testing.T, g *lab.Gateway, name, text string) (file string) {
	t.Helper()
	file = g.Dir + "/" + name
	if err := os.WriteFile(file, []byte(text+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, lab.Unprivileged, lab.Unprivileged); err != nil {
		t.Fatal(err)
	}
	return file
}

// A plain WireGuard answers no link probes, and its link carries traffic all the same.
func TestAPlainWireGuardPeerCountsAsALinkThatIsUp(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := buildNetns(t, k, netnsOptions{})
		told := lab.ProberOf(t, l.a)
		lab.WaitForPing(t, l.a.Pod, l.a.Sees(referenceInner[0]))
		told(nodeprobe.LinksUp, lab.GatewayInternal[0])
	})
}
