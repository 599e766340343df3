//go:build lab || nightly

package wireguard

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"strait.dev/strait/test/lab"
)

// The scenarios about the content of a configuration, and about leftovers after its
// removal.

func TestNetns20_ALargeConfigurationIsExact(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		routes := func() int { return int(l.gateway.Metric(t, "strait_routes")) }
		node, before := &l.gateway.Config.Nodes[0], routes()
		few := node.Prefixes
		var many []netip.Prefix
		for a := range 255 {
			for b := range 256 {
				many = append(many,
					netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 + byte(a)/16, byte(a)<<4 | byte(b)>>4, byte(b) << 4}), 28),
					netip.MustParsePrefix(fmt.Sprintf("fd01:%x:%x::/48", a, b)))
			}
		}
		node.Prefixes = append(many, few...)
		l.reconfigure(t)
		if got, want := routes(), before+2*255*256; got != want {
			t.Errorf("the gateway has %d routes, want %d", got, want)
		}
		l.pingBothDirections(t)
		node.Prefixes = few
		l.reconfigure(t)
		if got := routes(); got != before {
			t.Errorf("the gateway has %d routes after most were removed, want %d", got, before)
		}

		// Many peers, each with many prefixes, then fewer peers, and then one.
		c := &l.gateway.Config
		own := c.Remote
		for i := range 52 {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i), 0, 0}), 16)
			c.Remote = append(c.Remote[:len(own)+i:len(own)+i], lab.RemotePrefix{CIDR: p, SeenAs: p})
		}
		peers := []peerEntry{l.peer("b-0", l.ref.key.Public)}
		for i := range 39 {
			p := l.peer(fmt.Sprint("b-", i+1), lab.NewKeyPair(t).Public)
			p.gateway, p.endpoint = p.name, ""
			peers = append(peers, p)
		}
		for _, n := range []int{40, 30, 1} {
			l.setPeers(t, peers[:n]...)
			if got := links(t, l.gateway); got != n {
				t.Errorf("the gateway has %d links, want %d", got, n)
			}
			l.pingBothDirections(t)
		}
	})
}

// links returns the number of the gateway's links.
func links(t *testing.T, g *lab.Gateway) int {
	t.Helper()
	body, _, err := g.Get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(body, "\nstrait_link_up{")
}

