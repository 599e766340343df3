package model

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
)

// made is a run with known figures: by default every stage except the overlay's two takes
// 100 ns, the reader 300, the writer 200, the generator 100, and the hand-offs 300, on two
// cores with an efficiency of 0.8.
type made struct {
	receive, send float64            // ns, at nodes' sockets
	whole         float64            // ns
	measured      map[string]float64 // packets per second by mode, unless 0.8 of two cores
	without       string             // samples of this test are left out
	cores         int
}

func madeRun() made { return made{receive: 280, send: 190, whole: 1300, cores: 2} }

func (m made) run(t *testing.T) *result.Run {
	t.Helper()
	r := result.New("strait bench", result.Machine{Cores: m.cores, GOMAXPROCS: m.cores}, time.Unix(0, 0))
	add := func(test, mode, subject string, metrics map[string]float64) {
		if m.without != "" && strings.HasPrefix(test, m.without) {
			return
		}
		if err := r.Add(result.Sample{Test: test, Mode: mode, Subject: subject, Repetition: 1, Metrics: metrics}); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []int{smallest, largest} {
		for subject, cost := range map[string]float64{"egress": 10, "ingress": 10, "copy": 10, "seal": 100, "open": 100} {
			add(fmt.Sprintf("packet/size=%d", size), "", subject, map[string]float64{"ns/op": cost})
		}
	}
	for _, l := range loads {
		// Between gateways a send takes 100 ns, a receive 90 and the copy 10. Nodes'
		// sockets take the same in mode wire.
		add("socket/size="+l.name, nogro, "receive", map[string]float64{cpuUnit: m.receive})
		add("socket/size="+l.name, nogro, "send", map[string]float64{cpuUnit: m.send})
		add("socket/size="+l.name, wire, "receive", map[string]float64{cpuUnit: 90})
		add("socket/size="+l.name, wire, "send", map[string]float64{cpuUnit: 100})
		for _, mode := range modes {
			measured := m.measured[mode]
			if measured == 0 {
				measured = 0.8 * float64(m.cores) * second / m.whole
			}
			add("throughput/size="+l.name, mode, "udp", map[string]float64{cpuUnit: 100})
			add("throughput/size="+l.name, mode, "gateways", map[string]float64{cpuUnit: m.whole, "pdr-pkts/s": measured})
		}
	}
	return r
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

func predict(t *testing.T, r *result.Run, lineRate float64) *Prediction {
	t.Helper()
	p, err := Predict(r, lineRate)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Prediction) find(t *testing.T, load, mode string, gateways, lanes, cores int) Row {
	t.Helper()
	for _, r := range p.Rows {
		if r.Load == load && r.Mode == mode && r.Gateways == gateways && r.Lanes == lanes && r.Cores == cores {
			return r
		}
	}
	t.Fatalf("no row of %s %s with %d gateways, %d lanes, %d cores", load, mode, gateways, lanes, cores)
	return Row{}
}

func TestStagesIncludeAShareOfTheHandOffs(t *testing.T) {
	t.Parallel()
	p := predict(t, madeRun().run(t), 1e15)
	c := p.Costs[0]
	if c.Load != "64" || c.Mode != nogro || !near(c.HandOffs, 300) {
		t.Fatalf("%+v", c)
	}
	want := [2][3]float64{{400, 100, 150}, {200, 100, 250}}
	for i, side := range c.Sides {
		for j, s := range side.Stages {
			if !near(s.CPU, want[i][j]) {
				t.Errorf("%s takes %v ns, want %v", s.Name, s.CPU, want[i][j])
			}
		}
	}
	if !near(c.Sides[0].CPU, 650) || !near(c.Sides[1].CPU, 550) {
		t.Errorf("egress takes %v, ingress %v", c.Sides[0].CPU, c.Sides[1].CPU)
	}
	if !near(p.Efficiency, 0.8) {
		t.Errorf("efficiency is %v", p.Efficiency)
	}
}

func TestEveryRowNamesItsBound(t *testing.T) {
	t.Parallel()
	slowWriter := madeRun()
	slowWriter.receive, slowWriter.send = 190, 280
	for name, c := range map[string]struct {
		made                   made
		lineRate               float64
		gateways, lanes, cores int
		packets                float64
		bound                  string
	}{
		"one core":              {madeRun(), 1e15, 1, 1, 1, 0.8 * second / 650, "CPU: egress"},
		"many cores, one lane":  {madeRun(), 1e15, 1, 1, 16, second / 400., "serial stage: overlay reader"},
		"four lanes":            {madeRun(), 1e15, 1, 4, 16, 4 * second / 400., "serial stage: overlay reader"},
		"more lanes than cores": {madeRun(), 1e15, 1, 16, 16, 16 * 0.8 * second / 650, "CPU: egress"},
		"eight gateways":        {madeRun(), 1e15, 8, 1, 16, 8 * second / 400., "serial stage: overlay reader"},
		"a slow line":           {madeRun(), 1e9, 1, 1, 16, 1e9 / (8 * (64 + 98)), "line rate"},
		"a line each":           {madeRun(), 1e9, 4, 1, 4, 4 * 1e9 / (8 * (64 + 98)), "line rate"},
		"ingress is dearer":     {slowWriter, 1e15, 1, 1, 16, second / 340., "serial stage: overlay writer"},
	} {
		r := predict(t, c.made.run(t), c.lineRate).find(t, "64", nogro, c.gateways, c.lanes, c.cores)
		if !near(r.Packets, c.packets) || r.Bound != c.bound || !near(r.Bits, 8*64*c.packets) {
			t.Errorf("%s: %+v, want %v packets per second, bound by %s", name, r, c.packets, c.bound)
		}
	}
}

func TestCheckComparesWithTheMeasurement(t *testing.T) {
	t.Parallel()
	m := madeRun()
	m.measured = map[string]float64{wire: 0.6 * 2 * second / m.whole} // half of the loads had a lower efficiency
	p := predict(t, m.run(t), 1e15)
	if !near(p.Efficiency, 0.7) {
		t.Errorf("the median efficiency is %v, want 0.7", p.Efficiency)
	}
	if len(p.Check) != len(loads)*len(modes) {
		t.Fatalf("%d checks", len(p.Check))
	}
	for _, c := range p.Check {
		want := map[string]float64{nogro: 0.7 / 0.8, wire: 0.7 / 0.6}[c.Mode]
		if !near(c.Predicted/c.Measured, want) || c.Cores != 2 {
			t.Errorf("%+v, want a factor between model and measurement of %v", c, want)
		}
	}
}

func TestEfficiencyIsAtMostOne(t *testing.T) {
	t.Parallel()
	m := madeRun()
	m.measured = map[string]float64{nogro: 1e9, wire: 1e9}
	if p := predict(t, m.run(t), 1e15); p.Efficiency != 1 {
		t.Errorf("efficiency is %v", p.Efficiency)
	}
}

func TestUnusableRunsAreRejected(t *testing.T) {
	t.Parallel()
	with := func(change func(*made)) *result.Run {
		m := madeRun()
		change(&m)
		return m.run(t)
	}
	for name, r := range map[string]*result.Run{
		"no sockets":              with(func(m *made) { m.without = "socket/" }),
		"no large packets":        with(func(m *made) { m.without = "packet/size=1400" }),
		"no imix":                 with(func(m *made) { m.without = "throughput/size=imix" }),
		"nothing":                 with(func(m *made) { m.without = "" }).Of("unknown"),
		"parts above the whole":   with(func(m *made) { m.whole = 900 }),
		"unknown number of cores": with(func(m *made) { m.cores = 0; m.measured = map[string]float64{nogro: 1, wire: 1} }),
	} {
		if p, err := Predict(r, 1e9); err == nil || !strings.Contains(err.Error(), command) {
			t.Errorf("%s: %v, error %v", name, p, err)
		}
	}
	for _, lineRate := range []float64{0, -1, math.NaN()} {
		if _, err := Predict(madeRun().run(t), lineRate); err == nil {
			t.Errorf("a line rate of %v is accepted", lineRate)
		}
	}
}

func TestTheTextHasEveryRow(t *testing.T) {
	t.Parallel()
	p := predict(t, madeRun().run(t), 25e9)
	var b bytes.Buffer
	if err := Text(&b, p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"efficiency: 0.80", "25.0 Gbit/s", "serial stage: overlay reader", "WireGuard sender *", "1.00"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &b)
		}
	}
	if n, want := strings.Count(b.String(), "\n"), len(p.Rows)+len(p.Costs)+len(p.Check); n < want {
		t.Errorf("%d lines for %d rows", n, want)
	}
}
