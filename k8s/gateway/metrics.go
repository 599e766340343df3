package gateway

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of a gateway in addition to those of package daemon.
type metrics struct {
	api, cached, problems prometheus.Gauge
	announcements         *prometheus.CounterVec
	exported, received    prometheus.Gauge
	refused               *prometheus.GaugeVec
	lag                   prometheus.Histogram
}

func newMetrics() *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		announcements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strait_announcements_total", Help: "Announcements of the remote cluster, by result: accepted or refused.",
		}, []string{"result"}),
		api:      gauge("strait_api_server_up", "1 while the API server answers. The gateway does not need it to forward."),
		cached:   gauge("strait_config_cached", "1 while the cached configuration is in use because the API server has not answered since the start."),
		problems: gauge("strait_config_problems", "Parts of objects that are left out of the configuration; the log has the reasons."),
		exported: gauge("strait_exported_services", "Services that this gateway offers to the remote cluster."),
		received: gauge("strait_received_services", "ReceivedServices of the remote cluster, while this gateway is the receiver."),
		refused: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "strait_refused_services", Help: "Services of the remote cluster that are refused, by reason, while this gateway is the receiver.",
		}, []string{"reason"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "strait_export_lag_seconds", Help: "Time from when this gateway learns of a change of an exported Service until the remote cluster has stored it.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30},
		}),
	}
	m.notReceiving()
	m.announcements.WithLabelValues(resultAccepted)
	m.announcements.WithLabelValues(resultRefused)
	return m
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.api, m.cached, m.problems, m.announcements, m.exported, m.received, m.refused, m.lag}
}

func (m *metrics) notReceiving() {
	m.received.Set(0)
	for _, reason := range refusalReasons {
		m.refused.WithLabelValues(reason).Set(0)
	}
}

const (
	resultAccepted = "accepted"
	resultRefused  = "refused"
)

func (m *metrics) announced(refusal error) {
	result := resultAccepted
	if refusal != nil {
		result = resultRefused
	}
	m.announcements.WithLabelValues(result).Inc()
}
