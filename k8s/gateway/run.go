package gateway

import (
	"context"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/translate"
)

// Options of a gateway that follows its objects.
type Options struct {
	API     *rest.Config // of the API server
	Peering string       // name of the Peering that it serves
	// PeeringUID is that of the Peering; empty: any. One that was deleted and created anew
	// has other gateways, with other keys.
	PeeringUID types.UID

	// What it is: its own name, as in status.gateways of the Peering, the name of the
	// node it runs on, and the addresses of its pod.
	Name, Node   string
	PodAddresses []netip.Addr

	// KeyDir has the private keys, in base64, each in a file named for its generation,
	// like 1.key. They may come later, and while it runs. InviteKeyFile is the temporary
	// one of an invite, if the file exists; empty: there is none. PresharedKeyDir has a
	// file for each Secret that the Peering names for a preshared key, under the name of
	// the Secret; empty: there is none.
	KeyDir, InviteKeyFile, PresharedKeyDir string
	// CacheDir is where the copy of the configuration in force is kept. It must exist.
	CacheDir string

	Geneve, VXLAN, Observability config.ListenAddress
	WireGuardPort                uint16 // UDP; 0: any free port

	Daemon daemon.Options
}

// Run runs the gateway until ctx ends, then drains it. It returns what went wrong at
// the start; nothing that happens later ends it.
func Run(ctx context.Context, o Options) error {
	// Packets make no garbage, and most of what counts as memory in use are their buffers,
	// which hold no pages while they are not used. Without this, what objects leave behind
	// may grow to the size of those.
	debug.SetGCPercent(gcPercent)
	f := &follower{
		options: o,
		log:     o.Daemon.Log,
		settings: translate.Settings{
			Name: o.Name, PodAddresses: o.PodAddresses,
			Geneve: o.Geneve, VXLAN: o.VXLAN, Observability: o.Observability,
			WireGuardPort: o.WireGuardPort,
		},
		metrics:          newMetrics(),
		started:          make(chan struct{}),
		publishRequested: make(chan struct{}, 1),
		saver:            &saver{dir: o.CacheDir, of: identity{o.Peering, o.Name}, log: o.Daemon.Log, next: make(chan *config.Gateway, 1)},
	}
	f.announcer = f.newAnnouncer()
	f.loadKeys()
	var err error
	api := rest.CopyConfig(o.API)
	api.Wrap((&apiContact{log: f.log, up: f.metrics.api}).wrap)
	if f.client, err = client.New(api); err != nil {
		return err
	}
	if f.objects, err = newObjects(f.client, o.Peering, o.PeeringUID); err != nil {
		return err
	}
	// Whoever reads metrics knows the process by an address, and not by these.
	o.Daemon.Labels = map[string]string{"peering": o.Peering, "gateway": o.Name}
	if f.process, err = daemon.Open(o.Observability, o.Daemon, f.metrics.all()...); err != nil {
		return err
	}
	defer f.process.Close()
	f.restore()

	var background sync.WaitGroup
	within, stop := context.WithCancel(ctx)
	keys := make(chan struct{}, 1)
	background.Go(func() { f.objects.run(within) })
	background.Go(func() { f.publish(within) })
	background.Go(func() { f.exchangeAnnouncements(within) })
	background.Go(func() { f.saver.run(within) })
	background.Go(func() { daemon.Watch(within, f.keyFiles(), keys, f.log) })
	f.follow(ctx, keys)
	stop()
	f.process.Drain(nil)
	background.Wait()
	return nil
}

// gcPercent is how much of it there may be, in percent of the memory in use.
const gcPercent = 20

const (
	// applyInterval is the shortest time between two configurations. Changes that come
	// in between are applied together.
	applyInterval = 100 * time.Millisecond
	// applyShare bounds what applying takes in a cluster where something changes all
	// the time: one part in so many of one processor.
	applyShare = 2
	// applyRetryInterval is when something that could not be applied is tried again.
	applyRetryInterval = 5 * time.Second
)

// follow applies what the objects say, until ctx ends: at once after a quiet time, and
// then not more often than the constants above allow.
func (f *follower) follow(ctx context.Context, keys <-chan struct{}) {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.objects.changed:
		case <-keys:
			f.loadKeys()
			f.keysChanged = true
		case <-again:
		}
		if !f.objects.complete() {
			continue
		}
		begun := time.Now()
		again = nil
		if p, ok := f.objects.peer(); ok {
			if at := peering.NextExpiry(p, begun); !at.IsZero() {
				again = time.After(at.Sub(begun))
			}
		}
		if err := f.apply(); err != nil {
			again = time.After(applyRetryInterval)
		}
		f.announce()
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(applyInterval, applyShare*time.Since(begun))):
		}
	}
}
