package nodehelper

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"strait.dev/strait/internal/health"
	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/test/metricspage"
)

// metricsOf are those of a helper whose last status was that of the example, where one of
// two gateways answers.
func metricsOf(t *testing.T, kernel string, reports reports) string {
	t.Helper()
	s := status(computeDesired(example()), kernel, map[string]nodeprobe.State{"b-0": nodeprobe.LinksUp}, nil)
	c := prometheus.CollectorFunc(func(to chan<- prometheus.Metric) {
		collect(to, &s, map[string]uint64{"wrong_vni": 3})
		collectRefused(to, map[string]string{"link": "b-0"}, map[node.Refused]uint64{
			{Link: "link", Reason: node.RefusedNode}: 7, {Link: "frames", Reason: node.RefusedFrame}: 5,
		})
	})
	return metricspage.Text(health.NewRegistry(c, reports.repairs, reports.refusals))
}

func TestMetricsPageIsComplete(t *testing.T) {
	metricspage.Check(t, "Node helper", metricsOf(t, "", newReports()))
}

func TestMetricsTellWhatTheStatusSays(t *testing.T) {
	r := newReports()
	done := []node.Operation{{}}
	r.count(node.Report{Done: done})
	r.count(node.Report{Done: done, Repair: true})
	r.count(node.Report{Repair: true}) // the end of trouble
	r.count(node.Report{Err: errors.New("no")})
	text := metricsOf(t, "the kernel does not want to", r)
	for _, line := range []string{
		`strait_node_attached 0`, `strait_node_kernel_refused 1`,
		`strait_node_gateway_up{gateway="b-0"} 1`, `strait_node_gateway_up{gateway="b-1"} 0`,
		`strait_node_gateway_in_use{gateway="b-0"} 0`, `strait_node_gateway_in_use{gateway="b-1"} 1`,
		`strait_node_encapsulation{encapsulation="geneve"} 2`, `strait_node_encapsulation{encapsulation="vxlan"} 0`,
		`strait_node_repairs_total 1`, `strait_node_kernel_refusals_total 1`,
		`strait_node_dropped_frames_total{reason="wrong_vni"} 3`,
		`strait_node_refused_packets_total{gateway="b-0",reason="node_not_granted"} 7`,
		`strait_node_refused_packets_total{gateway="",reason="unknown_source"} 5`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("%s is missing", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
