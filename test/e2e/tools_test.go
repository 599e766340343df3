//go:build e2e || nightly

package e2e

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/internal/capture"
)

// captured records packets in the gateway of a while pods connect to a server of b.
func (w *world) captured(t *testing.T, seen string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "packets.pcapng")
	cmd := w.command(t, "strait", "capture", "b", "--context=a", "--packets=3", "--duration=10m", "--file="+file, "tcp", "port", "8080")
	var said strings.Builder
	cmd.Stderr = &said
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	pod := w.web(t, "a", "metadata.name")[0]
	for running := true; running; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("strait capture: %v\n%s", err, &said)
			}
			running = false
		default:
			w.answers(t, "a", pod, seen+":8080", "b")
		}
	}
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	packets := 0
	for r := capture.NewReader(f); ; {
		_, packet, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if packet != nil {
			packets++
		}
	}
	if packets != 3 {
		t.Errorf("%d packets were recorded, want 3", packets)
	}
}

// measured runs a short benchmark of the peering.
func (w *world) measured(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bench.json")
	w.do(t, "", "strait", "bench", "--peering=b", "--context=a", "--remote-context=b", "--quick", "--repetitions=1",
		"--run=streams=1/direction=a-to-b|connections=1$", "--output=json", "--file="+file)
	r, err := result.ReadFile(file)
	must(t, err)
	var found []string
	for _, s := range r.Samples {
		found = append(found, s.Test+" "+s.Subject)
		if s.Subject == "peering" && strings.HasPrefix(s.Test, "tcp") && (s.Metrics["bit/s"] <= 0 || s.Metrics["gateway-CPU-s/GB"] <= 0) {
			t.Errorf("%s: %v", s.Test, s.Metrics)
		}
		t.Logf("%s %s: %v", s.Test, s.Subject, s.Metrics)
	}
	slices.Sort(found)
	want := []string{
		"request-response/connections=1 direct", "request-response/connections=1 peering",
		"tcp/streams=1/direction=a-to-b direct", "tcp/streams=1/direction=a-to-b peering",
	}
	if !slices.Equal(found, want) {
		t.Errorf("measured %q, want %q", found, want)
	}
}
