// Package metrics serves what a borrower and a lender measure as Prometheus metrics. The metrics
// of each carry the name of its Peering; no label holds what the other cluster chooses.
package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/lender"
	"strait.dev/strait/offload/protocol"
)

var (
	borrowerUpDesc     = describe("borrower_lender_up", "1 while messages of the lender arrive; without them the node is not ready.")
	borrowerSilentDesc = describe("borrower_lender_silent_seconds", "Time since the last message of the lender; absent before the first.")
	borrowerPodsDesc   = describe("borrower_pods", "Pods of the virtual node, by state.", "state")

	waitingDesc = describe("offload_waiting_writes", "Changes that the other cluster causes and that wait, because they exceed the budget of the agent.")

	lenderUpDesc       = describe("lender_borrower_up", "1 while the borrower reads the status of its pods.")
	lenderListDesc     = describe("lender_list_age_seconds", "Time since the last list of pods of the borrower, which sends one after a change; absent before the first.")
	lenderTwinsDesc    = describe("lender_twins", "Pods of the borrower, by state.", "state")
	lenderRefusedDesc  = describe("lender_refused_twins", "Pods of the borrower that get no twin, by reason.", "reason")
	lenderOutsideDesc  = describe("lender_refused_endpoints", "Endpoints of Services of the other cluster that are left out, because the Peering does not grant their addresses.")
	lenderRequestsDesc = describe("lender_requests_total", "Lists, templates and contents that the borrower sent, by the code of the answer.", "code")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("strait_"+name, help, append([]string{"peering"}, labels...), nil)
}

type collector func(to chan<- prometheus.Metric)

// Describe implements prometheus.Collector. The metrics are not announced: some are absent at first.
func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(to chan<- prometheus.Metric) { c(to) }

// Borrower returns the metrics of the borrower of a Peering.
func Borrower(peering string, s *borrower.Stats) prometheus.Collector {
	return collector(func(to chan<- prometheus.Metric) {
		now := time.Now()
		m := s.Read(now)
		gauge(to, borrowerUpDesc, boolean(m.Up), peering)
		gauge(to, waitingDesc, float64(m.Waiting), peering)
		since(to, borrowerSilentDesc, now, m.Received, peering)
		for state, n := range m.Pods {
			gauge(to, borrowerPodsDesc, float64(n), peering, string(state))
		}
	})
}

var twinStates = []protocol.State{protocol.StateUnknown, protocol.StatePending, protocol.StateRefused, protocol.StateMade, protocol.StateGone}

// Lender returns the metrics of the lender of a Peering.
func Lender(peering string, s *lender.Stats) prometheus.Collector {
	return collector(func(to chan<- prometheus.Metric) {
		m := s.Read()
		gauge(to, lenderUpDesc, boolean(m.Streams > 0), peering)
		gauge(to, waitingDesc, float64(m.Waiting), peering)
		since(to, lenderListDesc, time.Now(), m.Listed, peering)
		if m.Twins != nil {
			for _, state := range twinStates {
				gauge(to, lenderTwinsDesc, float64(m.Twins[state]), peering, strings.ToLower(string(state)))
			}
			gauge(to, lenderOutsideDesc, float64(m.Outside), peering)
		}
		for reason, n := range m.Refused {
			gauge(to, lenderRefusedDesc, float64(n), peering, reason)
		}
		for code, n := range m.Requests {
			to <- prometheus.MustNewConstMetric(lenderRequestsDesc, prometheus.CounterValue, float64(n), peering, strconv.Itoa(code))
		}
	})
}

// Requests makes a client count its requests to the API server, and returns the metric. It is
// called before the client is made.
func Requests(peering string, config *rest.Config) prometheus.Collector {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "strait_offload_api_requests_total", Help: "Requests to the API server, by the code of the answer; error if there was none.",
		ConstLabels: prometheus.Labels{"peering": peering},
	}, []string{"code"})
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return client.RoundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			code := "error"
			if err == nil {
				code = strconv.Itoa(answer.StatusCode)
			}
			counter.WithLabelValues(code).Inc()
			return answer, err
		})
	})
	return counter
}

func gauge(to chan<- prometheus.Metric, desc *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
}

// since reports the time since a moment, unless it is zero.
func since(to chan<- prometheus.Metric, desc *prometheus.Desc, now, then time.Time, labels ...string) {
	if !then.IsZero() {
		gauge(to, desc, now.Sub(then).Seconds(), labels...)
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
