package lab

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/test/wait"
)

// Pause is the interval of polling a program, such as requests for metrics: without it,
// waiting labs would use the processors that others need.
const Pause = 20 * time.Millisecond

// Get requests a path of the gateway's observability endpoint, from inside its namespace.
func (g *Gateway) Get(path string) (body string, status int, err error) {
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = g.Site.GW.In(func() error {
				conn, err = new(net.Dialer).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		},
	}}
	response, err := client.Get("http://127.0.0.1:8080" + path)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	return string(all), response.StatusCode, err
}

// Metric sums the series of a metric that have all the labels, given as `key="value"`.
func (g *Gateway) Metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	body, status, err := g.Get("/metrics")
	if err != nil || status != http.StatusOK {
		t.Fatalf("gateway %s: /metrics: status %d, %v", g.Site.Name, status, err)
	}
	return SumSeries(body, name, labels)
}

// SumSeries parses the Prometheus text format: one `name{labels} value` per line.
func SumSeries(body, name string, labels []string) float64 {
	var sum float64
lines:
	for line := range strings.Lines(body) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		seriesName, seriesLabels, _ := strings.Cut(series, "{")
		if seriesName != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains("{"+seriesLabels, "{"+label) && !strings.Contains(seriesLabels, ","+label) {
				continue lines
			}
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			sum += v
		}
	}
	return sum
}

// Drops returns the drop counter of a direction and a reason.
func (g *Gateway) Drops(t *testing.T, direction, reason string) float64 {
	t.Helper()
	return g.Metric(t, "strait_dropped_packets_total", `direction="`+direction+`"`, `reason="`+reason+`"`)
}

// DropTable prints every drop counter that is not zero.
func (g *Gateway) DropTable() string {
	body, _, err := g.Get("/metrics")
	if err != nil {
		return err.Error()
	}
	var table strings.Builder
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "strait_dropped_packets_total{") && !strings.HasSuffix(line, " 0\n") {
			table.WriteString(line)
		}
	}
	return table.String()
}

// Eventually waits, without a time limit of its own, for a condition that takes a program
// to check.
func Eventually(t *testing.T, condition string, done func() bool) {
	t.Helper()
	wait.Until(t, condition, func() bool {
		if done() {
			return true
		}
		time.Sleep(Pause)
		return false
	})
}

// LinkUp reports the state of the gateway's only link.
func (g *Gateway) LinkUp(t *testing.T) bool {
	t.Helper()
	return g.Metric(t, "strait_link_up") == 1
}

// Logged returns how often a text is in the gateway's log.
func (g *Gateway) Logged(text string) int {
	log, _ := os.ReadFile(g.LogFile())
	return strings.Count(string(log), text)
}
