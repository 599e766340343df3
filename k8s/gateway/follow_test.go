package gateway

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAGatewayWithoutObjectsIsAliveAndNotReadyUntilItHasItsPlace(t *testing.T) {
	t.Parallel()
	w := inMemory(t)
	w.run(t)
	if w.ready() {
		t.Error("ready without any object")
	}
	w.network(t)
	w.peering(t)
	w.eventually(t, "it says what it is", func() bool { return w.report(t) != nil })
	if w.ready() {
		t.Error("ready without a place")
	}
	w.place(t)
	w.eventually(t, "ready", w.ready)
}

func TestF8_RoutesFollowPodsAndNodes(t *testing.T) {
	t.Parallel()
	w := inMemory(t)
	w.network(t)
	w.peering(t)
	w.place(t)
	w.twoNodes(t)
	w.run(t)
	w.eventually(t, "both nodes", w.has("strait_nodes 2"))
	w.eventually(t, "no route to pods outside", w.routes("node-1", "10.0.1.0/24"))

	w.podAddresses(t, "node-1", "10.0.100.6/31")
	w.eventually(t, "a route to the pods outside", w.routes("node-1", "10.0.1.0/24", "10.0.100.6/31"))
	w.podAddresses(t, "node-1", "10.0.100.6/32")
	w.podAddresses(t, "node-2", "10.0.100.7/32")
	w.eventually(t, "the route moved", w.routes("node-2", "10.0.2.0/24", "10.0.100.7/32"))
	w.eventually(t, "and left", w.routes("node-1", "10.0.1.0/24", "10.0.100.6/32"))
	w.podAddresses(t, "node-2")
	w.eventually(t, "no route without the pod", w.routes("node-2", "10.0.2.0/24"))

	must(t, w.detach(t.Context(), "node-1"))
	w.eventually(t, "the node is gone", w.has("strait_nodes 1"))
}

func TestF16_ADeletedPeeringWithdrawsEverythingAndTheProcessStays(t *testing.T) {
	t.Parallel()
	w := inMemory(t)
	w.network(t)
	w.peering(t)
	w.place(t)
	w.twoNodes(t)
	w.run(t)
	w.eventually(t, "both nodes", w.has("strait_nodes 2"))
	must(t, w.admin.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{}))
	w.eventually(t, "no node", w.has("strait_nodes 0"))
	w.eventually(t, "nothing granted, even after a restart", func() bool {
		return !strings.Contains(w.inForce(), "10.0.0.0/16") && !strings.Contains(w.inForce(), "10.71.0.0/16")
	})
	if !w.ready() {
		t.Error("not ready without its Peering")
	}
	w.peering(t)
	w.place(t)
	w.eventually(t, "both nodes again", w.has("strait_nodes 2"))
}
