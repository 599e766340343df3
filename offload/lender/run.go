package lender

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/budget"
	"strait.dev/strait/offload/identity"
	"strait.dev/strait/offload/lease"
	"strait.dev/strait/offload/loop"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/streams"
)

// Options configure a lender. All but Stats are required.
type Options struct {
	Client    *client.Client
	Peering   string       // name of the Peering to whose cluster it lends
	Namespace string       // of its pod, its Lease and its Secret
	Listener  net.Listener // for the borrower; Run closes it
	Log       *slog.Logger
	Stats     *Stats // what it measures; nil: nothing
}

const writers = 8 // concurrent writes

// Name returns the name of a Peering's lender: of its Lease and its Secret.
func Name(peering string) string { return "strait-lender-" + peering }

// lender is a running lender.
type lender struct {
	Options
	log      *slog.Logger
	own      tls.Certificate
	lease    *lease.Lease
	peerings *client.Cache[*v1alpha1.Peering]
	board    *board
	loop     *loop.Loop
	streams  *streams.Proxy
	bodies   chan struct{} // one for each body of a request that is in memory
	outside  int           // endpoints that are left out
	budget   budget.Writes
	caches   sync.WaitGroup

	fencing sync.Mutex // held while a term is stored; before mu
	mu      sync.Mutex // guards state and spaces
	state   *State
	spaces  map[string]*space // by namespace; the loop changes it
	// barred are namespaces of the list that are not lent, and in which the lender has no rights: whether
	// nothing was in them before. Of the loop.
	barred map[string]bool
}

