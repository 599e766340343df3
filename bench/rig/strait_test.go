package rig

import (
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/netns"
)

func TestConfigurationsAreValid(t *testing.T) {
	t.Parallel()
	for _, spare := range []int{0, manyNodes} {
		a, b := siteA(), siteB()
		keys, err := newKeyPair()
		if err != nil {
			t.Fatal(err)
		}
		for _, v6 := range []bool{false, true} {
			c := straitConfig{
				site: a, other: b, v6: v6, Encapsulation: "vxlan", Spare: extraNodes(spare),
				PrivateKeyFile: "/private.key", PeerKey: keys.public,
			}
			var text strings.Builder
			if err := straitTemplate.Execute(&text, &c); err != nil {
				t.Fatal(err)
			}
			g, err := config.Parse([]byte(text.String()))
			if err != nil {
				t.Fatalf("%d extra nodes, IPv6 outside %v: %v", spare, v6, err)
			}
			if got, want := len(g.Overlay.Nodes), spare+1; got != want {
				t.Errorf("%d nodes, want %d", got, want)
			}
		}
	}
}

func TestOnlyGatewayAHasIdlePeers(t *testing.T) {
	t.Parallel()
	keys, err := idlePeerKeys(idlePeers)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []straitConfig{
		{site: siteA(), other: siteB(), IdlePeerKeys: keys},
		{site: siteB(), other: siteA()},
	} {
		own, err := newKeyPair()
		if err != nil {
			t.Fatal(err)
		}
		c.Encapsulation, c.PrivateKeyFile, c.PeerKey = "geneve", "/private.key", own.public
		var text strings.Builder
		if err := straitTemplate.Execute(&text, &c); err != nil {
			t.Fatal(err)
		}
		g, err := config.Parse([]byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(g.WireGuard.Peers), 1+len(c.IdlePeerKeys); got != want {
			t.Errorf("gateway %s has %d peers, want %d", c.Name(), got, want)
		}
	}
}

func TestManyNodesHaveTheConfiguredRoutes(t *testing.T) {
	t.Parallel()
	routes := make(map[netip.Prefix]bool)
	for _, n := range extraNodes(manyNodes) {
		for _, p := range n.Prefixes {
			routes[p.Masked()] = true
		}
	}
	if len(routes) != 100_000 {
		t.Errorf("%d routes, want 100000", len(routes))
	}
}

func TestPodsAreMappedByPrefix(t *testing.T) {
	t.Parallel()
	b := siteB()
	for f, want := range []string{"10.71.2.9", "fd00:71:0:2::9"} {
		if got := b.translate(b.podAddress[f]); got != netip.MustParseAddr(want) {
			t.Errorf("%s is mapped to %s, want %s", b.podAddress[f], got, want)
		}
	}
}

func TestCustomSubjectIsANameAndACommand(t *testing.T) {
	t.Parallel()
	got, err := ParseCustomSubject("mine=./up.sh --fast=1")
	if want := (Custom{"mine", "./up.sh --fast=1"}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, wrong := range []string{"", "mine", "=up.sh", "mine=", "my own=up.sh", "a/b=up.sh"} {
		if _, err := ParseCustomSubject(wrong); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
}

func TestCustomSubjectEnvironmentIsComplete(t *testing.T) {
	t.Parallel()
	top := &topology{a: siteA(), b: siteB()}
	for _, s := range top.sites() {
		s.gw, s.node = &namespace{Namespace: &netns.Namespace{Name: "gw-" + s.name}}, &namespace{Namespace: &netns.Namespace{Name: "node-" + s.name}}
	}
	env := strings.Join(customEnvironment(top, "vxlan"), "\n") + "\n"
	for _, want := range []string{
		"RIG_GATEWAY_A=gw-a", "RIG_GATEWAY_B=gw-b", "RIG_NODE_B=node-b", "RIG_WAN_A=203.0.113.1", "RIG_WAN_B=203.0.113.2",
		"RIG_UNDERLAY_A=192.168.1.1", "RIG_SEEN_AS_B=10.71.0.0/16", "RIG_ENCAPSULATION_A=vxlan", "RIG_PORT_B=6092", "RIG_VNI_A=101",
	} {
		if !strings.Contains(env, want+"\n") {
			t.Errorf("no %s in\n%s", want, env)
		}
	}
}
