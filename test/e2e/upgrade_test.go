//go:build e2e || nightly

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// scale changes the number of gateways on each side.
func (w *world) scale(t *testing.T, gateways int) {
	t.Helper()
	for _, cluster := range w.names {
		w.setGateways(t, cluster, gateways)
	}
	w.joined(t, gateways)
}

// scaleOne changes the number of gateways of a cluster.
func (w *world) scaleOne(t *testing.T, cluster string, gateways int) {
	t.Helper()
	w.setGateways(t, cluster, gateways)
	w.runs(t, cluster, gateways)
}

func (w *world) setGateways(t *testing.T, cluster string, gateways int) {
	t.Helper()
	w.do(t, "", "kubectl", "--context="+cluster, "patch", "peering", peering[cluster], "--type=merge",
		fmt.Sprintf(`--patch={"spec":{"gateway":{"replicas":%d}}}`, gateways))
}

// peering is the name of the Peering in each cluster.
var peering = map[string]string{"a": "b", "b": "a"}

// replace upgrades both clusters, with that many gateways each, one after the other.
func (w *world) replace(t *testing.T, seen string, gateways int) {
	t.Helper()
	for _, cluster := range w.names {
		w.upgrade(t, cluster, gateways)
	}
	w.answers(t, "a", w.web(t, "a", "metadata.name")[0], seen+":8080", "b")
}

// upgrade upgrades a cluster that has that many gateways, once for each number of them: every pod
// of the installation gets another annotation.
func (w *world) upgrade(t *testing.T, cluster string, gateways int) {
	t.Helper()
	mark := fmt.Sprint(gateways)
	w.do(t, "", "helm", "upgrade", "strait", "charts/strait", "--kube-context="+cluster, "--namespace=strait-system",
		"--set-string=controller.annotations.upgraded="+mark, "--set-string=gateway.annotations.upgraded="+mark, "--set-string=node.annotations.upgraded="+mark,
		"--wait", "--timeout=10m")
	for i := range gateways {
		eventually(t, fmt.Sprintf("gateway %d of %s was replaced", i, cluster), func() error {
			out, err := w.try(t, "", "kubectl", "--context="+cluster, "--namespace=strait-gateways", "get", "pod", fmt.Sprintf("%s-%d", peering[cluster], i),
				`--output=jsonpath={.metadata.annotations.upgraded} {.status.conditions[?(@.type=="Ready")].status}`)
			if err == nil && out != mark+" True" {
				err = fmt.Errorf("upgraded and ready: %q", out)
			}
			return err
		})
	}
	w.joined(t, gateways)
}

// joined waits until both clusters report the peering as ready, with that many gateways, of which
// none is being replaced.
func (w *world) joined(t *testing.T, gateways int) {
	t.Helper()
	for _, cluster := range w.names {
		w.runs(t, cluster, gateways)
	}
}

// runs waits until a cluster has that many gateways, and all of them have links.
func (w *world) runs(t *testing.T, cluster string, gateways int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d gateways of %s", gateways, cluster), func() error {
		out, err := w.try(t, "", "kubectl", "--context="+cluster, "--namespace=strait-gateways", "get", "statefulset", peering[cluster],
			"--output=jsonpath={.status.readyReplicas} {.metadata.generation} {.status.observedGeneration} {.status.currentRevision} {.status.updateRevision}")
		if is := strings.Fields(out); err == nil && (len(is) != 5 || is[0] != fmt.Sprint(gateways) || is[1] != is[2] || is[3] != is[4]) {
			err = fmt.Errorf("ready, generations, revisions: %q", out)
		}
		return err
	})
	w.do(t, "", "strait", "status", "--context="+cluster, "--wait=10m")
}
