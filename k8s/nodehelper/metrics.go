package nodehelper

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
)

// reports counts what came of the kernel.
type reports struct{ repairs, refusals prometheus.Counter }

func newReports() reports {
	return reports{
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strait_node_repairs_total", Help: "Times that somebody else had changed what Strait set up on the node, and it was repaired.",
		}),
		refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strait_node_kernel_refusals_total", Help: "Times that the kernel did not become what it should be; the log has the reasons.",
		}),
	}
}

func (r reports) count(of node.Report) {
	if of.Repair && len(of.Done) > 0 {
		r.repairs.Inc()
	}
	if of.Err != nil {
		r.refusals.Inc()
	}
}

var (
	attachedDesc      = describe("node_attached", "1 while the node sends to all gateways that there are: the condition Ready of its NodeAttachment.")
	gatewayDesc       = describe("node_gateway_up", "1 while the gateway answers the node over the overlay.", "gateway")
	encapsulationDesc = describe("node_encapsulation", "Gateways that the node reaches over an encapsulation.", "encapsulation")
	refusedDesc       = describe("node_kernel_refused", "1 while the kernel is not what it should be, or somebody undoes what Strait sets up again and again.")
	droppedDesc       = describe("node_dropped_frames_total", "Frames that the helper itself dropped, where it wraps them for want of Geneve and VXLAN in the kernel.", "reason")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("strait_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector. It names all metrics, though most are absent
// before objects were read.
func (h *helper) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{attachedDesc, gatewayDesc, encapsulationDesc, refusedDesc, droppedDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector: it tells the last status, written or not.
func (h *helper) Collect(to chan<- prometheus.Metric) {
	collect(to, h.state.last.Load(), h.Kernel.Dropped())
}

// collect tells a status, unless it is nil, and frames that were dropped, by reason.
func collect(to chan<- prometheus.Metric, last *v1alpha1.NodeAttachmentStatus, dropped map[string]uint64) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	for reason, frames := range dropped {
		to <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(frames), reason)
	}
	if last == nil {
		return
	}
	ready := last.Conditions[0] // there is no other
	gauge(attachedDesc, boolean(ready.Status == metav1.ConditionTrue))
	gauge(refusedDesc, boolean(ready.Reason == reasonKernel))
	used := map[v1alpha1.Encapsulation]int{v1alpha1.Geneve: 0, v1alpha1.VXLAN: 0, v1alpha1.Userspace: 0}
	for _, g := range last.Gateways {
		gauge(gatewayDesc, boolean(g.Ready), g.Name)
		if g.Encapsulation != "" {
			used[g.Encapsulation]++
		}
	}
	for encapsulation, gateways := range used {
		gauge(encapsulationDesc, float64(gateways), string(encapsulation))
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
