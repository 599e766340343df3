//go:build lab || nightly

package process

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	"strait.dev/strait/test/lab"
)

func TestReloadTakesEffectAndLosesNothing(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	newPod := lab.Addr("10.0.77.7")
	top.B.AddPodAddress(t, newPod)
	if out, err := top.A.Pod.Try("ping", "-n", "-c", "1", "-W", "1", top.A.Sees(newPod).String()); err == nil {
		t.Fatalf("a pod that no node has answers before the reload:\n%s", out)
	}

	datagrams := lab.StartSequence(t, top)
	const reloads = 10
	for i := range reloads {
		c := &top.B.Gateway.Config
		if i%2 == 0 {
			c.Nodes[0].Prefixes = []netip.Prefix{top.B.PodNet4, top.B.PodNet6, netip.MustParsePrefix("10.0.77.0/24")}
			c.Nodes = append(c.Nodes[:1:1], lab.NodeConfig{
				Name: "node-new", Underlay: lab.Addr("10.0.2.111"), Encapsulation: top.B.Encapsulation, VNI: 102,
				Addresses: lab.Addrs("10.80.0.12", "fd00:80::12"), ExternalAddresses: lab.Addrs("10.70.0.12", "fd00:70::12"),
				Prefixes: lab.Prefixes("10.0.78.0/24"),
			})
		} else {
			c.Nodes = c.Nodes[:1]
			c.Nodes[0].Prefixes = c.Nodes[0].Prefixes[:2]
		}
		top.B.Gateway.Reload(t, "ok", func() {
			top.B.Gateway.WriteConfig(t)
			if i > 0 { // the gateway's file watch triggers the first
				top.B.Gateway.Signal(t, syscall.SIGHUP)
			}
		})
		if i == 0 {
			lab.Ping(t, top.A.Pod, top.A.Sees(newPod), 3)
		}
	}
	datagrams.Stop(t)
}

func TestReloadDuringATransferKeepsItByteExact(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	g := top.A.Gateway
	l := top.B.Pod.ListenTCP(t, netip.AddrPortFrom(top.B.Pod4, 5001))
	finish := lab.StartTransfer(t, top.A.Pod, l, netip.AddrPortFrom(top.A.Sees(top.B.Pod4), 5001), lab.TransferBytes(t)/4, 4)
	for i := range 10 {
		g.Config.Nodes[0].Prefixes = []netip.Prefix{top.A.PodNet4, top.A.PodNet6, netip.PrefixFrom(lab.Addr("10.0.90.0"), 24+i%2)}
		g.Reload(t, "ok", func() {
			g.WriteConfig(t)
			g.Signal(t, syscall.SIGHUP)
		})
		time.Sleep(100 * time.Millisecond) // spread over the transfer
	}
	finish()
}

func TestReloadChangesTheMTU(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	for _, s := range []*lab.Site{top.A, top.B} {
		s.Gateway.Config.MTU = lab.SmallMTU
		s.Gateway.Reload(t, "ok", func() {
			s.Gateway.WriteConfig(t)
			s.Gateway.Signal(t, syscall.SIGHUP)
		})
	}
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		if mtu := lab.Discover(t, w); mtu != lab.SmallMTU {
			t.Errorf("the path MTU is %d, want %d", mtu, lab.SmallMTU)
		}
	})
}

func TestInvalidConfigurationChangesNothing(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	datagrams := lab.StartSequence(t, top)
	for what, text := range map[string]string{
		"not YAML":      "overlay: [",
		"unknown field": "apiVersion: strait.dev/v1alpha1\nkind: GatewayConfig\ncluster: b\nspeed: 11\n",
		"empty":         "",
	} {
		t.Run(what, func(t *testing.T) {
			top.B.Gateway.Reload(t, "error", func() { top.B.Gateway.ReplaceConfigFile(t, text) })
			lab.Ping(t, top.A.Pod, top.A.Sees(top.B.Pod4), 3)
		})
	}
	datagrams.Stop(t)
	top.B.Gateway.Reload(t, "ok", func() { top.B.Gateway.WriteConfig(t) })
}
