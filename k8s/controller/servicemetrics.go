package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"strait.dev/strait/k8s/api/v1alpha1"
)

var (
	peeringServicesDesc = describe("peering_services", "Services that the remote cluster exports, by whether they are imported.", "peering", "state")
	contestedDesc       = describe("contested_objects", "Objects of exports and imports that another writer changes again and again; of the controller that leads.")
	servicesSyncedDesc  = describe("peering_services_synced", "1 while the exports of the remote cluster are received and complete; absent if none are to be imported.", "peering")
)

// collectServices reports the imports over a Peering. They are absent while the Peering has
// no status of them, and if it is to import nothing.
func (c *controller) collectServices(to chan<- prometheus.Metric, p *v1alpha1.Peering) {
	s := p.Status.Services
	if s == nil || p.Spec.Services.ImportFrom == v1alpha1.ImportNone {
		return
	}
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
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
