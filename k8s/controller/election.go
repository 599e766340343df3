package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"strait.dev/strait/internal/health"
)

// leaseName is the name of the Lease in the controller's namespace.
const leaseName = "strait-controller"

// The duration of a lease, the time without renewal after which its holder stops working,
// and the retry interval: the values of Kubernetes' own controllers.
var leaseFor, renewWithin, retryEvery = 15 * time.Second, 10 * time.Second, 2 * time.Second

// lead calls work while this process holds the lease, with a context that ends when the
// lease is lost, one call at a time, until ctx ends. Normally one of several processes
// works: a lease does not stop a process that was suspended and resumes late, nor one whose
// clock runs slow. Claims make that harmless. The pulse beats while the process waits; work
// must beat it itself.
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
			log.Warn("cannot get the lease; trying again", "error", err, "every", retryEvery)
		case !waiting:
			log.Info("waiting for the lease")
			waiting = true
		}
		sleep(ctx, retryEvery)
	}
}

// term calls work, and renews the lease while work runs. It releases the lease afterwards,
// so that another controller need not wait until it expires.
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
			log.Warn("cannot release the lease; another controller waits until it expires", "error", err, "end", leaseFor)
		}
	}
}

// renew returns when ctx ends, another process holds the lease, or it could not be renewed
// for too long.
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
			log.Warn("another controller took the lease; stopping work")
			return
		case time.Since(renewed) >= renewWithin:
			log.Warn("the lease could not be renewed; stopping work", "error", err)
			return
		}
	}
}
