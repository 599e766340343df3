//go:build nightly

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/internal/endpoint"
)

// A node of b with a gateway loses its power, while datagrams and TCP connections cross between
// pods of the other nodes.
func TestF8_ANodeIsLost(t *testing.T) {
	w := newWorld(t)
	w.install(t)
	w.join(t)
	w.joined(t, 2)
	lost := w.do(t, "", "kubectl", "--context=b", "--namespace=strait-gateways", "get", "pod", peering["b"]+"-0", "--output=jsonpath={.spec.nodeName}")
	traffic := w.startTraffic(t, lost)
	var back time.Duration
	is := traffic.during(t, 0, func() {
		begun := time.Now()
		w.b.PowerOff(t, nodeNumber(t, "b", lost))
		w.gatewaysLeave(t, "b", lost)
		back = time.Since(begun)
	})
	note("a node of b lost its power: its gateways were back after %.0f s; %s", back.Seconds(), costs(is))
	withNode(t, is)
}

// costs describes what flows have lost.
func costs(is endpoint.StreamsResult) string {
	return fmt.Sprintf("%d of %d datagrams lost, %.1f s without an answer", is.Lost, is.Sent, is.Gap.Seconds())
}

// withNode checks what flows have lost with a node.
func withNode(t *testing.T, is endpoint.StreamsResult) {
	t.Helper()
	if is.Sent < 100 || is.Lost > is.Sent/10 {
		t.Errorf("with the node, %s", costs(is))
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