func TestNetns22_OverlappingPrefixesComeAndGo(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		c, routes := &l.gateway.Config, l.gateway.Metric(t, "strait_routes")
		silent := func(what string) {
			t.Helper()
			for _, way := range l.directions()[:2] {
				if out, err := way.From.Try("ping", "-n", "-c", "2", "-i", "0.1", "-W", "0.5", way.Seen.String()); err == nil {
					t.Errorf("%s, and a ping is answered:\n%s", what, out)
				}
			}
		}

		// Of the gateway's nodes: the longest prefix wins.
		one := c.Nodes
		wide := lab.NodeConfig{Name: "node-wide", Underlay: lab.Addr("10.0.1.111"), Encapsulation: l.a.Encapsulation, VNI: 102, Addresses: lab.Addrs("10.80.0.12"),
			Prefixes: lab.Prefixes("10.0.0.0/16", "fd00:10::/48")}
		c.Nodes = append(one[:1:1], wide)
		l.reconfigure(t)
		l.pingBothDirections(t)
		c.Nodes[1].Prefixes = append(lab.Prefixes("10.0.1.5/32"), wide.Prefixes...)
		l.reconfigure(t)
		silent("the pod's address is another node's")
		c.Nodes[1].Prefixes = lab.Prefixes("10.0.0.0/20", "fd00:10::/56")
		l.reconfigure(t)
		l.pingBothDirections(t)
		c.Nodes = one
		l.reconfigure(t)
		l.pingBothDirections(t)

		// Of the remote cluster: overlapping prefixes are rejected; a replaced prefix is
		// granted, and nothing else.
		remote := c.Remote
		for _, overlapping := range []string{"10.0.0.0/8", "10.0.2.0/24", "10.0.0.0/16"} {
			p := netip.MustParsePrefix(overlapping)
			c.Remote = append(remote[:len(remote):len(remote)], lab.RemotePrefix{CIDR: p, SeenAs: netip.PrefixFrom(lab.Addr("12.0.0.0"), p.Bits())})
			l.refuse(t, "overlap", l.text(t))
		}
		narrow := append([]lab.RemotePrefix(nil), remote...)
		for _, step := range []struct {
			cidr, seen string
			granted    bool
		}{{"10.0.2.0/24", "10.71.2.0/24", true}, {"10.0.3.0/24", "10.71.3.0/24", false}, {"10.0.2.9/32", "10.71.2.9/32", true}} {
			narrow[0] = lab.RemotePrefix{CIDR: netip.MustParsePrefix(step.cidr), SeenAs: netip.MustParsePrefix(step.seen)}
			c.Remote = narrow
			l.reconfigure(t)
			if step.granted {
				l.pingBothDirections(t)
			} else {
				silent("the reference's address is not granted")
			}
		}
		c.Remote = remote
		l.reconfigure(t)
		l.pingBothDirections(t)
		if got := l.gateway.Metric(t, "strait_routes"); got != routes {
			t.Errorf("the gateway has %v routes at the end, and had %v", got, routes)
		}

		// Of the reference's peers.
		other := lab.NewKeyPair(t)
		l.ref.peer(t, other.Public, "allowed-ips", "0.0.0.0/0,10.0.0.0/8,10.0.0.0/16,::/0,fd00::/8,fd00:10::/32")
		l.pingBothDirections(t)
		l.ref.peer(t, other.Public, "allowed-ips", "0.0.0.0/0,10.0.1.5/32")
		silent("the pod's address is another key's")
		l.ref.peer(t, other.Public, "remove")
		l.ref.peer(t, l.key.Public, "allowed-ips", "0.0.0.0/0,::/0")
		l.pingBothDirections(t)
	})
}

func TestNetns24_ReloadsAndLabsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		var gone []string // the part of names that identifies the lab's processes, namespaces and sockets
		t.Run("the lab", func(t *testing.T) {
			l := joinNetns(t, k, netnsOptions{})
			for _, ns := range []*lab.Namespace{l.a.Pod, l.a.Node, l.a.GW, l.net, l.ref.ns} {
				gone = append(gone, ns.Name)
			}
			gone = append(gone, l.ref.device, l.gateway.Dir)
			use := func() (goroutines, files float64) {
				return l.gateway.Metric(t, "go_goroutines"), l.gateway.Metric(t, "process_open_fds")
			}
			peer := l.peer("b-0", l.ref.key.Public)
			more := l.peer("b-1", lab.NewKeyPair(t).Public)
			more.gateway, more.endpoint = more.name, ""
			l.setPeers(t, peer)
			goroutines, files := use()
			for i := range 50 {
				l.gateway.Config.Nodes[0].Prefixes = append(lab.Prefixes(fmt.Sprintf("10.0.%d.0/24", 100+i)), l.a.PodNet4, l.a.PodNet6)
				l.setPeers(t, more, peer)
				l.setPeers(t, peer)
			}
			lab.Eventually(t, fmt.Sprintf("after 100 reloads there are no more than %v goroutines and %v files again", goroutines, files), func() bool {
				g, f := use()
				return g <= goroutines && f <= files
			})
			l.pingBothDirections(t)
		})
		for _, name := range append(existing("/run/netns/*", controlSockets+"/*"), runningCommands()...) {
			for _, of := range gone {
				if regexp.MustCompile(`\b` + regexp.QuoteMeta(of) + `\b`).MatchString(name) { // device 1 is not device 14
					t.Errorf("%s was left", name)
				}
			}
		}
	})
}

// existing lists the files that match patterns.
func existing(patterns ...string) (names []string) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // the patterns are well-formed
		names = append(names, found...)
	}
	return names
}

// runningCommands returns the command lines of all processes.
func runningCommands() (commands []string) {
	for _, file := range existing("/proc/[0-9]*/cmdline") {
		if line, err := os.ReadFile(file); err == nil { // otherwise it has just ended
			commands = append(commands, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return commands
}
