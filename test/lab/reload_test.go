//go:build lab || nightly

package lab

import (
	"net/netip"
	"syscall"
	"testing"
	"time"
)

func TestReloadTakesEffectAndLosesNothing(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	newPod := addr("10.0.77.7")
	top.b.addPodAddress(t, newPod)
	if out, err := top.a.pod.try("ping", "-n", "-c", "1", "-W", "1", top.a.sees(newPod).String()); err == nil {
		t.Fatalf("a pod that no node has answers before the reload:\n%s", out)
	}

	datagrams := startSequence(t, top)
	const reloads = 10
	for i := range reloads {
		c := &top.b.gateway.config
		if i%2 == 0 {
			c.Nodes[0].Prefixes = []netip.Prefix{top.b.podNet4, top.b.podNet6, netip.MustParsePrefix("10.0.77.0/24")}
			c.Nodes = append(c.Nodes[:1:1], nodeConfig{
				Name: "node-new", Underlay: addr("10.0.2.111"), Encapsulation: top.b.encapsulation, VNI: 102,
				Addresses: addrs("10.80.0.12", "fd00:80::12"), ExternalAddresses: addrs("10.70.0.12", "fd00:70::12"),
				Prefixes: prefixes("10.0.78.0/24"),
			})
		} else {
			c.Nodes = c.Nodes[:1]
			c.Nodes[0].Prefixes = c.Nodes[0].Prefixes[:2]
		}
		top.b.gateway.reload(t, "ok", func() {
			top.b.gateway.writeConfig(t)
			if i > 0 { // the gateway's file watch triggers the first
				top.b.gateway.signal(t, syscall.SIGHUP)
			}
		})
		if i == 0 {
			ping(t, top.a.pod, top.a.sees(newPod), 3)
		}
	}
	datagrams.stop(t)
}

func TestReloadDuringATransferKeepsItByteExact(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	g := top.a.gateway
	l := top.b.pod.listenTCP(t, netip.AddrPortFrom(top.b.pod4, 5001))
	finish := startTransfer(t, top.a.pod, l, netip.AddrPortFrom(top.a.sees(top.b.pod4), 5001), transferBytes(t)/4, 4)
	for i := range 10 {
		g.config.Nodes[0].Prefixes = []netip.Prefix{top.a.podNet4, top.a.podNet6, netip.PrefixFrom(addr("10.0.90.0"), 24+i%2)}
		g.reload(t, "ok", func() {
			g.writeConfig(t)
			g.signal(t, syscall.SIGHUP)
		})
		time.Sleep(100 * time.Millisecond) // spread over the transfer
	}
	finish()
}

func TestReloadChangesTheMTU(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	for _, s := range []*site{top.a, top.b} {
		s.gateway.config.MTU = smallMTU
		s.gateway.reload(t, "ok", func() {
			s.gateway.writeConfig(t)
			s.gateway.signal(t, syscall.SIGHUP)
		})
	}
	forEachDirection(t, top, func(t *testing.T, w direction) {
		if mtu := discover(t, w); mtu != smallMTU {
			t.Errorf("the path MTU is %d, want %d", mtu, smallMTU)
		}
	})
}

func TestInvalidConfigurationChangesNothing(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	datagrams := startSequence(t, top)
	for what, text := range map[string]string{
		"not YAML":      "overlay: [",
		"unknown field": "apiVersion: strait.dev/v1alpha1\nkind: GatewayConfig\ncluster: b\nspeed: 11\n",
		"empty":         "",
	} {
		t.Run(what, func(t *testing.T) {
			top.b.gateway.reload(t, "error", func() { top.b.gateway.replaceConfigFile(t, text) })
			ping(t, top.a.pod, top.a.sees(top.b.pod4), 3)
		})
	}
	datagrams.stop(t)
	top.b.gateway.reload(t, "ok", func() { top.b.gateway.writeConfig(t) })
}
