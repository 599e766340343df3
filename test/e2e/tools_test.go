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

// captured records packets in the gateways of a while a pod connects to a server of b, until one of
// them has recorded enough: a flow uses one gateway of each cluster.
func (w *world) captured(t *testing.T, seen string) {
	t.Helper()
	directory := t.TempDir()
	type outcome struct {
		file, said string
		err        error
	}
	ended := make(chan outcome, 2)
	for _, gateway := range []string{"b-0", "b-1"} {
		file := filepath.Join(directory, gateway+".pcapng")
		cmd := w.command(t, "strait", "capture", gateway, "--context=a", "--packets=3", "--duration=10m", "--file="+file, "tcp", "port", "8080")
		var said strings.Builder
		cmd.Stderr = &said
		must(t, cmd.Start())
		go func() {
			err := cmd.Wait()
			ended <- outcome{file, said.String(), err}
		}()
		defer func() { _ = cmd.Process.Kill() }() // fails if it has ended
	}
	pod := w.web(t, "a", "metadata.name")[0]
	var first outcome
	for first.file == "" {
		select {
		case first = <-ended:
		default:
			w.answers(t, "a", pod, seen+":8080", "b")
		}
	}
	if first.err != nil {
		t.Fatalf("strait capture: %v\n%s", first.err, first.said)
	}
	f, err := os.Open(first.file)
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
