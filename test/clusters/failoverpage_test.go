package clusters

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/test/flows"
)

// exampleRun returns a small run.
func exampleRun() *failoverRun {
	r := &failoverRun{
		Time: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), Machine: result.Machine{CPU: "CPU", Cores: 2, Strait: "abc"},
		Flows: 200, Period: 10,
	}
	for i, api := range []string{apiUp, apiAway} {
		s := faultSample{Topology: "2x2", Fault: nameKilled, API: api, Victim: "a/b-0", Outages: map[string][]float64{}, Overflow: 3, ProbesLost: 1, RTO: 204, RTO99: 340}
		for ms := range 100 {
			s.add("udp4", true, false, flows.Outcome{Outage: time.Duration(1+ms) * 10 * time.Millisecond, Lost: 1})
			s.add("tcp6", true, false, flows.Outcome{Outage: time.Duration(2+ms) * 10 * time.Millisecond, Ended: i})
		}
		s.add("udp6", false, false, flows.Outcome{Outage: 7 * time.Millisecond, Lost: 2})
		r.Faults = append(r.Faults, s)
	}
	return r
}

func TestTheFailoverPageHasEveryResult(t *testing.T) {
	t.Parallel()
	hasAll(t, exampleRun().page(),
		"2 times, a gateway was killed. UDP flows that used it had an outage of 0.50 s (median), 0.99 s (99th percentile), 1.00 s (longest); TCP flows 0.51 s, 1.00 s, 1.01 s.",
		"The other flows lost 4 messages (2 flows).",
		"that was 0.20 s (median) and 0.34 s (99th percentile);",
		"| 2x2, gateway killed: outage of UDP flows that used it, 99th percentile | ≤ 1 s | 0.99 s | met |",
		"| 2x2, gateway killed: messages lost by other flows | 0 | 4 | missed |",
		"| 2x2 | gateway killed | up | 1 | 100 | 500 | 990 | 1000 | 100 | 510 | 1000 | 1010 | 0 | 1 | 2 | 0 | 7 | 3 | 1 |",
		"| 2x2 | gateway killed | away | 1 | 100 | 500 | 990 | 1000 | 100 | 510 | 1000 | 1010 | 100 | 1 | 2 | 0 | 7 | 3 | 1 |",
	)
}

func TestThePageOfAnEmptyRunHasNoFigures(t *testing.T) {
	t.Parallel()
	if page := new(failoverRun).page(); strings.Contains(page, "NaN") {
		t.Error(page)
	}
}

func TestThePlotOfOutagesHasEachProtocol(t *testing.T) {
	t.Parallel()
	svg, err := exampleRun().plot()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"gateway killed · 2x2 · UDP: 500 ms", "gateway killed · 2x2 · TCP: 510 ms"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the plot lacks %q", want)
		}
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestResultsOfFailoverAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	r := exampleRun()
	readAsWritten(t, r, new(failoverRun), len(r.Faults))
}

func TestTheFailoverPageIsCurrent(t *testing.T) {
	t.Parallel()
	pageIsCurrent(t, "failover", new(failoverRun))
}
