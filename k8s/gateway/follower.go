package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"

	"strait.dev/strait/config"
	"strait.dev/strait/control"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/translate"
)

// follower is one call of Run.
type follower struct {
	options  Options
	log      *slog.Logger
	settings translate.Settings
	client   *client.Client
	objects  *objects
	process  *daemon.Process
	metrics  *metrics
	saver    *saver

	announcer        *control.Announcer
	received         receivedAnnouncement
	keys             atomic.Pointer[[]translate.OwnKey] // newest first
	established      atomic.Bool                        // a link with a key of the gateway's own is up
	started          chan struct{}                      // closed when the gateway itself runs
	publishRequested chan struct{}                      // the status is to be looked at; room for one

	// Of the goroutine that calls follow.
	inForce         *config.Gateway // nil: none yet
	keysChanged     bool            // since inForce was applied
	problems        map[translate.Problem]bool
	keyProblem      string // that was logged last
	announceProblem string // likewise

	// Of the goroutine that calls publish.
	rotation rotation
}

// restore begins with the configuration that was in force when this gateway ran last.
func (f *follower) restore() {
	c, saved, err := readCache(f.options.CacheDir, f.identity())
	if err != nil {
		f.log.Warn("no cached configuration; waiting for the API server", "error", err)
		return
	}
	c.Overlay.Listen, c.Overlay.VXLANListen = f.settings.Geneve, f.settings.VXLAN
	c.Observability.Listen = f.settings.Observability
	c.WireGuard.ListenPort = f.settings.WireGuardPort
	if err := c.Validate(); err != nil {
		f.log.Warn("the cached configuration does not fit; waiting for the API server", "error", err)
		return
	}
	if err := f.process.Start(c); err != nil {
		f.log.Warn("the cached configuration cannot be applied; waiting for the API server", "error", err)
		return
	}
	f.inForce = c
	close(f.started)
	f.metrics.cached.Set(1)
	f.log.Info("runs on the cached configuration until the API server answers", "saved", saved)
}

func (f *follower) identity() identity { return identity{f.options.Peering, f.options.Name} }

// apply puts in force what the objects say. It logs its error.
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

// next is the configuration that the objects ask for, nil where that is in force
// already, or where there is none yet and nothing to withdraw.
func (f *follower) next() *config.Gateway {
	f.settings.PresharedKeyFiles = f.presharedKeys()
	f.settings.Keys, f.settings.InviteUsed = f.ownKeys(), f.established.Load()
	c, problems := translate.Gateway(f.objects.input(f.settings))
	f.logProblems(problems)
	if c == nil {
		if f.inForce == nil {
			return nil
		}
		c = translate.Withdrawn(f.inForce)
	}
	if !f.keysChanged && reflect.DeepEqual(c, f.inForce) {
		return nil
	}
	return c
}

// applied keeps what is in force.
func (f *follower) applied(c *config.Gateway) {
	f.inForce, f.keysChanged = c, false
	f.saver.save(c)
}

// maxProblemsLogged is how many new problems are logged at once.
const maxProblemsLogged = 20

// tell logs the problems that are new.
func (f *follower) logProblems(problems []translate.Problem) {
	now := make(map[translate.Problem]bool, len(problems))
	logged := 0
	for _, p := range problems {
		now[p] = true
		if f.problems[p] {
			continue
		}
		if logged++; logged <= maxProblemsLogged {
			f.log.Warn("left out of the configuration", "object", p.Object, "field", p.Field, "problem", p.Text, "remedy", p.Remedy)
		}
	}
	if logged > maxProblemsLogged {
		f.log.Warn("more problems", "count", logged-maxProblemsLogged)
	}
	f.problems = now
	f.metrics.problems.Set(float64(len(now)))
}

// keyFiles are what the keys are read from.
func (f *follower) keyFiles() []string {
	files := []string{f.options.KeyDir}
	for _, more := range []string{f.options.InviteKeyFile, f.options.PresharedKeyDir} {
		if more != "" {
			files = append(files, more)
		}
	}
	return files
}

// presharedKeys are the files with preshared keys, by the name of their Secret. A
// folder that cannot be read has none: the peers that need one are left out then.
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
		if !strings.HasPrefix(e.Name(), "..") { // what the kubelet keeps there for itself
			files[e.Name()] = filepath.Join(f.options.PresharedKeyDir, e.Name())
		}
	}
	return files
}
