//go:build apiserver

package nodehelper

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// The life of a node, in one cluster, because starting one takes longer than all of it.
func TestNodeFollowsItsObjects(t *testing.T) {
	w := newFixture(t)
	w.gateway.IP(t, "link set overlay down")
	halt := w.run(t)

	a := w.ready(t, metav1.ConditionFalse, reasonNoAnswer)
	if g := a.Status.Gateways; len(g) != 1 || g[0].Ready || !strings.Contains(g[0].Message, "10.80.0.1 does not answer over vxlan to 192.0.2.10") {
		t.Errorf("a silent gateway: %+v", g)
	}
	w.gateway.IP(t, "link set overlay up\nneigh replace 10.80.0.11 lladdr 0a:58:0a:50:00:0b dev overlay nud permanent\nroute replace 10.80.0.11/32 dev overlay src 10.80.0.1")
	a = w.ready(t, metav1.ConditionTrue, reasonReady)
	if g := a.Status.Gateways; len(g) != 1 || !g[0].Ready || g[0].VNI != index<<8+number || g[0].Encapsulation != v1alpha1.VXLAN {
		t.Errorf("a gateway that answers: %+v", g)
	}
	w.node.Run(t, "ping", "-c1", "-W5", "10.71.2.9")
	if metrics := w.get("/metrics"); w.get("/readyz") != "ok\n" || !strings.Contains(metrics, "\nstrait_node_attached{node=\"node-1\"} 1\n") || !strings.Contains(metrics, "\nstrait_node_gateway_up{gateway=\"b-0\",node=\"node-1\"} 1\n") {
		t.Errorf("/readyz: %q, /metrics:\n%s", w.get("/readyz"), metrics)
	}

	again := func() { halt = w.run(t) } // for longer than one step
	t.Run("nothing is lost while the helper restarts", func(t *testing.T) {
		ping := w.node.Start(t, "ping", "-q", "-i0.01", "-c300", "-W5", "10.71.2.9")
		halt()
		again()
		if out := ping(); !strings.Contains(out, " 0% packet loss") {
			t.Error(out)
		}
	})
	t.Run("the gateway is followed to another address", func(t *testing.T) {
		w.gateway.IP(t, "route change 192.0.2.0/24 dev eth0 src 192.0.2.12")
		if out, err := w.node.Try("ping", "-c1", "-W1", "10.71.2.9"); err == nil {
			t.Errorf("frames of an unknown gateway are accepted: %s", out)
		}
		w.gatewayAt(t, "192.0.2.12")
		w.eventually(t, "the gateway answers from its new address", func() bool {
			_, err := w.node.Try("ping", "-c1", "-W1", "10.71.2.9")
			return err == nil && strings.Contains(w.node.Run(t, "bridge", "fdb"), "192.0.2.12")
		})
	})
	t.Run("the kernel is kept while the API server is away", func(t *testing.T) {
		w.StopServer(t)
		w.node.IP(t, "nexthop flush")
		// The command deletes one object after the other, so there may be several repairs.
		w.eventually(t, "the routes are back, and a repair is counted", func() bool {
			_, err := w.node.Try("ping", "-c1", "-W1", "10.71.2.9")
			metrics := w.get("/metrics")
			const repairs = "\nstrait_node_repairs_total{node=\"node-1\"} "
			return err == nil && strings.Contains(metrics, repairs) && !strings.Contains(metrics, repairs+"0\n")
		})
		if w.get("/healthz") != "ok\n" || w.get("/readyz") != "ok\n" {
			t.Errorf("/healthz: %q, /readyz: %q, /metrics:\n%s", w.get("/healthz"), w.get("/readyz"), w.get("/metrics"))
		}
		w.StartServer(t)
		w.ready(t, metav1.ConditionTrue, reasonReady)
	})
	t.Run("T7: a destination of the node is not taken over", func(t *testing.T) {
		w.node.IP(t, "addr add 10.72.5.1/24 dev eth0")
		_, err := w.admin.Peerings().ApplyStatus(t.Context(), &v1alpha1.Peering{
			ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: v1alpha1.PeeringStatus{ExternalPrefixes: []v1alpha1.SeenPrefix{{CIDR: "10.70.0.0/16", SeenAs: "10.72.0.0/16"}}},
		}, "another test")
		must(t, err)
		want := []v1alpha1.RouteConflict{{CIDR: "10.72.0.0/16", Destination: "route to 10.72.5.0/24 dev eth0 table 254", Refused: true}}
		w.eventually(t, "the conflict is reported", func() bool {
			is := w.ready(t, metav1.ConditionTrue, reasonReady)
			return slices.Equal(is.Status.RouteConflicts, want) && strings.Contains(is.Status.Conditions[0].Message, "Peering b: 10.72.0.0/16 is not routed to gateways, because the node has route to 10.72.5.0/24 dev eth0 table 254; map the remote CIDR")
		})
		if routes := w.node.Run(t, "ip", "route", "show", "table", "6091"); strings.Contains(routes, "10.72.") || !strings.Contains(routes, "10.71.") {
			t.Errorf("the routes are\n%s", routes)
		}
		_, err = w.admin.Peerings().ApplyStatus(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, "another test")
		must(t, err)
		w.eventually(t, "the conflict is gone", func() bool {
			return len(w.ready(t, metav1.ConditionTrue, reasonReady).Status.RouteConflicts) == 0
		})
	})
	t.Run("a range that is withdrawn is dropped", func(t *testing.T) {
		halt() // it is withdrawn while no helper runs
		must(t, w.admin.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{}))
		again()
		w.ready(t, metav1.ConditionTrue, reasonNoGateways)
		w.eventually(t, "the link is deleted", func() bool { return strings.Contains(w.log.String(), "delete link cni-strait") })
		if routes := strings.TrimSpace(w.node.Run(t, "ip", "route", "show", "table", "6091")); routes != "blackhole 10.71.0.0/16 proto 91 metric 10000" {
			t.Errorf("the routes are\n%s", routes)
		}
		if links := w.node.Run(t, "ip", "-br", "link"); strings.Contains(links, "cni-strait") {
			t.Errorf("a link is left:\n%s", links)
		}
	})
}
