package config

import (
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
)

// proxying is a document of a gateway without nodes, with all fields of proxy and forwards.
func proxying(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/proxy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAGatewayWithoutNodesHasAProxyAndForwards(t *testing.T) {
	t.Parallel()
	g, err := Parse([]byte(proxying(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Validate(); err != nil {
		t.Error(err)
	}
	if want := (Proxy{prefixes("10.0.0.0/17"), prefixes("10.0.9.0/24", "10.0.8.1/32")}); !reflect.DeepEqual(g.Proxy, want) {
		t.Errorf("proxy %+v, want %+v", g.Proxy, want)
	}
	want := []Forward{
		{TCP, ListenAddress{Port: 20000}, []netip.AddrPort{netip.MustParseAddrPort("10.71.2.9:8080"), netip.MustParseAddrPort("10.71.2.10:8080")}},
		{UDP, ListenAddress{netip.MustParseAddr("192.0.2.10"), 20000}, []netip.AddrPort{netip.MustParseAddrPort("10.71.2.9:53")}},
	}
	if !reflect.DeepEqual(g.Forwards, want) {
		t.Errorf("forwards %+v, want %+v", g.Forwards, want)
	}
	if want := (Callers{prefixes("10.0.0.0/16", "::/0"), prefixes("10.0.3.7/32")}); !reflect.DeepEqual(g.Callers, want) {
		t.Errorf("callers %+v, want %+v", g.Callers, want)
	}
	text, err := g.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text)
	if err != nil || !reflect.DeepEqual(again.Forwards, g.Forwards) || !reflect.DeepEqual(again.Proxy, g.Proxy) || !reflect.DeepEqual(again.Callers, g.Callers) {
		t.Errorf("encoded and parsed: %v\n%s", err, text)
	}
}

// A forward without targets is valid: it refuses connections.
func TestAForwardMayHaveNoTargets(t *testing.T) {
	t.Parallel()
	if err := check(strings.Replace(proxying(t), `targets: ["10.71.2.9:53"]`, "targets: []", 1)); err != nil {
		t.Error(err)
	}
}

func TestProblemsOfTheProxyAndOfForwardsAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"a proxied prefix that is not granted": {"prefixes: [10.0.0.0/17]", "prefixes: [10.9.0.0/16]",
			"line 22: proxy.prefixes[0]: 10.9.0.0/16 is in none of local.prefixes; choose a part of local.prefixes, or add it there"},
		"more than is granted": {"prefixes: [10.0.0.0/17]", "prefixes: [10.0.0.0/15]",
			"line 22: proxy.prefixes[0]: 10.0.0.0/15 is in none of local.prefixes; choose a part of local.prefixes, or add it there"},
		"the metadata service": {"prefixes: [10.0.0.0/17]", "prefixes: [169.254.169.254/32]",
			"line 22: proxy.prefixes[0]: 169.254.169.254/32 is link-local; choose ordinary unicast addresses"},
		"host bits": {"10.0.9.0/24", "10.0.9.1/24", "line 23: proxy.except[0]: 10.0.9.1/24 has host bits set; write 10.0.9.0/24"},
		"an exception behind a node": {"  listen: \"\"\n", "  nodes: [{name: n, underlay: 192.0.2.21, vni: 1, addresses: [10.80.0.11], prefixes: [10.0.8.0/24]}]\n",
			"line 23: proxy.except[1]: 10.0.8.1/32 overlaps 10.0.8.0/24 of overlay.nodes[0].prefixes[0]; remove it, because nodes reach their pods without the proxy"},
		"a target of this cluster": {`"10.71.2.9:53"`, `"10.0.2.9:53"`,
			"line 30: forwards[1].targets[0]: 10.0.2.9 is in none of remote.prefixes[].seenAs; use an address of the remote cluster as this cluster sees it, or add its prefix to remote.prefixes"},
		"forwards without callers": {"  prefixes: [10.0.0.0/16, \"::/0\"]\n", "",
			"callers.prefixes: missing, so forwards would refuse all connections; list the prefixes of the clients that may use forwards"},
		"a caller with host bits": {"10.0.0.0/16, \"::/0\"", "10.0.0.1/16, \"::/0\"", "callers.prefixes[0]: 10.0.0.1/16 has host bits set; write 10.0.0.0/16"},
		"a target without a port": {`"10.71.2.9:53"`, `"10.71.2.9:0"`, "line 30: forwards[1].targets[0]: 0 is not a port; use 1 to 65535"},
		"a target on loopback": {`"10.71.2.9:53"`, `"127.0.0.1:53"`,
			"line 30: forwards[1].targets[0]: 127.0.0.1 is loopback; choose ordinary unicast addresses"},
		"no external address": {"  externalAddresses: [10.70.0.1]\n", "  externalAddresses: []\n",
			"forwards[0].targets[0]: 10.71.2.9 cannot be reached: there is no external address to connect from; give the gateway an address of that family in overlay.externalAddresses"},
		"another protocol": {"protocol: udp", "protocol: sctp", `line 28: forwards[1].protocol: "sctp" is not a protocol; use tcp or udp`},
		"a privileged port": {`listen: ":20000"`, `listen: ":80"`,
			"line 26: forwards[0].listen: 80 is not a port that a process without privileges can listen on; use a port from 1024 to 65535"},
		"no port": {"  listen: \":20000\"\n", "", "forwards[0].listen: 0 is not a port that a process without privileges can listen on; use a port from 1024 to 65535"},
		"the port of metrics": {`listen: ":20000"`, `listen: ":8080"`,
			"line 26: forwards[0].listen: is taken by observability.listen; choose another port"},
		"the port of WireGuard": {"192.0.2.10:20000", "192.0.2.10:51840",
			"line 29: forwards[1].listen: is taken by wireguard.listenPort; choose another port"},
		"the port of another forward": {"protocol: udp\n  listen: \"192.0.2.10:20000\"", "protocol: tcp\n  listen: \"192.0.2.10:20000\"",
			"line 29: forwards[1].listen: is taken by forwards[0].listen; choose another port"},
		"masquerade": {"forwards:\n", "masquerade: {sources: [198.51.100.0/24]}\nforwards:\n",
			"line 26: forwards: cannot be combined with masquerade.sources: both would use ports of the same external address; remove masquerade.sources, or run forwards in another gateway"},
	} {
		document := proxying(t)
		if !strings.Contains(document, c.old) {
			t.Fatalf("%s: the document does not contain %q", name, c.old)
		}
		if err := check(strings.Replace(document, c.old, c.new, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
}
