package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/controller/workload"
)

type passes struct {
	total    *prometheus.CounterVec
	duration prometheus.Histogram
}

func newPasses() passes {
	p := passes{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strait_controller_passes_total", Help: "Passes over all objects, by result: ok, or error if the pass failed.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "strait_controller_pass_duration_seconds", Help: "Duration of passes.",
			// 10 ms to 2.7 minutes: from a small cluster to the first pass of one of 5 000 nodes.
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 15),
		}),
	}
	p.total.WithLabelValues("ok")
	p.total.WithLabelValues("error")
	return p
}

func (p passes) observe(took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	p.total.WithLabelValues(result).Inc()
	p.duration.Observe(took.Seconds())
}

var (
	leaderDesc    = describe("controller_leader", "1 for the controller that holds the lease.")
	conditionDesc = describe("peering_condition", "1 while a condition of the Peering is true, 0 while it is false; absent while it is unknown.", "peering", "condition")
	wantedKeyDesc = describe("peering_key_generation", "Generation of the gateways' keys that the Peering requests.", "peering")
	readyDesc     = describe("gateway_ready", "1 while the gateway's pod is ready, for each gateway that the Peering requests.", "peering", "gateway")
	keyDesc       = describe("gateway_key_generation", "Generation of the key that the gateway uses; absent before it has one.", "peering", "gateway")
	keyAgeDesc    = describe("gateway_key_age_seconds", "Time since the controller first saw the gateway use its key; absent before it has one.", "peering", "gateway")
	attachedDesc  = describe("node_attachments", "Nodes by whether they reach all gateways.", "ready")
	podDesc       = describe("pod_problems", "Reasons why addresses of pods have no route from remote clusters; the log of the controller that leads lists them.")
	poolSizeDesc  = describe("pool_addresses", "Size of a pool of the ClusterNetwork in addresses.", "pool", "family")
	poolUsedDesc  = describe("pool_used_addresses", "Addresses of the pool that are in use.", "pool", "family")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("strait_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector. It lists all metrics, although most are absent
// before the caches are synced.
func (c *controller) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leaderDesc, conditionDesc, wantedKeyDesc, readyDesc, keyDesc, keyAgeDesc, attachedDesc, podDesc, poolSizeDesc, poolUsedDesc,
		peeringServicesDesc, servicesSyncedDesc, contestedDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector: it reads the caches. A controller that waits for
// the lease reports the same as the leader, so that no metric disappears when the lease
// changes hands.
func (c *controller) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	gauge(leaderDesc, boolean(c.state.leads.Load()))
	if !c.state.synced.Load() {
		return
	}
	peerings := c.peerings.List()
	pods := c.gatewayPods(peerings)
	for _, p := range peerings {
		for _, condition := range p.Status.Conditions {
			if condition.Status != metav1.ConditionUnknown {
				gauge(conditionDesc, boolean(condition.Status == metav1.ConditionTrue), p.Name, condition.Type)
			}
		}
		gauge(wantedKeyDesc, float64(workload.Generation(p)), p.Name)
		for _, name := range gatewayNames(p) {
			gauge(readyDesc, boolean(pods.ready(name)), p.Name, name)
		}
		for _, g := range p.Status.Gateways {
			if g.KeyGeneration > 0 {
				gauge(keyDesc, float64(g.KeyGeneration), p.Name, g.Name)
			}
			if g.KeySince != nil {
				gauge(keyAgeDesc, time.Since(g.KeySince.Time).Seconds(), p.Name, g.Name)
			}
		}
		c.collectServices(gauge, p)
	}
	attached, detached := 0, 0
	for _, a := range c.attachments.List() {
		if meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionReady) {
			attached++
		} else {
			detached++
		}
	}
	gauge(attachedDesc, float64(attached), "true")
	gauge(attachedDesc, float64(detached), "false")
	contested := 0
	if c.multicluster != nil {
		contested = c.multicluster.Contested(time.Now())
	}
	gauge(contestedDesc, float64(contested))
	gauge(podDesc, float64(c.published.Problems()))
	if network, ok := c.networks.Get(v1alpha1.ClusterNetworkName); ok {
		for _, u := range allocation.PoolUses(network.Spec, c.claims.List()) {
			gauge(poolSizeDesc, u.Size, u.Pool, u.Family)
			gauge(poolUsedDesc, u.Used, u.Pool, u.Family)
		}
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var (
	peeringServicesDesc = describe("peering_services", "Services that the remote cluster exports, by whether they are imported.", "peering", "state")
	contestedDesc       = describe("contested_objects", "Objects of exports and imports that another writer changes again and again; of the controller that leads.")
	servicesSyncedDesc  = describe("peering_services_synced", "1 while the exports of the remote cluster are received and complete; absent if none are to be imported.", "peering")
)

// collectServices reports the imports over a Peering. They are absent while the Peering has
// no status of them, and if it is to import nothing.
func (c *controller) collectServices(gauge func(*prometheus.Desc, float64, ...string), p *v1alpha1.Peering) {
	s := p.Status.Services
	if s == nil || p.Spec.Services.ImportFrom == v1alpha1.ImportNone {
		return
	}
	gauge(peeringServicesDesc, float64(s.Imported), p.Name, "imported")
	gauge(peeringServicesDesc, float64(s.Refused), p.Name, "refused")
	gauge(peeringServicesDesc, float64(s.Failed), p.Name, "failed")
	synced := false
	if report, ok := c.reports.Get(c.gateways.Namespace + "/" + s.Receiver); ok && s.Receiver != "" {
		received := report.Status.Services
		synced = received != nil && received.From != "" && received.Synced
	}
	gauge(servicesSyncedDesc, boolean(synced), p.Name)
}
