package result

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
)

func TestBenchstatReadsWhatIsWritten(t *testing.T) {
	t.Parallel()
	r := runOf(t, "B/s", 1.68e9)
	r.Samples[0].Metrics["CPU-s/GB"] = 1.25
	// A subject that ends like GOMAXPROCS.
	add(t, r, Sample{Test: "rtt", Subject: "peer-1", Repetition: 1, Metrics: map[string]float64{"p99-ns": 2500}})
	var b bytes.Buffer
	if err := WriteBenchstat(&b, r); err != nil {
		t.Fatal(err)
	}

	type line struct{ name, subject, procs string }
	var lines []line
	reader := benchfmt.NewReader(&b, "result")
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(record)
		case *benchfmt.Result:
			_, parts := record.Name.Parts()
			l := line{name: record.Name.String()}
			for _, p := range parts {
				if v, ok := strings.CutPrefix(string(p), "/subject="); ok {
					l.subject = v
				}
				if v, ok := strings.CutPrefix(string(p), "-"); ok {
					l.procs = v
				}
			}
			lines = append(lines, l)
			for key, want := range map[string]string{"goos": "linux", "goarch": "amd64", "cpu": "AMD EPYC", "kernel": "6.18.44", "memory": "8589934592"} {
				if got := record.GetConfig(key); got != want {
					t.Errorf("%s: %s is %q, want %q", l.name, key, got, want)
				}
			}
			switch {
			case len(lines) == 1:
				want(t, record, "B/s", 1.68e9)
				want(t, record, "CPU-s/GB", 1.25)
			default:
				want(t, record, "p99-sec", 2500e-9) // benchfmt turns ns into seconds
			}
		}
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	expected := []line{
		{"Tcp/streams=4/mode=nogro/subject=strait-2", "strait", "2"},
		{"Rtt/subject=peer-1-2", "peer-1", "2"},
	}
	if len(lines) != len(expected) || lines[0] != expected[0] || lines[1] != expected[1] {
		t.Errorf("read %+v, want %+v", lines, expected)
	}
	if got := reader.Units().Get("B/s", "better"); got == nil || got.Value != "higher" {
		t.Errorf("B/s better is %+v", got)
	}
	if got := reader.Units().Get("CPU-s/GB", "better"); got != nil {
		t.Errorf("CPU-s/GB better is %+v", got)
	}
}

func want(t *testing.T, r *benchfmt.Result, unit string, v float64) {
	t.Helper()
	if got, ok := r.Value(unit); !ok || got < v*0.999999 || got > v*1.000001 {
		t.Errorf("%s: %v %s, want %v", r.Name, got, unit, v)
	}
}
