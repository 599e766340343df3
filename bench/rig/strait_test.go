package rig

import (
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/netns"
)

// configured returns the configuration as a gateway reads it.
func configured(t *testing.T, c *config.Gateway) *config.Gateway {
	t.Helper()
	c.WireGuard.PrivateKeyFile = "/private.key"
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	g, err := config.Parse(text)
	if err == nil {
		err = g.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestConfigurationsAreValid(t *testing.T) {
	t.Parallel()
	keys, err := newKeyPairs(1 + idlePeers)
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range []straitShape{{}, {v6: true}, {extraNodes: manyNodes}, {idlePeers: idlePeers}} {
		c := straitConfig(siteA(), siteB(), "vxlan", shape, keys[0].public)
		addIdlePeers(c, keys[1:1+shape.idlePeers])
		g := configured(t, c)
		if len(g.Overlay.Nodes) != 1+shape.extraNodes || len(g.WireGuard.Peers) != 1+shape.idlePeers {
			t.Errorf("%+v: %d nodes, %d peers", shape, len(g.Overlay.Nodes), len(g.WireGuard.Peers))
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
		s.gw, s.node = &namespace{Namespace: &netns.Namespace{Name: "gw-" + s.Name}}, &namespace{Namespace: &netns.Namespace{Name: "node-" + s.Name}}
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
