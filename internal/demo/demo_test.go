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
	"strait.dev/strait/test/wait"
)

func TestDemoRunsAndLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
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
			t.Errorf("step %s has nothing to show: %+v", s.Name, s)
		}
	}
	for _, expected := range []string{
		"request  gateway b  to node      10.72.1.5  10.0.2.9",
		"reply    gateway a  to node      fd71:0:0:2::9  fd10:0:0:1::5",
		"from pod a; pod b saw the client 10.72.1.5",
		"from node a; pod b saw the client 10.74.0.11",
		"3    10.73.0.1   gateway b",
		"port unreachable from 10.71.2.9",
		"All 9 steps passed",
	} {
		if !strings.Contains(shown.String(), expected) {
			t.Errorf("%q is missing in:\n%s", expected, &shown)
		}
	}

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
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func TestFailedStepIsNamedWithWhatWasSeen(t *testing.T) {
	d := start(t)
	if err := d.web.Close(); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	r := d.Run(t.Context(), &Text{To: &shown})
	if failed := strings.Join(r.Failures(), " "); r.Passed || failed != "http http-from-node" {
		t.Fatalf("without a web server the failures are %q, want those of HTTP alone\n%s", failed, &shown)
	}
	for _, expected := range []string{"FAILED", "expected: pod a gets a page from pod b", "refused"} {
		if !strings.Contains(shown.String(), expected) {
			t.Errorf("%q is missing in:\n%s", expected, &shown)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestNothingIsTriedWithoutALink(t *testing.T) {
	t.Parallel()
	tried := false
	steps := []step{
		{name: "link", goal: "an answer", required: true, run: func(context.Context, *Step) error { return errors.New("silence") }},
		{name: "ping", run: func(context.Context, *Step) error { tried = true; return nil }},
	}
	r := unlinked().run(t.Context(), steps, Unwatched)
	if tried || r.Passed || r.Steps[0].Result != Failed || r.Steps[1].Result != Skipped {
		t.Errorf("tried %v, report %+v", tried, r)
	}
	if s := r.Steps[0]; s.Expected != "an answer" || s.Seen != "silence" {
		t.Errorf("the failed step says: %+v", s)
	}
}

func TestAFailureKeepsNoOtherStepFromRunning(t *testing.T) {
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
		t.Errorf("the failed step says: %+v", s)
	}
}

func TestInterruptEndsTheRun(t *testing.T) {
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

func TestInterruptEndsEveryStep(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := start(t)
	defer d.Close()
	d.a.overlay.socket.Close() // so that no packet gets far
	sent := func() uint64 {
		return d.a.pod.stack.NICInfo()[hostNIC].Stats.Tx.Packets.Value() + d.a.node.host.stack.NICInfo()[hostNIC].Stats.Tx.Packets.Value()
	}
	for _, s := range d.steps()[1:] { // the link comes up without the nodes
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

func TestTemporaryFolderThatCannotBeUsedIsNamedWithARemedy(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	d, err := Start(slog.New(slog.DiscardHandler))
	if err == nil {
		d.Close()
		t.Fatal("started without a folder for its keys")
	}
	for _, expected := range []string{missing, "set TMPDIR"} {
		if !strings.Contains(err.Error(), expected) {
			t.Errorf("%q is missing in: %v", expected, err)
		}
	}
}

func TestClusterThatCannotStartLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	folder := t.TempDir()
	remote, err := makeKey(filepath.Join(folder, "b.key"))
	if err != nil {
		t.Fatal(err)
	}
	peer := config.Peer{Name: "b-0", PublicKey: remote}
	c, err := startCluster(planA, filepath.Join(folder, "missing.key"), "b", peer, slog.New(slog.DiscardHandler))
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

// unlimited is for tests: a slow machine fails none, and go test -timeout ends one that hangs.
var unlimited = limits{run: time.Hour, step: time.Hour, reply: time.Hour}

// unlinked is a demo whose clusters do not run.
func unlinked() *Demo {
	return &Demo{a: &cluster{plan: planA}, b: &cluster{plan: planB}, limits: unlimited}
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
