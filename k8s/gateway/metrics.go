package gateway

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of a gateway in addition to those of package daemon.
type metrics struct {
	api, cached, problems prometheus.Gauge
	announcements         *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		announcements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strait_announcements_total", Help: "Announcements of the remote cluster, by result: accepted or refused.",
		}, []string{"result"}),
		api: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "strait_api_server_up", Help: "1 while the API server answers. The gateway does not need it to forward.",
		}),
		cached: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "strait_config_cached", Help: "1 while the cached configuration is in use because the API server has not answered since the start.",
		}),
		problems: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "strait_config_problems", Help: "Parts of objects that are left out of the configuration; the log has the reasons.",
		}),
	}
	m.announcements.WithLabelValues(resultAccepted)
	m.announcements.WithLabelValues(resultRefused)
	return m
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.api, m.cached, m.problems, m.announcements}
}

const (
	resultAccepted = "accepted"
	resultRefused  = "refused"
)

// announced counts an announcement of the remote cluster.
func (m *metrics) announced(refusal error) {
	result := resultAccepted
	if refusal != nil {
		result = resultRefused
	}
	m.announcements.WithLabelValues(result).Inc()
}
