package result

import (
	"bytes"
	"strings"
	"testing"
)

func TestMediansAndSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values              []float64
		median, min, spread float64
	}{
		{[]float64{7}, 7, 7, 0},
		{[]float64{4, 1}, 2.5, 1, 3 / 2.5},
		{[]float64{9, 1, 2}, 2, 1, 4},
		{[]float64{0, 0, 5}, 0, 0, 0},
	} {
		got := Medians(runOf(t, "B/s", c.values...).Samples)
		if len(got) != 1 || got[0].Median != c.median || got[0].Min != c.min || got[0].Spread() != c.spread || got[0].N != len(c.values) {
			t.Errorf("%v: %+v, spread %v", c.values, got, got[0].Spread())
		}
	}
}

func TestTableHasALineForEachFigure(t *testing.T) {
	t.Parallel()
	r := runOf(t, "B/s", 1e9, 2e9, 3e9)
	r.Samples[0].Metrics["loss"] = 0.005
	var b bytes.Buffer
	if err := Table(&b, Medians(r.Samples)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "2.00 GB/s") || !strings.Contains(lines[1], "100 %") || !strings.Contains(lines[2], "0.5 %") {
		t.Errorf("table:\n%s", b.String())
	}
}

func TestFigureFormatting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{1.68e9, "bit/s", "1.68 Gbit/s"},
		{950, "pkts/s", "950 pkts/s"},
		{123456, "pkts/s", "123 kpkts/s"},
		{0, "pkts/s", "0 pkts/s"},
		{23400, "ns/op", "23.4 µs/op"},
		{0.25, "ns/op", "0.25 ns/op"},
		{2.5e6, "p99-ns", "2.50 ms"},
		{9000, "CPU-ns/pkt", "9.00 µs/pkt"},
		{1e6, "ndr-pkts/s", "1.00 Mpkts/s"},
		{64 << 20, "B", "64.0 MiB"},
		{1.5 * (1 << 20), "B/peering", "1.50 MiB/peering"},
		{0.005, "loss", "0.5 %"},
		{1.25, "CPU-s/GB", "1.25 CPU-s/GB"},
	} {
		if got := Format(c.v, c.unit); got != c.want {
			t.Errorf("%v %s is %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}
