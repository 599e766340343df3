package gateway

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/ports"
)

// A gateway of a cluster without node helpers listens on the ports that the controller plans
// for Services of its Peering, proxies pods, and waits for no node.
func TestWithoutNodesAGatewayServesThePortsOfReceivedServices(t *testing.T) {
	t.Parallel()
	w := inMemory(t)
	w.options.WithoutNodes = true
	w.network(t)
	w.peering(t)
	w.peer(t)
	_, err := w.admin.Peerings().ApplyStatus(t.Context(), read[v1alpha1.Peering](t, `
metadata: {name: b}
status:
  prefixes: [{cidr: 10.0.0.0/16, seenAs: 10.71.0.0/16}]
  gateways: [{name: b-0, number: 1, internalAddresses: [10.80.0.1], externalAddresses: [10.70.0.1]}]`), "strait-controller")
	must(t, err)
	port := ports.Free(t, 1)[0]
	received := w.admin.ReceivedServices(w.options.Namespace)
	write := func(peering, endpoint string, ports ...v1alpha1.GatewayServicePort) {
		t.Helper()
		o := read[v1alpha1.ReceivedService](t, fmt.Sprintf(`
metadata: {name: web.shop.%[1]s, labels: {strait.dev/peering: %[1]s}}
spec:
  peering: %[1]s
  service:
    namespace: shop
    name: web
    type: ClusterSetIP
    exportedAt: "2026-06-01T00:00:00Z"
    ports: [{name: http, protocol: TCP, port: 80}]
    endpoints:
    - addressType: IPv4
      ports: [{name: http, protocol: TCP, port: 8080}]
      endpoints: [{address: %[2]s, ready: true, serving: true}]`, peering, endpoint))
		_, err := received.Apply(t.Context(), o, "strait-gateway")
		must(t, err)
		o.Status.Ports = ports
		_, err = received.ApplyStatus(t.Context(), o, "strait-controller")
		must(t, err)
	}
	write("c", "10.0.2.9", v1alpha1.GatewayServicePort{ServicePort: "http", Port: int32(port)}) // of another Peering
	w.run(t)
	w.eventually(t, "its link is not withheld", func() bool {
		c, err := config.Parse([]byte(w.inForce()))
		return err == nil && len(c.WireGuard.Peers) == 1
	})
	forwards := func(want string) func() bool {
		return func() bool {
			c, err := config.Parse([]byte(w.inForce()))
			return err == nil && fmt.Sprint(c.Forwards) == want && fmt.Sprint(c.Proxy.Prefixes) == "[10.0.0.0/16]"
		}
	}
	w.eventually(t, "no port of another Peering", forwards("[]"))

	write("b", "10.0.2.9", v1alpha1.GatewayServicePort{ServicePort: "http", Port: int32(port)})
	w.eventually(t, "a port", forwards(fmt.Sprintf("[{tcp :%d [10.71.2.9:8080]}]", port)))
	// The target does not answer, so the connection is reset after it was accepted.
	if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		must(t, conn.Close())
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	write("b", "10.0.2.10", v1alpha1.GatewayServicePort{ServicePort: "http", Port: int32(port)})
	w.eventually(t, "another target", forwards(fmt.Sprintf("[{tcp :%d [10.71.2.10:8080]}]", port)))
	must(t, received.Delete(t.Context(), "web.shop.b", metav1.DeleteOptions{}))
	w.eventually(t, "no port any more", forwards("[]"))
}