// Run lends until ctx ends. It returns an error if a later run takes its place.
func Run(ctx context.Context, o Options) error {
	if o.Stats == nil {
		o.Stats = new(Stats)
	}
	l := &lender{
		Options: o, log: o.Log,
		lease:    &lease.Lease{Leases: o.Client.Leases(o.Namespace), Name: Name(o.Peering), Holder: protocol.Hash([]byte(rand.Text()))},
		peerings: o.Client.Peerings().Cache(o.Peering),
		board:    newBoard(), loop: loop.New(), bodies: make(chan struct{}, maxBodies), spaces: make(map[string]*space), barred: make(map[string]bool),
	}
	defer o.Listener.Close() // even if it does not serve
	transport, err := o.Client.Streams()
	if err != nil {
		return err
	}
	l.streams = streams.New(streams.Options{Next: "the API server of the other cluster", Transport: transport, Wait: streamPatience, Answer: answer, Log: l.log})
	if !loop.Begin(ctx, patience, l.prepare, func(err error) { l.log.Warn("cannot start to lend; retrying", "error", err) }) {
		return nil
	}
	if err := l.peerings.Notify(l.loop.Wake); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	server := streams.Server(l.handler(), protocol.Server(l.own, l.borrower)) // nothing is read from another client
	var background sync.WaitGroup
	background.Go(func() { l.peerings.RunWithContext(ctx) })
	background.Go(func() { l.beat(ctx, stop) })
	background.Go(func() {
		if err := server.ServeTLS(streams.Limit(o.Listener), "", ""); !errors.Is(err, http.ErrServerClosed) {
			stop(err)
		}
	})
	l.loop.Run(ctx, l.decide)
	stop(nil)
	server.Close()
	background.Wait()
	l.caches.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// prepare loads the key and takes the lease.
func (l *lender) prepare(ctx context.Context) (err error) {
	if l.own, err = identity.Load(ctx, l.Client.Secrets(l.Namespace), Name(l.Peering)); err != nil {
		return err
	}
	term, err := l.lease.Take(ctx, false)
	if err != nil {
		return err
	}
	l.state = NewState(l.Peering, l.lease.Holder, term)
	l.log.Info("the lender runs", "fingerprint", protocol.Fingerprint(l.own))
	return nil
}

// borrower returns the fingerprint of the borrower's certificate, empty if it is not known.
func (l *lender) borrower() string {
	p, ok := l.peerings.Get(l.Peering)
	if !ok || p.Status.Announcement == nil || p.Status.Announcement.Offload == nil {
		return ""
	}
	return string(p.Status.Announcement.Offload.Borrower)
}

// beat posts a heartbeat while the API server answers, so that silence tells the borrower that
// what it knows may be old. It ends the run if a later one has taken the Lease.
func (l *lender) beat(ctx context.Context, stop context.CancelCauseFunc) {
	ticker := time.NewTicker(protocol.HeartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		within, cancel := context.WithTimeout(ctx, protocol.HeartbeatInterval)
		err := l.lease.Held(within)
		cancel()
		switch {
		case err == nil:
			l.board.beat()
		case errors.Is(err, lease.ErrLost):
			stop(err)
			return
		}
	}
}

// decide decides once, if the Peering is known.
func (l *lender) decide(ctx context.Context) (again time.Duration) {
	if !l.peerings.HasSynced() {
		return loop.Retry
	}
	if at := l.pass(ctx); !at.IsZero() {
		again = max(time.Until(at), 1)
	}
	return again
}

// pass decides once, publishes what was decided, and writes. It returns when to decide again
// without a change; zero: never.
func (l *lender) pass(ctx context.Context) (again time.Time) {
	namespaces, retry := l.namespaces(ctx)
	l.mu.Lock()
	d := l.state.Decide(namespaces, l.path(), time.Now())
	hello := &protocol.Hello{Epoch: l.state.Epoch}
	l.mu.Unlock()
	if p, ok := l.peerings.Get(l.Peering); ok && p.Spec.Lend != nil {
		hello.Resources, hello.Largest = Offer(p.Spec.Lend.Resources, namespaces), p.Spec.Lend.Largest
	}
	l.Stats.decided(d)
	if d.Outside != l.outside {
		l.outside = d.Outside
		l.log.Warn("endpoints of the other cluster are left out, because the Peering does not grant their addresses", "endpoints", d.Outside)
	}
	for name, n := range namespaces {
		if n.Lent && n.Read {
			hello.Namespaces = append(hello.Namespaces, name)
		}
	}
	slices.Sort(hello.Namespaces)
	l.board.post(hello, d.Statuses, d.Needs)

	now, late := time.Now(), 0
	var permittedAt time.Time // the first write that waits
	permitted := func(size int) bool {
		wait := l.budget.Take(size, now)
		if wait > 0 {
			late++
			permittedAt = earlier(permittedAt, now.Add(max(wait, loop.Retry)))
		}
		return wait == 0
	}
	var writes []func() bool
	for _, w := range d.Writes {
		if permitted(w.size()) {
			writes = append(writes, func() bool { return l.write(ctx, w) })
		}
	}
	for _, w := range d.Objects {
		if permitted(w.size()) {
			writes = append(writes, func() bool { return l.writeObject(ctx, w) })
		}
	}
	var failed atomic.Bool
	workqueue.ParallelizeUntil(ctx, writers, len(writes), func(i int) {
		if !writes[i]() {
			failed.Store(true)
		}
	})
	if retry || failed.Load() {
		d.Again = time.Now().Add(loop.Retry)
	}
	d.Again = earlier(d.Again, permittedAt)
	l.Stats.waits(late)
	if late > 0 && l.budget.Tell(now) {
		l.log.Warn("the other cluster changes its pods faster than this one stores them; the rest waits", "waiting", late)
	}
	return d.Again
}

// path returns the state of the path to the other cluster.
func (l *lender) path() Path {
	p, ok := l.peerings.Get(l.Peering)
	if !ok {
		return Path{}
	}
	return Path{
		Granted: merge.Granted(p.Status.Prefixes, peering.RemoteOf(p, time.Now()).Prefixes),
		LinkUp:  slices.ContainsFunc(p.Status.Gateways, func(g v1alpha1.GatewayStatus) bool { return g.LinkUp }),
	}
}
