//go:build apiserver

package nodehelper

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
	"strait.dev/strait/node/userspace"
)

// A node whose kernel has neither Geneve nor VXLAN.
func TestAHelperStandsInForTheKernel(t *testing.T) {
	w := newFixture(t)
	w.support = &node.Support{Userspace: true, Lacks: "no Geneve (not supported), no VXLAN (not supported)"}
	w.speakGeneve(t)
	halt := w.run(t)
	a := w.ready(t, metav1.ConditionTrue, reasonReady)
	if g := a.Status.Gateways; len(g) != 1 || g[0].Encapsulation != v1alpha1.Userspace || !strings.Contains(g[0].Message, "the kernel has no Geneve (not supported)") {
		t.Errorf("gateways %+v", g)
	}
	w.node.Run(t, "ping", "-c1", "-W5", "10.71.2.9")

	halt()
	w.run(t)
	w.eventually(t, "the next helper serves the device", func() bool {
		_, err := w.node.Try("ping", "-c1", "-W1", "10.71.2.9")
		return err == nil
	})
	must(t, w.admin.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{}))
	w.eventually(t, "the device is gone", func() bool {
		return !strings.Contains(w.node.Run(t, "ip", "-br", "link"), "cni-strait")
	})
}

// speakGeneve replaces the gateway's VXLAN device by one that the test serves.
func (w *fixture) speakGeneve(t *testing.T) {
	t.Helper()
	must(t, w.gateway.In(func() error { return userspace.Make("overlay0") }))
	w.gateway.IP(t, `
link del overlay
link set overlay0 address 0a:58:0a:50:00:01 mtu 1400 up
addr add 10.80.0.1/32 dev overlay0
neigh add 10.80.0.11 lladdr 0a:58:0a:50:00:0b dev overlay0 nud permanent
route add 10.80.0.11/32 dev overlay0 src 10.80.0.1
`)
	e := userspace.New(6091, userspace.Grace)
	t.Cleanup(e.Close)
	must(t, w.gateway.In(func() error {
		link, err := net.InterfaceByName("overlay0")
		if err != nil {
			return fmt.Errorf("the device is gone: %w", err)
		}
		way := userspace.Way{VNI: v1alpha1.VNI(index, number), Gateway: netip.MustParseAddr("192.0.2.21")}
		return e.Serve("overlay0", link.Index, way)
	}))
}
