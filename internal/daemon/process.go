package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/health"
)

// Drain is how long a gateway that was asked to stop continues to forward while not ready, so that senders can switch to
// another gateway. Process.Drain can wait longer for them: until no packet of a node has arrived for drainIdle.
const (
	Drain     = 2 * time.Second
	drainIdle = 500 * time.Millisecond
)

// gcPercent is the garbage that may accumulate, in percent of the live heap. Half of the live heap of a gateway is buffers of
// 64 KiB of which packets touch the first page only, so Go's default would keep several times as much garbage resident.
const gcPercent = 50

// Process is the environment of a gateway: metrics, health, and threads that follow the load. The gateway itself starts with its
// first configuration. Start, Reload, Drain and Close are for one goroutine; Gateway may be called concurrently.
type Process struct {
	options Options
	metrics prometheus.Registerer // of the gateway
	reloads *prometheus.CounterVec
	http    *health.Server
	ready   atomic.Bool
	local   *socket                // nil without one
	gateway atomic.Pointer[Daemon] // nil until Start

	extra      atomic.Int32 // threads in addition to those for packets
	stop       context.CancelFunc
	background sync.WaitGroup
}

// Open serves metrics and health: the process is alive, but not ready until Start has applied a configuration. more are
// additional metrics.
func Open(listen config.ListenAddress, o Options, more ...prometheus.Collector) (*Process, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	p := &Process{options: o}
	p.reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "strait_config_reloads_total", Help: "Attempts to apply a changed configuration, by result: ok or error.",
	}, []string{"result"})
	p.reloads.WithLabelValues("ok")
	p.reloads.WithLabelValues("error")
	registry := health.NewRegistry()
	p.metrics = prometheus.WrapRegistererWith(o.Labels, registry)
	p.metrics.MustRegister(append(more, p.reloads)...)
	var err error
	if p.http, err = health.Serve(health.Options{Listen: listen.String(), Ready: p.problem, Metrics: registry, Log: o.Log}); err != nil {
		return nil, fmt.Errorf("observability.listen: %w", err)
	}
	p.local = openSocket(o.Socket, p.Gateway, o.Log)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.background.Go(func() { followLoad(ctx, &p.extra) })
	return p, nil
}

// problem returns why the gateway is not ready. Ready means that the sockets are open and the table is in place. Link state is
// not part of it, because a peer can only connect through a gateway that is ready in its Service. The source of the
// configuration is not part of it either.
func (p *Process) problem() error {
	if p.ready.Load() {
		return nil
	}
	return errors.New("no configuration applied yet, or draining")
}

// Start starts the gateway with a valid configuration. After a failure it may be called again.
func (p *Process) Start(c *config.Gateway) error {
	d, err := Start(c, p.options)
	if err != nil {
		return err
	}
	p.metrics.MustRegister(d)
	p.gateway.Store(d)
	debug.FreeOSMemory() // as in Reload
	p.ready.Store(true)
	return nil
}

// Gateway returns the running gateway, nil before Start.
func (p *Process) Gateway() *Daemon { return p.gateway.Load() }

// Reload changes the running gateway to the valid configuration that load returns, counts the result and logs it. On an error the
// gateway keeps its configuration. load may return nil for no change. applied, unless nil, is called with the new configuration.
//
// Loading allocates several times the memory of a table, and packets create no garbage that would start a collection soon, so the
// memory is returned to the kernel here.
func (p *Process) Reload(load func() (*config.Gateway, error), applied func(*config.Gateway)) error {
	d, log := p.Gateway(), p.options.Log
	changed := false
	err := withExtraThread(&p.extra, func() error {
		c, err := load()
		if changed = c != nil || err != nil; !changed {
			return nil
		}
		defer debug.FreeOSMemory()
		if err == nil {
			err = d.Apply(c)
		}
		if err == nil && applied != nil {
			applied(c)
		}
		return err
	})
	switch {
	case err != nil:
		p.reloads.WithLabelValues("error").Inc()
		log.Error("configuration not applied; keeping the current one", "error", err)
	case changed:
		p.reloads.WithLabelValues("ok").Inc()
		t := d.fabric.Gateway.Table()
		log.Info("configuration applied", "nodes", t.NodeCount(), "routes", t.RouteCount(), "mtu", t.MTU())
	}
	return err
}

// Drain makes the process not ready, tells the far ends and the nodes that the gateway is shutting down, and continues to
// forward: for the time Drain, in which they prefer another gateway, and then for as long as nodes still send packets, limit
// in total. It ends earlier if a signal arrives on now, which may be nil.
func (p *Process) Drain(now <-chan os.Signal, limit time.Duration) {
	p.ready.Store(false)
	forwarded := func() uint64 { return 0 }
	if d := p.Gateway(); d != nil {
		d.Fabric().Leave()
		forwarded = d.forwardedOfNodes
	}
	p.options.Log.Info("draining", "for", Drain, "atMost", max(limit, Drain))
	if !untilIdle(now, limit, forwarded) {
		p.options.Log.Warn("nodes still send packets to this gateway, which stops now", "after", limit)
	}
}

// untilIdle waits for the time Drain, then until forwarded does not change for drainIdle, limit in total or until a signal
// arrives. It returns whether packets ended if it waited for that.
func untilIdle(now <-chan os.Signal, limit time.Duration, forwarded func() uint64) bool {
	next := Drain
	for waited := time.Duration(0); ; {
		before := forwarded()
		select {
		case <-time.After(next):
		case <-now:
			return true
		}
		waited += next
		next = drainIdle
		switch {
		case limit <= Drain:
			return true
		case waited > Drain && forwarded() == before:
			return true
		case waited+next > limit:
			return false
		}
	}
}

// Close ends the gateway and its environment.
func (p *Process) Close() error {
	p.stop()
	p.background.Wait()
	p.http.Close()
	p.local.close()
	if d := p.Gateway(); d != nil {
		return d.Close()
	}
	return nil
}
