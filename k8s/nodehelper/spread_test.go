//go:build apiserver

package nodehelper

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/test/netns"
)

// secondGateway adds a gateway b-1 to the picture, with 192.0.2.13 and 10.80.0.2, and answers
// probes at both.
func (w *fixture) secondGateway(t *testing.T) *netns.Namespace {
	t.Helper()
	second := netns.New(t)
	w.node.IP(t, fmt.Sprintf(`
link add eth1 type veth peer name eth0 %s
link set eth1 up
route add 192.0.2.13 dev eth1 src 192.0.2.21
`, second.Here()))
	second.IP(t, fmt.Sprintf(`
addr add 192.0.2.13/32 dev eth0
link set eth0 up
route add 192.0.2.21 dev eth0 src 192.0.2.13
addr add 10.71.2.9/32 dev lo
link add overlay type vxlan id %d remote 192.0.2.21 dstport 6092 nolearning
link set overlay address 0a:58:0a:50:00:02 mtu 1300
addr add 10.80.0.2/32 dev overlay
link set overlay up
neigh add 10.80.0.11 lladdr 0a:58:0a:50:00:0b dev overlay nud permanent
route add 10.80.0.11/32 dev overlay src 10.80.0.2
`, v1alpha1.VNI(index, number+1)))
	answerProbes(t, second)
	p, err := w.admin.Peerings().Get(t.Context(), "b", metav1.GetOptions{})
	must(t, err)
	p.Status.Gateways = append(p.Status.Gateways, v1alpha1.GatewayStatus{
		Name: "b-1", Number: number + 1, InternalAddresses: []v1alpha1.IP{"10.80.0.2"}, PodAddresses: []v1alpha1.IP{"192.0.2.13"}, MTU: 1300,
	})
	_, err = w.admin.Peerings().ApplyStatus(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: p.Status}, "test")
	must(t, err)
	return second
}

// answerProbes answers probes with "links up", at all addresses of a gateway.
func answerProbes(t *testing.T, n *netns.Namespace) {
	t.Helper()
	var conn *net.UDPConn
	must(t, n.In(func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{Port: nodeprobe.Port})
		return err
	}))
	var reader sync.WaitGroup
	reader.Go(func() {
		for b := make([]byte, 2*nodeprobe.Len); ; {
			size, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if m, ok := nodeprobe.Parse(b[:size]); ok {
				nodeprobe.Message{Answer: true, State: nodeprobe.LinksUp, Sequence: m.Sequence, Interval: nodeprobe.RestInterval}.Put(b)
				_, _ = conn.WriteToUDPAddrPort(b[:nodeprobe.Len], from) // a lost answer is a miss
			}
		}
	})
	t.Cleanup(func() { _ = conn.Close(); reader.Wait() })
}

// spread returns the nexthops of the node's route to the other cluster.
func (w *fixture) spread(t *testing.T) int {
	return strings.Count(w.node.Run(t, "ip", "route", "show", "10.71.0.0/16", "table", "6091"), " via 10.80.0.")
}

func TestANodeTakesADeadGatewayOutWhileTheAPIServerIsAway(t *testing.T) {
	w := newFixture(t)
	second := w.secondGateway(t)
	halt := w.run(t)
	w.ready(t, metav1.ConditionTrue, reasonReady)
	w.eventually(t, "flows are spread over both", func() bool { return w.spread(t) == 2 })
	w.eventually(t, "the status says so", func() bool {
		g := w.ready(t, metav1.ConditionTrue, reasonReady).Status.Gateways
		return len(g) == 2 && g[0].InUse && g[1].InUse && g[1].State == v1alpha1.Forwarding
	})
	if route := w.node.Run(t, "ip", "route", "show", "10.71.0.0/16", "table", "6091"); !strings.Contains(route, "mtu 1300") {
		t.Errorf("the route does not have the smaller MTU: %s", route)
	}

	w.StopServer(t)
	second.IP(t, "link set overlay down") // no answer, and no ICMP error
	began := time.Now()
	w.eventually(t, "the second is out", func() bool { return w.spread(t) == 1 })
	out := time.Since(began)
	began = time.Now()
	second.IP(t, "link set overlay up\nneigh replace 10.80.0.11 lladdr 0a:58:0a:50:00:0b dev overlay nud permanent\nroute replace 10.80.0.11/32 dev overlay src 10.80.0.2")
	w.eventually(t, "the second is back", func() bool { return w.spread(t) == 2 })
	back := time.Since(began)
	t.Logf("out after %v, back after %v", out, back)
	if back < joinAfter {
		t.Errorf("the gateway is back after %v, want %v or more", back, joinAfter)
	}

	second.IP(t, "link set overlay down")
	w.eventually(t, "the second is out", func() bool { return w.spread(t) == 1 })
	w.gateway.IP(t, "link set overlay down")
	w.StartServer(t)
	w.ready(t, metav1.ConditionFalse, reasonNoAnswer)
	w.eventually(t, "the status says that both do not answer", func() bool {
		g := w.ready(t, metav1.ConditionFalse, reasonNoAnswer).Status.Gateways
		return len(g) == 2 && g[0].State == v1alpha1.NoAnswer && g[1].State == v1alpha1.NoAnswer && g[0].InUse && !g[1].InUse
	})
	halt()
	w.run(t)
	w.eventually(t, "the next helper runs", func() bool { return w.get("/readyz") == "ok\n" })
	if n := w.spread(t); n != 1 {
		t.Errorf("after a restart, flows are spread over %d gateways, want the last one that answered", n)
	}
}
