package health

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
)

// get asks the server, and returns the status and the text.
func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	response, err := http.Get("http://" + s.address.String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestT13_AServerReportsHealthAndServesNoProfile(t *testing.T) {
	t.Parallel()
	var wrong atomic.Pointer[error]
	trouble := errors.New("the caches are empty")
	ready := func() error {
		if err := wrong.Load(); err != nil {
			return *err
		}
		return nil
	}
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "strait_example", Help: "An example."})
	s, err := Serve(Options{Listen: "127.0.0.1:0", Ready: ready, Metrics: NewRegistry(gauge), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if code, text := get(t, s, "/readyz"); code != http.StatusOK || text != "ok\n" {
		t.Errorf("/readyz of a ready process: %d %q", code, text)
	}
	wrong.Store(&trouble)
	if code, text := get(t, s, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, trouble.Error()) {
		t.Errorf("/readyz of one that is not: %d %q", code, text)
	}
	if code, _ := get(t, s, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
	if code, text := get(t, s, "/metrics"); code != http.StatusOK || !strings.Contains(text, "\nstrait_example 0\n") || !strings.Contains(text, "\ngo_goroutines ") || !strings.Contains(text, "\ngo_sched_pauses_stopping_other_seconds_count ") {
		t.Errorf("/metrics: %d\n%s", code, text)
	}
	if code, _ := get(t, s, "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("a profile is served: %d", code)
	}
}

// A caller that does not know the family of an address, such as a pod that gets it from its
// node, may put brackets around any address.
func TestBracketsMayStandAroundAnyAddress(t *testing.T) {
	t.Parallel()
	s, err := Serve(Options{Listen: "[127.0.0.1]:0", Metrics: NewRegistry(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if code, _ := get(t, s, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
}

func TestAnAddressInUseIsSaid(t *testing.T) {
	t.Parallel()
	o := Options{Listen: "127.0.0.1:0", Metrics: NewRegistry(), Log: slog.New(slog.DiscardHandler)}
	s, err := Serve(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o.Listen = s.address.String()
	if _, err := Serve(o); err == nil || !strings.Contains(err.Error(), "choose another address") {
		t.Errorf("%v", err)
	}
}

func TestWithoutAnAddressNothingIsServed(t *testing.T) {
	t.Parallel()
	s, err := Serve(Options{})
	if err != nil || s != nil {
		t.Errorf("%v, %v", s, err)
	}
	s.Close()
}

func TestALoopThatStandsStillIsNoticed(t *testing.T) {
	t.Parallel()
	var p Pulse
	start := time.Unix(1_000_000, 0)
	if err := p.Missing(start, time.Minute); err != nil {
		t.Errorf("one that has not begun: %v", err)
	}
	p.Beat(start)
	if err := p.Missing(start.Add(time.Minute), time.Minute); err != nil {
		t.Errorf("one that turned just in time: %v", err)
	}
	if err := p.Missing(start.Add(time.Minute+time.Second), time.Minute); err == nil || !strings.Contains(err.Error(), "1m1s") {
		t.Errorf("one that stands still: %v", err)
	}
}

// The health checks of load balancers come from anywhere.
// As when a machine was suspended, or its clock is corrected.
func TestF12_AClockThatIsSetIsNoPause(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		var p Pulse
		now := time.Now()
		p.Beat(now)
		if err := p.Missing(withClockSet(now.Add(time.Second), step), time.Minute); err != nil {
			t.Errorf("a loop in time, clock set by %v: %v", step, err)
		}
		if err := p.Missing(withClockSet(now.Add(2*time.Minute), step), time.Minute); err == nil {
			t.Errorf("a loop that stands still is not noticed after the clock was set by %v", step)
		}
	}
}

// withClockSet is the reading of a clock that was set by step: only the wall clock differs.
func withClockSet(t time.Time, step time.Duration) time.Time {
	const nanosecondBits = 30 // of the first word, below the seconds, in a time with a monotonic reading
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(int64(step/time.Second) << nanosecondBits)
	return t
}

func TestWithoutMetricsOnlyLivenessIsServed(t *testing.T) {
	t.Parallel()
	s, err := Serve(Options{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusNotFound, "/metrics": http.StatusNotFound} {
		if code, _ := get(t, s, path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
}
