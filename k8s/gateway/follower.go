package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/control"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/translate"
)

// follower is the state of one call of Run.
type follower struct {
	options Options
	log     *slog.Logger
	linkLog *slog.Logger // of what remote gateways cause, with a budget for each link
	client  *client.Client
	objects *objects
	process *daemon.Process
	metrics *metrics
	saver   *saver

	announcer        *control.Announcer
	exports          *control.Exports
	receiver         *receiver
	received         receivedAnnouncement
	keys             atomic.Pointer[[]translate.OwnKey] // newest first
	established      atomic.Bool                        // a link with a key of the gateway's own is up
	started          chan struct{}                      // closed when the gateway itself runs
	publishRequested client.Signal                      // the status may have changed

	// Used only by the goroutine that calls follow.
	inForce         *config.Gateway // nil: none yet
	joining         joining
	keysChanged     bool // since inForce was applied
	problems        map[translate.Problem]bool
	problemLines    ratelimit.Bucket // of lines about problems
	linesOmitted    bool             // since the last such line
	keyProblem      string           // that was logged last
	announceProblem string           // likewise

	// Used only by the goroutine that calls publish.
	rotation rotation
}

// restore starts with the cached configuration of the gateway's last run. It reports whether that may succeed later.
func (f *follower) restore() (later bool) {
	c, saved, err := readCache(f.options.CacheDir, f.identity())
	if err != nil {
		f.log.Warn("no cached configuration; waiting for the API server", "error", err)
		return false
	}
	c.Overlay.Listen, c.Overlay.VXLANListen = f.options.Geneve, f.options.VXLAN
	c.Observability.Listen = f.options.Observability
	c.WireGuard.ListenPort = f.options.WireGuardPort
	if err := c.Validate(); err != nil {
		f.log.Warn("the cached configuration is not valid; waiting for the API server", "error", err)
		return false
	}
	if err := f.process.Start(c); err != nil {
		f.log.Warn("the cached configuration cannot be applied; trying again", "error", err, "every", restoreRetryInterval)
		return true
	}
	f.inForce, f.joining.done = c, true
	close(f.started)
	f.metrics.cached.Set(1)
	f.log.Info("using the cached configuration until the API server answers", "saved", saved)
	return false
}

func (f *follower) identity() identity { return identity{f.options.Peering, f.options.Name} }

// apply applies the configuration of the current objects. It logs its error.
func (f *follower) apply() error {
	var err error
	if f.process.Gateway() == nil {
		err = f.start()
	} else {
		err = f.process.Reload(func() (*config.Gateway, error) { return f.next(), nil }, f.applied)
	}
	if err == nil {
		f.metrics.cached.Set(0)
	}
	return err
}

func (f *follower) start() error {
	c := f.next()
	if c == nil {
		return nil
	}
	if err := f.process.Start(c); err != nil {
		f.log.Error("the gateway cannot start; trying again", "error", err, "every", applyRetryInterval)
		return err
	}
	close(f.started)
	f.applied(c)
	return nil
}

// next returns the configuration of the current objects, nil if that is in effect already,
// or if there is none yet and nothing to withdraw.
func (f *follower) next() *config.Gateway {
	settings := f.options.Settings
	settings.PresharedKeyFiles, settings.Keys, settings.InviteUsed = f.presharedKeys(), f.ownKeys(), f.established.Load()
	c, problems := translate.Gateway(f.objects.input(settings))
	f.logProblems(problems)
	if c == nil {
		if f.inForce == nil {
			return nil
		}
		c = translate.Withdrawn(f.inForce)
	}
	c = f.joining.without(c)
	if !f.keysChanged && reflect.DeepEqual(c, f.inForce) {
		return nil
	}
	return c
}

// applied records the configuration in effect. It is cached when it is complete.
func (f *follower) applied(c *config.Gateway) {
	f.inForce, f.keysChanged = c, false
	if !f.joining.withheld {
		f.saver.save(c)
	}
}

// Lines about parts that are left out: problemBurst at once, and one more per problemInterval. The
// remote cluster can cause others all the time.
const (
	problemInterval = 10 * time.Second
	problemBurst    = 20
)

func (f *follower) logProblems(problems []translate.Problem) {
	now := make(map[translate.Problem]bool, len(problems))
	for _, p := range problems {
		now[p] = true
		switch {
		case f.problems[p]:
		case f.problemLines.Take(time.Now(), problemInterval, problemBurst):
			f.log.Warn("left out of the configuration", "object", p.Object, "field", p.Field, "problem", p.Text, "remedy", p.Remedy)
			f.linesOmitted = false
		case !f.linesOmitted:
			f.log.Warn("more problems", "count", len(problems))
			f.linesOmitted = true
		}
	}
	f.problems = now
	f.metrics.problems.Set(float64(len(now)))
}

func (f *follower) keyFiles() []string {
	files := []string{f.options.KeyDir}
	for _, more := range []string{f.options.InviteKeyFile, f.options.PresharedKeyDir} {
		if more != "" {
			files = append(files, more)
		}
	}
	return files
}

// presharedKeys returns the files with preshared keys, by the name of their Secret. An
// unreadable directory yields none: the peers that need a preshared key are left out then.
func (f *follower) presharedKeys() map[string]string {
	files := make(map[string]string)
	if f.options.PresharedKeyDir == "" {
		return files
	}
	entries, err := os.ReadDir(f.options.PresharedKeyDir)
	if err != nil {
		f.log.Warn("cannot list the preshared keys; peers that need one are left out", "error", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") { // internal entries of the kubelet
			files[e.Name()] = filepath.Join(f.options.PresharedKeyDir, e.Name())
		}
	}
	return files
}
