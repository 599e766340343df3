package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"strait.dev/strait/config"
)

// Drain is how long a gateway that was asked to end goes on forwarding, not
// ready any more, so that whoever sends to it can turn elsewhere.
const Drain = 2 * time.Second

// Signals are what a process tells Run.
type Signals struct {
	Reload <-chan os.Signal // read the file again now
	Stop   <-chan os.Signal // drain and end; a second one ends at once
}

// Run is file mode: a gateway on the configuration in a file, reloaded when the
// file changes. It returns when Stop says so, or with what went wrong at the
// start; nothing that happens later ends it.
func Run(path string, signals Signals, o Options) error {
	log := o.Log
	c, err := Load(path)
	if err != nil {
		return err
	}
	var d *Daemon
	if err := patiently(signals.Stop, log, func() (err error) { d, err = Start(c, o); return err }); err != nil {
		return err
	}
	defer d.Close()

	reloads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "strait_config_reloads_total", Help: "Attempts to apply a changed configuration file, by result: ok or error.",
	}, []string{"result"})
	reloads.WithLabelValues("ok")
	reloads.WithLabelValues("error")
	registry := prometheus.NewRegistry()
	registry.MustRegister(d, reloads, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	var http *server
	if err := patiently(signals.Stop, log, func() (err error) {
		http, err = serve(c.Observability.Listen, registry, log)
		return err
	}); err != nil {
		return err
	}
	defer http.close()
	debug.FreeOSMemory() // as in reload
	http.ready.Store(true)

	ctx, cancel := context.WithCancel(context.Background())
	changes := make(chan struct{}, 1)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	var extra atomic.Int32 // threads besides those for packets
	background.Go(func() { followLoad(ctx, &extra) })
	background.Go(func() { watch(ctx, watchedFiles(path, c), changes, log) })
	for {
		select {
		case <-changes:
		case <-signals.Reload:
		case <-signals.Stop:
			http.ready.Store(false)
			log.Info("draining", "for", Drain)
			select {
			case <-time.After(Drain):
			case <-signals.Stop:
			}
			return nil
		}
		if err := besides(&extra, func() error { return d.reload(path) }); err != nil {
			reloads.WithLabelValues("error").Inc()
			log.Error("configuration not applied; the running one stays", "error", err)
			continue
		}
		reloads.WithLabelValues("ok").Inc()
		t := d.fabric.Gateway.Table()
		log.Info("configuration applied", "nodes", t.NodeCount(), "routes", t.RouteCount(), "mtu", t.MTU())
	}
}

// patiently starts something that may find its address in use: the gateway that
// this one replaces may still be draining.
func patiently(stop <-chan os.Signal, log *slog.Logger, start func() error) error {
	told := false
	for deadline := time.Now().Add(3 * Drain); ; {
		err := start()
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return err
		}
		if !told {
			log.Info("waiting for an address that is in use", "error", err)
			told = true
		}
		select {
		case <-time.After(Drain / 10):
		case <-stop:
			return err
		}
	}
}

// reload reads the configuration again and applies it. What reading leaves behind is
// several times a table, and packets make no garbage that would bring the collector
// soon: so the memory is given back here.
func (d *Daemon) reload(path string) error {
	defer debug.FreeOSMemory()
	c, err := Load(path)
	if err != nil {
		return err
	}
	return d.Apply(c)
}

// Load reads and checks a configuration file. Errors name the file, the line and
// the field.
func Load(path string) (*config.Gateway, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("no configuration at %s; name one with --config FILE", path)
		}
		return nil, err
	}
	c, err := config.Parse(data)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return nil, config.WithFile(path, err)
	}
	return c, nil
}
