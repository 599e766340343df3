package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/plan"
	"strait.dev/strait/test/wait"
)

func TestDemoPassesAndCleansUp(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	d := start(t)

	var shown bytes.Buffer
	text := &Text{To: &shown}
	text.Introduce(d.Clusters())
	r := d.Run(t.Context(), text)
	text.Conclude(r)
	if !r.Passed {
		t.Fatalf("steps %v failed:\n%s", r.Failures(), &shown)
	}
	for _, s := range r.Steps {
		if s.Summary == "" || s.Figure == nil || s.Seconds <= 0 {
			t.Errorf("step %s has no summary, figure or duration: %+v", s.Name, s)
		}
	}
	for _, expected := range []string{
		"request  gateway b  to node      10.72.1.5  10.0.2.9",
		"reply    gateway a  to node      fd71:0:0:2::9  fd10:0:0:1::5",
		"from pod a; pod b received it from 10.72.1.5",
		"from node a; pod b received it from 10.74.0.11",
		"3    10.73.0.1   gateway b",
		"port unreachable from 10.71.2.9",
		"All 9 steps passed",
	} {
		if !strings.Contains(shown.String(), expected) {
			t.Errorf("%q is missing in:\n%s", expected, &shown)
		}
	}
	checkREADME(t, shown.String())

	endpoints, err := d.Serve()
	if err != nil {
		t.Fatal(err)
	}
	for i, expected := range []string{"You are 10.72.1.5.", `strait_link_up{peer="b-0"} 1`, `strait_link_up{peer="a-0"} 1`} {
		if page := read(t, endpoints[i].URL); !strings.Contains(page, expected) {
			t.Errorf("%s: %q is missing in:\n%s", endpoints[i].Name, expected, page)
		}
	}

	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

func TestFailedStepIsReportedWithItsResult(t *testing.T) {
	d := start(t)
	if err := d.web.Close(); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	r := d.Run(t.Context(), &Text{To: &shown})
	if failed := strings.Join(r.Failures(), " "); r.Passed || failed != "http http-from-node" {
		t.Fatalf("without a web server the failures are %q, want only those of HTTP\n%s", failed, &shown)
	}
	for _, expected := range []string{"FAILED", "expected: pod a fetches a page from pod b", "refused"} {
		if !strings.Contains(shown.String(), expected) {
			t.Errorf("%q is missing in:\n%s", expected, &shown)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestFailedLinkSkipsTheOtherSteps(t *testing.T) {
	t.Parallel()
	ran := false
	steps := []step{
		{name: "link", goal: "an answer", required: true, run: func(context.Context, *Step) error { return errors.New("silence") }},
		{name: "ping", run: func(context.Context, *Step) error { ran = true; return nil }},
	}
	r := unlinked().run(t.Context(), steps, Unwatched)
	if ran || r.Passed || r.Steps[0].Result != Failed || r.Steps[1].Result != Skipped {
		t.Errorf("second step ran: %v, report %+v", ran, r)
	}
	if s := r.Steps[0]; s.Expected != "an answer" || s.Seen != "silence" {
		t.Errorf("failed step: %+v", s)
	}
}

func TestOtherStepsRunAfterAFailure(t *testing.T) {
	t.Parallel()
	steps := []step{
		{name: "first", run: func(context.Context, *Step) error { return &mismatch{"this", "that"} }},
		{name: "second", run: func(context.Context, *Step) error { return nil }},
	}
	r := unlinked().run(t.Context(), steps, Unwatched)
	if r.Passed || r.Steps[1].Result != Passed {
		t.Errorf("report %+v", r)
	}
	if s := r.Steps[0]; s.Expected != "this" || s.Seen != "that" {
		t.Errorf("failed step: %+v", s)
	}
}

func TestInterruptStopsTheRun(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	steps := []step{
		{name: "first", run: func(ctx context.Context, _ *Step) error { interrupt(); <-ctx.Done(); return ctx.Err() }},
		{name: "second", run: func(context.Context, *Step) error { return nil }},
	}
	r := unlinked().run(ctx, steps, Unwatched)
	if r.Passed || r.Steps[0].Seen != "interrupted" || r.Steps[1].Result != Skipped {
		t.Errorf("report %+v", r)
	}
}

func TestInterruptStopsEveryStep(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := start(t)
	defer d.Close()
	d.a.overlay.socket.Close() // so that no packet reaches the gateway
	sent := func() uint64 {
		return d.a.pod.stack.NICInfo()[hostNIC].Stats.Tx.Packets.Value() + d.a.node.host.stack.NICInfo()[hostNIC].Stats.Tx.Packets.Value()
	}
	for _, s := range d.steps()[1:] { // the link does not need the nodes
		ctx, interrupt := context.WithCancel(t.Context())
		before, ended := sent(), make(chan Step, 1)
		go func() { ended <- s.take(ctx, d.limits.step) }()
		wait.Until(t, "step "+s.name+" has sent a packet", func() bool { return sent() > before })
		interrupt()
		if done := <-ended; done.Result != Failed || done.Seen != "interrupted" {
			t.Errorf("step %s, interrupted: %+v", s.name, done)
		}
	}
}

func TestUnusableTemporaryDirectoryIsReportedWithARemedy(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	d, err := Start(slog.New(slog.DiscardHandler))
	if err == nil {
		d.Close()
		t.Fatal("the demo started without a directory for its keys")
	}
	for _, expected := range []string{missing, "set TMPDIR"} {
		if !strings.Contains(err.Error(), expected) {
			t.Errorf("%q is missing in: %v", expected, err)
		}
	}
}

func TestFailedClusterStartCleansUp(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	remote, err := plan.NewKey(filepath.Join(dir, "b.key"))
	if err != nil {
		t.Fatal(err)
	}
	peer := config.Peer{Name: "b-0", PublicKey: remote}
	c, err := startCluster(plan.A, filepath.Join(dir, "missing.key"), peer, slog.New(slog.DiscardHandler))
	if c != nil || err == nil || !strings.Contains(err.Error(), "cluster a: start the gateway") || !strings.Contains(err.Error(), "missing.key") {
		t.Errorf("without a private key: %v, %v", c, err)
	}
}

func start(t *testing.T) *Demo {
	t.Helper()
	d, err := begin(slog.New(slog.DiscardHandler), 16*transferChunk, unlimited)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// unlimited has no effective limit: go test -timeout ends a test that hangs.
var unlimited = limits{run: time.Hour, step: time.Hour, reply: time.Hour}

// unlinked returns a demo whose clusters do not run.
func unlinked() *Demo {
	return &Demo{a: &cluster{Cluster: plan.A}, b: &cluster{Cluster: plan.B}, limits: unlimited}
}

func read(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}
