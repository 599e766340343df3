package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
)

func run(t *testing.T) *result.Run {
	t.Helper()
	m := result.Machine{CPU: "<CPU & co>", Kernel: "6.18", Cores: 2, OS: "linux"}
	r := result.New("strait bench", m, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	for i, v := range []float64{100, 400, 200} {
		for _, s := range []result.Sample{
			{Test: "rtt/flow=new", Subject: "udp", Repetition: i + 1, Metrics: map[string]float64{"p50-ns": v, "loss": 0}},
			{Test: "rtt/flow=new", Subject: "gateways", Mode: "nogro", Repetition: i + 1, Metrics: map[string]float64{"p50-ns": 2 * v}},
			{Test: "idle", Subject: "gateway", Repetition: i + 1, Metrics: map[string]float64{"B/peering": v}},
		} {
			if err := r.Add(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

func TestThePageHasEveryFigureAndNeedsNoNetwork(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := HTML(&b, run(t)); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"<h2>rtt</h2>", "<h2>idle</h2>", "200 ns", "400 ns", "100 ns", "150 %", "200 B/peering",
		"flow=new · nogro · gateways", "&lt;CPU &amp; co&gt;", "less is better", "2026-11-20 12:00:00 UTC",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"http:", "https:", "src=", "@import", "url("} {
		if strings.Contains(page, not) {
			t.Errorf("the page has %q: it must stand alone", not)
		}
	}
}

func TestPlotsAreWellFormed(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := HTML(&b, run(t)); err != nil {
		t.Fatal(err)
	}
	plots := 0
	for rest := b.String(); ; plots++ {
		_, after, ok := strings.Cut(rest, "<svg ")
		if !ok {
			break
		}
		var body string
		body, rest, _ = strings.Cut(after, "</svg>")
		d := xml.NewDecoder(strings.NewReader("<svg " + body + "</svg>"))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in <svg %s", err, body)
			}
		}
	}
	if plots != 3 {
		t.Errorf("%d plots, want p50-ns, loss and B/peering", plots)
	}
}

func TestBarsShareAScaleThatBeginsAtZero(t *testing.T) {
	t.Parallel()
	p := sectionsOf(run(t).Samples)[0].plot("p50-ns")
	if len(p.Bars) != 2 {
		t.Fatalf("%d bars", len(p.Bars))
	}
	udp, gateways := p.Bars[0], p.Bars[1]
	if math.Abs(2*udp.Length-gateways.Length) > 0.11 {
		t.Errorf("200 is %v long, 400 is %v", udp.Length, gateways.Length)
	}
	if gateways.High != labelWidth+barWidth || udp.Low != labelWidth+barWidth/8.0 || len(udp.Dots) != 3 || udp.Dots[1] != udp.High {
		t.Errorf("udp %+v, gateways %+v", udp, gateways)
	}
	for _, b := range sectionsOf(run(t).Samples)[0].plot("loss").Bars {
		if b.Length != 0 || math.IsNaN(b.High) {
			t.Errorf("a bar of nothing is %+v", b)
		}
	}
}
