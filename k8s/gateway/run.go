package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"strait.dev/strait/config"
	"strait.dev/strait/control"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/internal/health"
	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/translate"
)

// Options configure a gateway that follows its objects.
type Options struct {
	API     *rest.Config // of the API server
	Peering string       // name of the Peering that it serves
	// PeeringUID is the UID of the Peering; empty: any. A Peering that was deleted and
	// created again has other gateways, with other keys.
	PeeringUID types.UID

	// Settings of the configuration, without keys, which the gateway reads itself. Its name is
	// that of its pod.
	translate.Settings
	// Namespace and PodUID are of the gateway's pod. Its report is deleted with the pod, unless
	// the UID is empty.
	Namespace string
	PodUID    types.UID

	// KeyDir contains the private keys, in base64, each in a file named after its
	// generation, like 1.key. They may be added while the gateway runs. InviteKeyFile is
	// the temporary key of an invite, if the file exists; empty: none. PresharedKeyDir
	// contains a file for each Secret with a preshared key that the Peering references,
	// under the name of the Secret; empty: none.
	KeyDir, InviteKeyFile, PresharedKeyDir string
	// CacheDir is the existing directory in which the configuration in effect is cached.
	CacheDir string

	Health config.ListenAddress // where only liveness is served, for the health checks of load balancers

	Daemon daemon.Options
}

// Run runs the gateway until ctx ends, then drains it. It returns errors of the start; no
// later error ends it.
func Run(ctx context.Context, o Options) error {
	// Packet processing does not allocate, and most of the heap in use are its buffers,
	// whose unused pages are not resident. Without this setting, garbage from objects could
	// grow to the size of these buffers.
	debug.SetGCPercent(gcPercent)
	f := &follower{
		options:          o,
		log:              o.Daemon.Log,
		metrics:          newMetrics(),
		started:          make(chan struct{}),
		publishRequested: make(client.Signal, 1),
		saver:            newSaver(o.CacheDir, identity{o.Peering, o.Name}, o.Daemon.Log),
	}
	f.linkLog = control.LimitLog(f.log)
	f.announcer = control.NewAnnouncer(control.AnnouncerOptions{Up: f.linksUp, Dial: f.dial, Jitter: rand.Float64, Log: f.linkLog})
	f.loadKeys()
	var err error
	api := rest.CopyConfig(o.API)
	contact := &apiContact{log: f.log, up: f.metrics.api}
	api.Wrap(contact.wrap)
	if f.client, err = client.New(api); err != nil {
		return err
	}
	if f.objects, err = newObjects(f.client, o); err != nil {
		return err
	}
	f.exports = control.NewExports(control.ExportsOptions{
		Stale: contact.stale, Stored: func(lag time.Duration) { f.metrics.lag.Observe(lag.Seconds()) },
	})
	f.receiver = &receiver{
		options: &f.options, client: f.client, metrics: f.metrics, log: f.log, changed: make(client.Signal, 1),
		importer: control.ImporterOptions{Up: f.linksUp, Dial: f.dial, Jitter: rand.Float64, Budget: new(ratelimit.Bucket), Log: f.linkLog},
	}
	o.Daemon.LinksChanged = f.publishRequested.Set
	// A metrics reader knows the process by its address only; these labels identify the
	// gateway.
	o.Daemon.Labels = map[string]string{"peering": o.Peering, "gateway": o.Name}
	if f.process, err = daemon.Open(o.Observability, o.Daemon, f.metrics.all()...); err != nil {
		return err
	}
	defer f.process.Close()
	if o.Health.Configured() {
		alive, err := health.Serve(health.Options{Listen: o.Health.String(), Log: o.Daemon.Log})
		if err != nil {
			return fmt.Errorf("serve health for load balancers: %w", err)
		}
		defer alive.Close()
	}

	var background sync.WaitGroup
	within, stop := context.WithCancel(ctx)
	keys := make(chan struct{}, 1)
	background.Go(func() { f.objects.run(within) })
	background.Go(func() { f.publish(within) })
	background.Go(func() { f.exchangeAnnouncements(within) })
	background.Go(func() { f.followExports(within) })
	background.Go(func() { f.receiver.run(within) })
	background.Go(func() { f.saver.run(within) })
	background.Go(func() { daemon.Watch(within, f.keyFiles(), keys, f.log) })
	f.follow(ctx, keys)
	stop()
	f.process.Drain(nil, f.drainLimit())
	background.Wait()
	return nil
}

// DrainLimit is the maximum time for which a gateway that ends waits for its nodes to send to
// another one. It is less than the pod's termination grace period.
const DrainLimit = 15 * time.Second

// drainLimit returns how long nodes may take to leave this gateway: no longer than the usual
// time if there is no other gateway that they could send to.
func (f *follower) drainLimit() time.Duration {
	p, ok := f.objects.peer()
	if ok && slices.ContainsFunc(p.Status.Gateways, func(g v1alpha1.GatewayStatus) bool { return g.LinkUp && g.Name != f.options.Name }) {
		return DrainLimit
	}
	return daemon.Drain
}

const gcPercent = 20

const (
	// applyInterval is the minimum interval between two configurations. Changes in between
	// are applied together.
	applyInterval = 100 * time.Millisecond
	// applyShare limits the CPU time of applying in a cluster with continuous changes: to
	// one part in applyShare+1 of one CPU.
	applyShare = 2
	// applyRetryInterval is the time after which a failed apply is repeated.
	applyRetryInterval = 5 * time.Second
	// restoreRetryInterval is that time while the API server has not answered: nothing else ends the outage of
	// this gateway's links.
	restoreRetryInterval = time.Second
)

// follow applies the cached configuration, and then the current objects until ctx ends: at once after a quiet time,
// otherwise no more often than the constants above allow.
func (f *follower) follow(ctx context.Context, keys <-chan struct{}) {
	var again <-chan time.Time
	if f.restore() {
		again = time.After(restoreRetryInterval)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.objects.changed:
		case <-keys:
			f.loadKeys()
			f.keysChanged = true
		case <-again:
			if f.process.Gateway() == nil && !f.objects.complete() && f.restore() {
				again = time.After(restoreRetryInterval)
			}
		}
		if !f.objects.complete() {
			continue
		}
		begun := time.Now()
		again = nil
		p, ok := f.objects.peer()
		f.receiver.follow(p, begun)
		if ok {
			if at := peering.NextExpiry(p, begun); !at.IsZero() {
				again = time.After(at.Sub(begun))
			}
		}
		f.joining.check(f.process.Gateway(), f.inForce, begun)
		if err := f.apply(); err != nil {
			again = time.After(applyRetryInterval)
		} else if f.joining.waits() && f.process.Gateway() != nil {
			again = time.After(joinInterval)
		}
		f.announce()
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(applyInterval, applyShare*time.Since(begun))):
		}
	}
}
