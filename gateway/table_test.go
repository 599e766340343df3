package gateway_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

func TestTableSaysWhatItHolds(t *testing.T) {
	t.Parallel()
	table := tableOf(t, configured(t, clusterA), mtus)
	if n := table.NodeCount(); n != 2 {
		t.Errorf("%d nodes, want 2", n)
	}
	// 8 prefixes, 2 internal and 2 external addresses of node-1, 2 of node-2, 4 of the gateway.
	if n := table.RouteCount(); n != 18 {
		t.Errorf("%d routes, want 18", n)
	}
	if n := table.MTU(); n != tunnelMTU {
		t.Errorf("MTU %d, want %d", n, tunnelMTU)
	}
	want := []netip.Addr{addr(v4.gateway), addr(v6.gateway), addr(v4.gateOut), addr(v6.gateOut)}
	if got := table.Addresses(); !slices.Equal(got, want) {
		t.Errorf("addresses %v, want %v", got, want)
	}
}

func TestEveryNodeGetsItsHandle(t *testing.T) {
	t.Parallel()
	table, err := gateway.NewTable(configured(t, clusterA), mtus, func(n *gateway.Node) any { return "to " + n.Name })
	if err != nil {
		t.Fatal(err)
	}
	r := sideOf(table, node1A).fromTunnel(flow{src: v4.podB, dst: v4.podA}.udp(nil))
	if r.Node.Handle != "to node-1" {
		t.Errorf("handle %v", r.Node.Handle)
	}
}

func TestTablesThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		edit func(*config.Gateway)
	}{
		{"gateway: overlay.addresses is empty; give the gateway at least one internal address",
			func(c *config.Gateway) { c.Overlay.Addresses = nil }},
		{"nat: 10.0.0.0/16 to 10.71.0.0/17: lengths differ; both must be /16",
			func(c *config.Gateway) { c.Remote.Prefixes[0].SeenAs = netip.MustParsePrefix("10.71.0.0/17") }},
	} {
		configuration := configured(t, clusterA)
		c.edit(configuration)
		if table, err := gateway.NewTable(configuration, mtus, nil); err == nil || err.Error() != c.want || table != nil {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

func TestTheNthExternalAddressOfAFamilyStandsForTheNthInternalOne(t *testing.T) {
	t.Parallel()
	a := newA(t, func(c *config.Gateway) {
		n := &c.Overlay.Nodes[0]
		n.Addresses = []netip.Addr{addr("fd00:80::11"), addr("10.80.0.11"), addr("10.80.0.13"), addr("10.80.0.14")}
		n.ExternalAddresses = []netip.Addr{addr("10.70.0.11"), addr("10.70.0.13"), addr("fd00:70::11")}
	})
	for in, out := range map[string]string{"10.80.0.11": "10.70.0.11", "10.80.0.13": "10.70.0.13", "fd00:80::11": "fd00:70::11"} {
		seen, remote := v4.seenPodB, v4.podB
		if addr(in).Is6() {
			seen, remote = v6.seenPodB, v6.podB
		}
		r := a.fromNode(flow{src: in, dst: seen}.udp(nil))
		expectVerdict(t, r, gateway.ToTunnel)
		expect(t, r.Packet, out, remote, 63)
		r = a.fromTunnel(flow{src: remote, dst: out}.udp(nil))
		expectVerdict(t, r, gateway.ToNode)
		expect(t, r.Packet, seen, in, 63)
	}
	expectDrop(t, a.fromNode(flow{src: "10.80.0.14", dst: v4.seenPodB}.udp(nil)), gateway.NoExternalAddress)
}

// A gateway with IPv6 alone has a MAC of its own kind.
func TestMACsComeFromTheFirstIPv4AddressOrElseTheFirst(t *testing.T) {
	t.Parallel()
	table := tableOf(t, configured(t, clusterA, func(c *config.Gateway) {
		c.Overlay.Addresses = []netip.Addr{addr("fd00:80::1")}
		c.Overlay.ExternalAddresses = nil
		c.Overlay.Nodes[0].Addresses = []netip.Addr{addr("fd00:80::11"), addr("10.80.0.11")}
		c.Overlay.Nodes[0].ExternalAddresses = nil
	}), mtus)
	r := sideOf(table, node1A).fromTunnel(flow{src: v4.podB, dst: v4.podA}.udp(nil))
	expectVerdict(t, r, gateway.ToNode)
	ethernet := r.Node.Header(4)[8:]
	if got, want := ethernet[:6], node1A.mac[:]; !slices.Equal(got, want) {
		t.Errorf("node has % x, want % x", got, want)
	}
	if got, want := ethernet[6:12], []byte{0x0a, 0x58, 0, 0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("gateway has % x, want % x", got, want)
	}
}

// large is a cluster with many nodes and prefixes behind them, a thousand of
// which lie inside of another node's.
func large(nodes, prefixes int) *config.Gateway {
	c := &config.Gateway{
		Overlay: config.Overlay{Addresses: []netip.Addr{addr(v4.gateway)}, ExternalAddresses: []netip.Addr{addr(v4.gateOut)}},
		Local:   config.Local{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/9"), netip.MustParsePrefix("fd00:10::/32")}},
		Remote: config.Remote{Prefixes: []config.RemotePrefix{
			{CIDR: netip.MustParsePrefix("172.16.0.0/16"), SeenAs: netip.MustParsePrefix("172.17.0.0/16")},
			{CIDR: netip.MustParsePrefix("fd00:71::/48"), SeenAs: netip.MustParsePrefix("fd00:72::/48")},
		}},
	}
	for i := range nodes {
		c.Overlay.Nodes = append(c.Overlay.Nodes, config.Node{
			Name: fmt.Sprint(i), VNI: uint32(i + 1),
			Underlay:  number("192.168.0.0", i),
			Addresses: []netip.Addr{number("10.200.0.0", i)},
		})
	}
	nested := min(1000, prefixes/10)
	for i := range prefixes - nested {
		n := &c.Overlay.Nodes[i%nodes]
		if i%4 == 3 {
			n.Prefixes = append(n.Prefixes, netip.PrefixFrom(number("fd00:10::", i<<8), 120))
		} else {
			n.Prefixes = append(n.Prefixes, netip.PrefixFrom(number("10.0.0.0", i<<4), 28))
		}
	}
	for i := range nested {
		n := &c.Overlay.Nodes[(i+nodes/2)%nodes]
		n.Prefixes = append(n.Prefixes, netip.PrefixFrom(number("10.0.0.0", i<<4|5), 32))
	}
	return c
}

// number adds n to an address.
func number(base string, n int) netip.Addr {
	b := addr(base).AsSlice()
	last := b[len(b)-4:]
	binary.BigEndian.PutUint32(last, binary.BigEndian.Uint32(last)+uint32(n))
	a, _ := netip.AddrFromSlice(b)
	return a
}

// naive finds the node of an address by trying every length, longest first.
type naive map[netip.Prefix]string

func naiveTable(c *config.Gateway) naive {
	n := make(naive)
	for _, node := range c.Overlay.Nodes {
		for _, p := range node.Prefixes {
			n[p] = node.Name
		}
		for _, a := range slices.Concat(node.Addresses, node.ExternalAddresses) {
			n[netip.PrefixFrom(a, a.BitLen())] = node.Name
		}
	}
	return n
}

func (n naive) lookup(a netip.Addr) string {
	for bits := a.BitLen(); bits >= 0; bits-- {
		if name, ok := n[netip.PrefixFrom(a, bits).Masked()]; ok {
			return name
		}
	}
	return ""
}

func TestF20_LookupsEqualTheNaiveTableWithManyNodesAndPrefixes(t *testing.T) {
	t.Parallel()
	const nodes, prefixes = 5000, 100_000
	c := large(nodes, prefixes)
	twin := naiveTable(c)
	s := sideOf(tableOf(t, c, mtus), wire{})
	if n := s.Table().RouteCount(); n != prefixes+nodes+2 {
		t.Fatalf("%d routes, want %d", n, prefixes+nodes+2)
	}
	r := rand.New(rand.NewPCG(5000, 100_000))
	hits := 0
	for range 40_000 {
		pod, remote, seen := number("10.0.0.0", r.IntN(prefixes<<4+1000)).String(), "172.16.3.4", "172.17.3.4"
		if r.IntN(3) == 0 {
			pod, remote, seen = number("fd00:10::", r.IntN(prefixes<<8+1000)).String(), "fd00:71::4", "fd00:72::4"
		}
		want := twin.lookup(addr(pod))
		in := s.fromTunnel(flow{src: remote, dst: pod}.raw(253, nil))
		switch {
		case want == "" && in.Reason != gateway.NoNode:
			t.Fatalf("%s has no node, verdict %d, %q", pod, in.Verdict, in.Reason)
		case want != "" && (in.Verdict != gateway.ToNode || in.Node.Name != want):
			t.Fatalf("%s is behind %s, verdict %d, %q, node %+v", pod, want, in.Verdict, in.Reason, in.Node)
		}

		from := r.IntN(nodes)
		if want != "" && r.IntN(2) == 0 {
			fmt.Sscan(want, &from)
		}
		w := wire{underlay: number("192.168.0.0", from), vni: uint32(from + 1)}
		out := s.send(w, w.frame(flow{src: pod, dst: seen}.raw(253, nil)))
		if may := want == fmt.Sprint(from); may != (out.Verdict == gateway.ToTunnel) || !may && out.Reason != gateway.SpoofedSource {
			t.Fatalf("%s behind %q, sent by %d: verdict %d, %q", pod, want, from, out.Verdict, out.Reason)
		} else if may {
			hits++
		}
	}
	if hits < 10_000 {
		t.Errorf("only %d packets had a node", hits)
	}
}
