package nodehelper

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
)

type reports struct{ repairs, refusals prometheus.Counter }

func newReports() reports {
	return reports{
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strait_node_repairs_total", Help: "Repairs of Strait's configuration of the node after another process had changed it.",
		}),
		refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "strait_node_kernel_refusals_total", Help: "Failed attempts to apply the desired state to the kernel; the log has the reasons.",
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
	attachedDesc      = describe("node_attached", "1 while the node reaches all gateways: the condition Ready of its NodeAttachment.")
	gatewayDesc       = describe("node_gateway_up", "1 while the gateway answers the node over the overlay.", "gateway")
	usedDesc          = describe("node_gateway_in_use", "1 while the node sends packets to the gateway. It spreads flows over all gateways that forward.", "gateway")
	encapsulationDesc = describe("node_encapsulation", "Gateways by the encapsulation that the node uses for them.", "encapsulation")
	refusedDesc       = describe("node_kernel_refused", "1 while the desired state cannot be applied to the kernel, or another process keeps reverting it.")
	refusedPackets    = describe("node_refused_packets_total", "Packets from gateways that the node refused: of frames that no gateway sends to it (the gateway is empty), from sources outside of the Peering, to other destinations than pods of the node, and connections to the node itself that the Peering denies.", "gateway", "reason")
	droppedDesc       = describe("node_dropped_frames_total", "Packets dropped by the helper when it encapsulates them in userspace because the kernel has neither Geneve nor VXLAN.", "reason")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("strait_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector. It lists all metrics, although most are absent
// before the caches are synced.
func (h *helper) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{attachedDesc, gatewayDesc, usedDesc, encapsulationDesc, refusedDesc, refusedPackets, droppedDesc} {
		to <- d
	}
}

func (h *helper) Collect(to chan<- prometheus.Metric) {
	collect(to, h.state.last.Load(), h.Kernel.Dropped())
	if links := h.state.links.Load(); links != nil {
		refused, err := h.Kernel.Refused()
		if err != nil {
			to <- prometheus.NewInvalidMetric(refusedPackets, err)
			return
		}
		collectRefused(to, *links, refused)
	}
}

// collectRefused reports the refused packets by gateway and reason. links are the gateways by link.
func collectRefused(to chan<- prometheus.Metric, links map[string]string, refused map[node.Refused]uint64) {
	type labels struct{ gateway, reason string }
	sums := map[labels]uint64{}
	for of, packets := range refused {
		sums[labels{links[of.Link], of.Reason}] += packets // of no gateway: frames, and links that are about to end
	}
	for of, packets := range sums {
		to <- prometheus.MustNewConstMetric(refusedPackets, prometheus.CounterValue, float64(packets), of.gateway, of.reason)
	}
}

// collect reports a status, unless it is nil, and the dropped packets by reason.
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
	ready := last.Conditions[0] // the only condition
	gauge(attachedDesc, boolean(ready.Status == metav1.ConditionTrue))
	gauge(refusedDesc, boolean(ready.Reason == reasonKernel))
	used := map[v1alpha1.Encapsulation]int{v1alpha1.Geneve: 0, v1alpha1.VXLAN: 0, v1alpha1.Userspace: 0}
	for _, g := range last.Gateways {
		gauge(gatewayDesc, boolean(g.Ready), g.Name)
		gauge(usedDesc, boolean(g.InUse), g.Name)
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
