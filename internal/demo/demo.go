package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/plan"
)

// limits bound the duration of a demo.
type limits struct {
	run   time.Duration // all steps together
	step  time.Duration // one of them: the transfer on a slow machine
	reply time.Duration // from one packet to its reply
}

var defaultLimits = limits{run: 20 * time.Second, step: 15 * time.Second, reply: 2 * time.Second}

// defaultSize is the size of the transfer in bytes.
const defaultSize = 64 << 20

// Demo is two running clusters, connected by their gateways.
type Demo struct {
	a, b    *cluster
	web     *http.Server // in pod b
	servers []*http.Server
	serving sync.WaitGroup // web and servers
	size    int            // bytes of the transfer, whole chunks
	limits  limits
	started time.Time
}

// Start starts both clusters. It needs only loopback and a temporary directory.
// The gateways log to log. The caller must call Close.
func Start(log *slog.Logger) (*Demo, error) { return begin(log, defaultSize, defaultLimits) }

// begin is Start with a transfer size and limits.
func begin(log *slog.Logger, size int, l limits) (d *Demo, err error) {
	d = &Demo{size: size, limits: l, started: time.Now()}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
			d = nil
		}
	}()
	keys, err := os.MkdirTemp("", "strait-demo-") // mode 0700
	if err != nil {
		return d, fmt.Errorf("create a directory for the keys of this run: %w; set TMPDIR to a writable directory", err)
	}
	defer os.RemoveAll(keys) // gateways read their key once, when they start
	fileA, fileB := filepath.Join(keys, "a.key"), filepath.Join(keys, "b.key")
	keyA, err := plan.NewKey(fileA)
	if err != nil {
		return d, err
	}
	keyB, err := plan.NewKey(fileB)
	if err != nil {
		return d, err
	}
	// Cluster b has no endpoint for a: one reachable side is enough.
	if d.b, err = startCluster(plan.B, fileB, config.Peer{Name: "a-0", PublicKey: keyA}, log.With("cluster", "b")); err != nil {
		return d, err
	}
	peer := config.Peer{Name: "b-0", PublicKey: keyB, Endpoint: d.b.wireGuard.String()}
	if d.a, err = startCluster(plan.A, fileA, peer, log.With("cluster", "a")); err != nil {
		return d, err
	}
	return d, d.startWeb()
}

// step is one check of the demo.
type step struct {
	name string
	goal string // the expected result
	run  func(context.Context, *Step) error
	// required: if the step fails, the following steps are skipped.
	required bool
}

func (d *Demo) steps() []step {
	return []step{
		{name: "link", goal: "link probes cross in both directions", run: d.link, required: true},
		{name: "ping-ipv4", goal: "pod b answers every ping from pod a", run: d.ping(plan.V4)},
		{name: "ping-ipv6", goal: "pod b answers every ping from pod a", run: d.ping(plan.V6)},
		{name: "http", goal: "pod a fetches a page from pod b", run: d.get(d.a.pod, "pod a", d.a.PodSeen[plan.V4])},
		{name: "http-from-node", goal: "node a fetches a page from pod b", run: d.get(d.a.node.host, "node a", d.a.NodeSeen[plan.V4])},
		{name: "transfer", goal: "pod b receives the data of pod a unchanged", run: d.transfer},
		{name: "traceroute", goal: "every hop between the pods answers", run: d.traceroute},
		{name: "port-unreachable", goal: "the error about a closed port comes from the destination address", run: d.portUnreachable},
		{name: "too-big", goal: "the error about a packet above the path MTU states the path MTU", run: d.tooBig},
	}
}

// Watcher receives the progress of a run.
type Watcher interface {
	Begin(name, goal string) // before a step
	End(Step)                // after a step
}

// Unwatched is a Watcher that does nothing.
var Unwatched Watcher = unwatched{}

type unwatched struct{}

func (unwatched) Begin(string, string) {}
func (unwatched) End(Step)             {}

// Run runs the steps in order and reports the result of each. After a failed
// step the next ones still run, unless the failed step is the link. When ctx
// ends, the running step fails and the remaining ones are skipped.
func (d *Demo) Run(ctx context.Context, w Watcher) *Report {
	return d.run(ctx, d.steps(), w)
}

func (d *Demo) run(ctx context.Context, steps []step, w Watcher) *Report {
	ctx, cancel := context.WithTimeout(ctx, d.limits.run)
	defer cancel()
	r := &Report{APIVersion: config.APIVersion, Kind: Kind, Passed: true, Clusters: d.Clusters()}
	skipRest := false
	for _, s := range steps {
		if skipRest || ctx.Err() != nil {
			r.add(Step{Name: s.name, Result: Skipped}, w)
			continue
		}
		w.Begin(s.name, s.goal)
		done := s.take(ctx, d.limits.step)
		skipRest = s.required && done.Result == Failed
		r.add(done, w)
	}
	r.Seconds = time.Since(d.started).Seconds()
	return r
}

func (s *step) take(ctx context.Context, limit time.Duration) Step {
	stepCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := Step{Name: s.name, Result: Passed}
	begin := time.Now()
	err := s.run(stepCtx, &done)
	done.Seconds = time.Since(begin).Seconds()
	if err == nil {
		return done
	}
	done.Result, done.Summary, done.Figure = Failed, "", nil
	done.Expected, done.Seen = s.goal, err.Error()
	var m *mismatch
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		done.Seen = "interrupted"
	case errors.As(err, &m):
		done.Expected, done.Seen = m.expected, m.seen
	}
	return done
}

// mismatch is the error of a step that got another result than expected.
type mismatch struct{ expected, seen string }

func (m *mismatch) Error() string { return "expected " + m.expected + ", got " + m.seen }

// Close stops both clusters and waits for their goroutines.
func (d *Demo) Close() error {
	var err error
	for _, s := range d.servers {
		err = errors.Join(err, s.Close())
	}
	if d.web != nil {
		err = errors.Join(err, d.web.Close())
	}
	d.serving.Wait()
	for _, c := range []*cluster{d.a, d.b} {
		if c != nil {
			err = errors.Join(err, c.close())
		}
	}
	return err
}
