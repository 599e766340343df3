package result

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

var machine = Machine{
	Kernel: "6.18.44", CPU: "AMD EPYC", Cores: 2, Memory: 8 << 30,
	OS: "linux", Arch: "amd64", Go: "go1.26.8", GOMAXPROCS: 2, Strait: "v1",
}

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// runOf returns a run with one figure with these values.
func runOf(t *testing.T, unit string, values ...float64) *Run {
	t.Helper()
	r := New("strait bench", machine, start)
	for i, v := range values {
		add(t, r, Sample{Test: "tcp/streams=4", Subject: "strait", Mode: "nogro", Repetition: i + 1, Metrics: map[string]float64{unit: v}})
	}
	return r
}

func add(t *testing.T, r *Run, s Sample) {
	t.Helper()
	if err := r.Add(s); err != nil {
		t.Fatal(err)
	}
}

func TestARunSurvivesJSON(t *testing.T) {
	t.Parallel()
	r := runOf(t, "B/s", 1e9, 1.5e9)
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	back, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r, back) {
		t.Errorf("wrote %+v, read %+v", r, back)
	}
}

func TestOtherSchemaIsRejectedWithARemedy(t *testing.T) {
	t.Parallel()
	_, err := Read(strings.NewReader(`{"schema": "strait.dev/bench/v0"}`))
	if err == nil || !strings.Contains(err.Error(), `"strait.dev/bench/v0"`) || !strings.Contains(err.Error(), "run the benchmark again") {
		t.Errorf("error is %v", err)
	}
}

func TestSamplesThatBenchstatCannotParseAreRejected(t *testing.T) {
	t.Parallel()
	one := map[string]float64{"B/s": 1}
	for name, s := range map[string]Sample{
		"no test":       {Metrics: one},
		"space in test": {Test: "a b", Metrics: one},
		"space in mode": {Test: "a", Mode: "b c", Metrics: one},
		"no metric":     {Test: "a"},
		"no number":     {Test: "a", Metrics: map[string]float64{"B/s": math.NaN()}},
		"infinite":      {Test: "a", Metrics: map[string]float64{"B/s": math.Inf(1)}},
		"no unit":       {Test: "a", Metrics: map[string]float64{"": 1}},
	} {
		if err := New("", machine, start).Add(s); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestOfReturnsOneSubjectWithoutItsName(t *testing.T) {
	t.Parallel()
	r := runOf(t, "B/s", 1)
	add(t, r, Sample{Test: "tcp/streams=4", Subject: "peer", Mode: "nogro", Repetition: 1, Metrics: map[string]float64{"B/s": 2}})
	got := r.Of("peer").Samples
	if len(got) != 1 || got[0].Subject != "" || got[0].Metrics["B/s"] != 2 {
		t.Errorf("got %+v", got)
	}
	if len(r.Samples) != 2 || r.Samples[1].Subject != "peer" {
		t.Errorf("the run was changed to %+v", r.Samples)
	}
}

func TestMachineFilesAreRead(t *testing.T) {
	t.Parallel()
	const cpuinfo = "processor\t: 0\nmodel name\t: AMD EPYC\nprocessor\t: 1\nmodel name\t: other\n"
	if got := field(strings.NewReader(cpuinfo), "model name"); got != "AMD EPYC" {
		t.Errorf("model name is %q", got)
	}
	if got := kibibytes(field(strings.NewReader("MemTotal:        8131234 kB\nMemFree: 1 kB\n"), "MemTotal")); got != 8131234<<10 {
		t.Errorf("memory is %d", got)
	}
	if got := kibibytes(field(strings.NewReader(""), "MemTotal")); got != 0 {
		t.Errorf("missing memory is %d", got)
	}
}

func TestDifferencesOfMachinesAreNamed(t *testing.T) {
	t.Parallel()
	other := machine
	other.Cores, other.Strait = 4, "v2"
	if got := machine.Differences(other); !reflect.DeepEqual(got, []string{"cores: 2, then 4"}) {
		t.Errorf("got %q", got)
	}
}
