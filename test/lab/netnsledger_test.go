//go:build lab || nightly

package lab

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The scenarios about the content of a configuration, and about leftovers after its
// removal.

func TestNetns20_ALargeConfigurationIsExact(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		routes := func() int { return int(l.gateway.metric(t, "strait_routes")) }
		node, before := &l.gateway.config.Nodes[0], routes()
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
		c := &l.gateway.config
		own := c.Remote
		for i := range 52 {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i), 0, 0}), 16)
			c.Remote = append(c.Remote[:len(own)+i:len(own)+i], remotePrefix{p, p})
		}
		peers := []peerEntry{l.peer("b-0", l.ref.key.public)}
		for i := range 39 {
			p := l.peer(fmt.Sprint("b-", i+1), newKeyPair(t).public)
			p.gateway, p.endpoint = p.name, ""
			peers = append(peers, p)
		}
		for _, n := range []int{40, 30, 1} {
			l.setPeers(t, peers[:n]...)
			if got := l.gateway.links(t); got != n {
				t.Errorf("the gateway has %d links, want %d", got, n)
			}
			l.pingBothDirections(t)
		}
	})
}

// links returns the number of the gateway's links.
func (g *gateway) links(t *testing.T) int {
	t.Helper()
	body, _, err := g.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(body, "\nstrait_link_up{")
}

func TestNetns22_OverlappingPrefixesComeAndGo(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := joinNetns(t, k, netnsOptions{})
		c, routes := &l.gateway.config, l.gateway.metric(t, "strait_routes")
		silent := func(what string) {
			t.Helper()
			for _, way := range l.directions()[:2] {
				if out, err := way.from.try("ping", "-n", "-c", "2", "-i", "0.1", "-W", "0.5", way.seen.String()); err == nil {
					t.Errorf("%s, and a ping is answered:\n%s", what, out)
				}
			}
		}

		// Of the gateway's nodes: the longest prefix wins.
		one := c.Nodes
		wide := nodeConfig{Name: "node-wide", Underlay: addr("10.0.1.111"), Encapsulation: l.a.encapsulation, VNI: 102, Addresses: addrs("10.80.0.12"),
			Prefixes: prefixes("10.0.0.0/16", "fd00:10::/48")}
		c.Nodes = append(one[:1:1], wide)
		l.reconfigure(t)
		l.pingBothDirections(t)
		c.Nodes[1].Prefixes = append(prefixes("10.0.1.5/32"), wide.Prefixes...)
		l.reconfigure(t)
		silent("the pod's address is another node's")
		c.Nodes[1].Prefixes = prefixes("10.0.0.0/20", "fd00:10::/56")
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
			c.Remote = append(remote[:len(remote):len(remote)], remotePrefix{p, netip.PrefixFrom(addr("12.0.0.0"), p.Bits())})
			l.refuse(t, "overlap", l.text(t))
		}
		narrow := append([]remotePrefix(nil), remote...)
		for _, step := range []struct {
			cidr, seen string
			granted    bool
		}{{"10.0.2.0/24", "10.71.2.0/24", true}, {"10.0.3.0/24", "10.71.3.0/24", false}, {"10.0.2.9/32", "10.71.2.9/32", true}} {
			narrow[0] = remotePrefix{netip.MustParsePrefix(step.cidr), netip.MustParsePrefix(step.seen)}
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
		if got := l.gateway.metric(t, "strait_routes"); got != routes {
			t.Errorf("the gateway has %v routes at the end, and had %v", got, routes)
		}

		// Of the reference's peers.
		other := newKeyPair(t)
		l.ref.peer(t, other.public, "allowed-ips", "0.0.0.0/0,10.0.0.0/8,10.0.0.0/16,::/0,fd00::/8,fd00:10::/32")
		l.pingBothDirections(t)
		l.ref.peer(t, other.public, "allowed-ips", "0.0.0.0/0,10.0.1.5/32")
		silent("the pod's address is another key's")
		l.ref.peer(t, other.public, "remove")
		l.ref.peer(t, l.key.public, "allowed-ips", "0.0.0.0/0,::/0")
		l.pingBothDirections(t)
	})
}

func TestNetns24_ReloadsAndLabsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		var gone []string // the part of names that identifies the lab's processes, namespaces and sockets
		t.Run("the lab", func(t *testing.T) {
			l := joinNetns(t, k, netnsOptions{})
			for _, ns := range []*namespace{l.a.pod, l.a.node, l.a.gw, l.net, l.ref.ns} {
				gone = append(gone, ns.name)
			}
			gone = append(gone, l.ref.device, l.gateway.dir)
			use := func() (goroutines, files float64) {
				return l.gateway.metric(t, "go_goroutines"), l.gateway.metric(t, "process_open_fds")
			}
			peer := l.peer("b-0", l.ref.key.public)
			more := l.peer("b-1", newKeyPair(t).public)
			more.gateway, more.endpoint = more.name, ""
			l.setPeers(t, peer)
			goroutines, files := use()
			for i := range 50 {
				l.gateway.config.Nodes[0].Prefixes = append(prefixes(fmt.Sprintf("10.0.%d.0/24", 100+i)), l.a.podNet4, l.a.podNet6)
				l.setPeers(t, more, peer)
				l.setPeers(t, peer)
			}
			eventually(t, fmt.Sprintf("after 100 reloads there are no more than %v goroutines and %v files again", goroutines, files), func() bool {
				g, f := use()
				return g <= goroutines && f <= files
			})
			l.pingBothDirections(t)
		})
		for _, name := range append(existing("/run/netns/*", controlSockets+"/*"), runningCommands()...) {
			for _, of := range gone {
				if strings.Contains(name, of) {
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
