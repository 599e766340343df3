package gateway

import "github.com/prometheus/client_golang/prometheus"

// metrics are those that a gateway has besides the ones of package daemon.
type metrics struct{ api, cached, problems prometheus.Gauge }

func newMetrics() *metrics {
	return &metrics{
		api: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "strait_api_server_up", Help: "1 while the API server answers. The gateway does not need it to forward.",
		}),
		cached: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "strait_config_cached", Help: "1 while the configuration is the cached one, since the API server has not answered after the start.",
		}),
		problems: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "strait_config_problems", Help: "Parts of objects that are left out of the configuration; the log has the reasons.",
		}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.api, m.cached, m.problems}
}
