package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"strait.dev/strait/internal/health"
)

// leaseName is the Lease in the controller's namespace.
const leaseName = "strait-controller"

// How long a lease holds that is not renewed, after what time of failures its holder
// pauses, and how often each tries: the times of Kubernetes' own controllers.
var leaseFor, renewWithin, retryEvery = 15 * time.Second, 10 * time.Second, 2 * time.Second

// lead calls work whenever this process holds the lease, with a context that ends when
// the lease is lost, one call at a time, until ctx ends. Of several processes one works,
// as a rule: a lease does not stop a process that was suspended and wakes up late, nor
// one whose clock runs slow. Claims make that harmless. The pulse beats while the process
// waits; work has to see to it itself.
func lead(ctx context.Context, o Options, pulse *health.Pulse, work func(context.Context)) {
	l := &lease{leases: o.Client.Leases(o.Namespace), identity: o.Identity}
	log := o.Log.With("lease", o.Namespace+"/"+leaseName, "identity", o.Identity)
	waiting := false
	for ctx.Err() == nil {
		pulse.Beat(time.Now())
		held, err := l.try(ctx)
		if held {
			log.Info("leading")
			l.term(ctx, log, work)
			waiting = false
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			log.Warn("cannot ask for the lease; trying again", "error", err, "every", retryEvery)
		case !waiting:
			log.Info("waiting for the lease")
			waiting = true
		}
		sleep(ctx, retryEvery)
	}
}

// term calls work, and renews the lease for as long as that takes. The lease is let go
// afterwards, so that another need not wait for its end.
func (l *lease) term(ctx context.Context, log *slog.Logger, work func(context.Context)) {
	within, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { work(within) })
	l.renew(within, log)
	stop()
	working.Wait()
	if ctx.Err() != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryEvery)
		defer cancel()
		if err := l.release(limited); err != nil {
			log.Warn("cannot let go of the lease; another controller waits for its end", "error", err, "end", leaseFor)
		}
	}
}

// renew returns when ctx ends, another holds the lease, or it could not be renewed for
// too long.
func (l *lease) renew(ctx context.Context, log *slog.Logger) {
	for renewed := time.Now(); ; {
		sleep(ctx, retryEvery)
		if ctx.Err() != nil {
			return
		}
		limited, cancel := context.WithDeadline(ctx, renewed.Add(renewWithin))
		asked := time.Now()
		held, err := l.try(limited)
		cancel()
		switch {
		case held:
			renewed = asked
		case err == nil:
			log.Warn("another took the lease; pausing")
			return
		case time.Since(renewed) >= renewWithin:
			log.Warn("the lease could not be renewed; pausing", "error", err)
			return
		}
	}
}
