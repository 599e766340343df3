//go:build nightly

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A pod of a pings one of b while a node of a is drained and while a node of b loses its
// power, each with gateways on it: first two gateways on each side, then one.
func TestF2_F8_NodesAreDrainedAndLost(t *testing.T) {
	w := newWorld(t)
	w.install(t)
	w.join(t)
	w.joined(t, 2)
	web := w.podsMeet(t)
	w.drainPinged(t, web, 2)
	w.scale(t, 1)
	w.drainPinged(t, web, 1)
	w.scale(t, 2)

	// web is the last server of b. The other node of b is lost.
	stop := w.ping(t, w.web(t, "a", "metadata.name")[0], web)
	lost := w.web(t, "b", "spec.nodeName")[0]
	begun := time.Now()
	w.b.PowerOff(t, nodeNumber(t, "b", lost))
	w.gatewaysLeave(t, "b", lost)
	back := time.Since(begun)
	sent, missing := stop()
	note("a node of b lost its power: %.1f s without packets; its gateways were back after %.0f s", float64(missing)*interval.Seconds(), back.Seconds())
	if bound := sent / 10; sent < 100 || missing > bound {
		t.Errorf("of %d packets, %d were lost with the node", sent, missing)
	}
}

// gatewaysLeave waits until both gateways of a cluster are ready on other nodes.
func (w *world) gatewaysLeave(t *testing.T, cluster, lost string) {
	t.Helper()
	for i := range 2 {
		eventually(t, fmt.Sprintf("gateway %d of %s is ready on another node", i, cluster), func() error {
			out, err := w.try(t, "", "kubectl", "--context="+cluster, "--namespace=strait-gateways", "get", "pod", fmt.Sprintf("%s-%d", peering[cluster], i),
				`--output=jsonpath={.spec.nodeName} {.status.conditions[?(@.type=="Ready")].status}`)
			if err == nil && (strings.HasPrefix(out, lost+" ") || !strings.HasSuffix(out, " True")) {
				err = fmt.Errorf("node and readiness: %q", out)
			}
			return err
		})
	}
}

// drainPinged drains the node of gateway 0 of cluster a while a pod of the other node pings.
func (w *world) drainPinged(t *testing.T, seen string, gateways int) {
	t.Helper()
	node := w.do(t, "", "kubectl", "--context=a", "--namespace=strait-gateways", "get", "pod", peering["a"]+"-0", "--output=jsonpath={.spec.nodeName}")
	i := slices.IndexFunc(w.web(t, "a", "spec.nodeName"), func(other string) bool { return other != node })
	stop := w.ping(t, w.web(t, "a", "metadata.name")[i], seen)
	w.do(t, "", "kubectl", "--context=a", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=10m")
	w.joined(t, gateways)
	w.do(t, "", "kubectl", "--context=a", "uncordon", node)
	w.joined(t, gateways)
	sent, lost := stop()
	note("%.1f s without packets while a node was drained, %d gateways on each side", float64(lost)*interval.Seconds(), gateways)
	if bound := sent / 20; sent < 100 || lost > bound { // none on a machine with enough capacity
		t.Errorf("of %d packets sent during the drain with %d gateways, %d were lost", sent, gateways, lost)
	}
}
