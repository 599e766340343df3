//go:build apiserver

package gateway

import (
	"net"
	"strings"
	"testing"

	"strait.dev/strait/test/kube"
)

func TestF5_F24_AGatewayOutlivesItsAPIServerAndStartsWithoutIt(t *testing.T) {
	w := newCluster(t, kube.Start(t))
	w.network(t)
	w.peering(t)
	w.place(t)
	w.twoNodes(t)
	w.peer(t)
	w.podAddresses(t, "node-1", "10.0.100.7/32")
	w.run(t)
	w.eventually(t, "the pod's route", w.routes("node-1", "10.0.1.0/24", "10.0.100.7/32"))
	w.eventually(t, "the link is up", w.has(`strait_link_up{peer="b-0"} 1`))
	before := w.inForce()

	w.StopServer(t)
	if !w.ready() || !w.has(`strait_link_up{peer="b-0"} 1`)() || !w.has("strait_nodes 2")() || w.inForce() != before {
		t.Errorf("without the API server something else is in force:\n%s", w.inForce())
	}
	w.eventually(t, "the outage is told", w.has("strait_api_server_up 0"))
	w.halt(t)
	holder, err := net.ListenUDP("udp4", &net.UDPAddr{Port: int(w.options.WireGuardPort)})
	must(t, err)
	w.run(t)
	w.eventually(t, "WireGuard's port is in use", func() bool {
		return strings.Contains(w.log.String(), "the cached configuration cannot be applied; trying again")
	})
	if w.ready() {
		t.Error("ready without WireGuard's port")
	}
	must(t, holder.Close())
	w.eventually(t, "ready from the cache", w.ready)
	w.eventually(t, "it says so", w.has("strait_config_cached 1"))
	w.eventually(t, "the link is up again", w.has(`strait_link_up{peer="b-0"} 1`))
	if !w.has("strait_nodes 2")() || w.inForce() != before {
		t.Errorf("after the restart something else is in force:\n%s", w.inForce())
	}

	w.StartServer(t)
	w.podAddresses(t, "node-1")
	w.attach(t, "node-3", 3, "192.0.2.23", "10.80.0.13", "10.0.3.0/24")
	w.eventually(t, "the node that came after", w.has("strait_nodes 3"))
	w.eventually(t, "the pod that went meanwhile", w.routes("node-1", "10.0.1.0/24"))
	w.eventually(t, "nothing is from the cache", w.has("strait_config_cached 0"))
	w.eventually(t, "the end of the outage is told", w.has("strait_api_server_up 1"))
}

func TestF6_WatchesThatBreakOrGoBackInTimeLeadToWhatTheServerSays(t *testing.T) {
	w := newCluster(t, kube.Start(t))
	w.network(t)
	w.peering(t)
	w.place(t)
	w.twoNodes(t)
	w.run(t)
	w.eventually(t, "both nodes", w.has("strait_nodes 2"))
	past := w.Snapshot(t)

	// Events that fall into the time between two watches.
	w.attach(t, "node-3", 3, "192.0.2.23", "10.80.0.13")
	w.eventually(t, "three nodes", w.has("strait_nodes 3"))
	w.StopServer(t)
	w.StartServer(t)
	must(t, w.detach(t.Context(), "node-1"))
	w.eventually(t, "the node was deleted while there was no watch", w.has("strait_nodes 2"))

	// etcd is put back: node-1 is there again, node-3 never was.
	w.Restore(t, past)
	w.eventually(t, "what the server says now", func() bool { return w.node("node-1") != nil && w.node("node-3") == nil })
	if !w.has("strait_nodes 2")() || !w.ready() {
		t.Error("another number of nodes, or not ready")
	}

	// A server that accepts and does not answer.
	w.PauseServer(t)
	if !w.ready() || !w.has("strait_nodes 2")() {
		t.Error("a server that hangs changes what is in force")
	}
	w.ResumeServer(t)
	must(t, w.detach(t.Context(), "node-2"))
	w.eventually(t, "one node", w.has("strait_nodes 1"))
}
