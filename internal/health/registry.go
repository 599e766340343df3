package health

import (
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// pauses is how long the process takes to stop its threads for anything but garbage collection, which has a metric of its own.
var pauses = regexp.MustCompile(`^/sched/pauses/stopping/other:seconds$`)

// NewRegistry returns a registry with the metrics of the Go runtime, of the process, and of more.
func NewRegistry(more ...prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: pauses})),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	r.MustRegister(more...)
	return r
}
