package gateway

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
)

// compareInterval is the interval at which the objects are compared with what was received.
// A difference that lasts for two of them, which the delay of a watch does not, makes the
// receiver begin again with a snapshot.
const compareInterval = 10 * time.Second

// receiver receives the exports of the remote cluster while the gateway is the one that the
// controller chose for it.
type receiver struct {
	options  *Options
	client   *client.Client
	importer control.ImporterOptions // without a store
	metrics  *metrics
	log      *slog.Logger

	budget  writeBudget
	policy  atomic.Pointer[importPolicy] // nil: this gateway is not the receiver
	changed client.Signal                // the policy changed
	current atomic.Pointer[reception]    // nil: none
}

type reception struct {
	importer *control.Importer
	store    *receivedServices
}

// follow makes the receiver follow the Peering; nil: there is none. It is called from one
// goroutine.
func (r *receiver) follow(p *v1alpha1.Peering, now time.Time) {
	var policy *importPolicy
	if p != nil && p.Status.Services != nil && p.Status.Services.Receiver == r.options.Name {
		policy = importPolicyOf(p, now)
	}
	if reflect.DeepEqual(policy, r.policy.Load()) {
		return
	}
	r.policy.Store(policy)
	r.changed.Set()
}

func (r *receiver) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
			if r.policy.Load() != nil {
				r.receive(ctx)
			}
		}
	}
}

// receive receives until this gateway is no longer the receiver.
func (r *receiver) receive(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	objects := newReceivedObjects()
	reflector := r.client.ReceivedServices(r.options.Namespace).Reflector(peering.Label+"="+r.options.Peering, objects)
	following.Go(func() { reflector.RunWithContext(ctx) })
	for listed := false; !listed; {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
			if r.policy.Load() == nil {
				return
			}
		case <-objects.listed:
			listed = true
		}
	}
	for ctx.Err() == nil {
		policy := r.policy.Load()
		if policy == nil {
			return
		}
		r.receiveWith(ctx, policy, objects)
	}
}

// receiveWith receives with a policy, until another one applies or a snapshot is needed.
func (r *receiver) receiveWith(ctx context.Context, policy *importPolicy, objects *receivedObjects) {
	within, cancel := context.WithCancel(ctx)
	store := newReceivedServices(r.client, r.options, policy, &r.budget, objects.copy())
	options := r.importer
	options.Store = store
	now := &reception{control.NewImporter(options), store}
	r.current.Store(now)
	var receiving sync.WaitGroup
	defer r.current.Store(nil)
	defer receiving.Wait()
	defer cancel()
	if policy.from == v1alpha1.ImportNone {
		receiving.Go(func() { r.removeAll(within, store) })
	} else {
		receiving.Go(func() { now.importer.Run(within) })
	}
	begun := time.Now()
	compare := time.NewTicker(compareInterval)
	defer compare.Stop()
	for outdated := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
			if !reflect.DeepEqual(policy, r.policy.Load()) {
				return
			}
		case <-compare.C:
			if policy.from != v1alpha1.ImportNone && !now.importer.State().Synced || !store.outdated(objects.copy(), time.Since(begun)) {
				outdated = 0
			} else if outdated++; outdated == 2 {
				return
			}
		}
	}
}

// removeAll removes all objects, which a Peering that imports nothing does not have.
func (r *receiver) removeAll(ctx context.Context, store *receivedServices) {
	for {
		err := store.Retain(ctx, func(control.ServiceKey) bool { return false })
		if err == nil || ctx.Err() != nil {
			return
		}
		r.log.Warn("cannot delete Services of the remote cluster; trying again", "error", err, "every", applyRetryInterval)
		select {
		case <-ctx.Done():
		case <-time.After(applyRetryInterval):
		}
	}
}

// report returns the state of receiving; nil: this gateway is not the receiver.
func (r *receiver) report() *v1alpha1.ServicesReport {
	now := r.current.Load()
	if now == nil {
		r.metrics.notReceiving()
		return nil
	}
	report := new(v1alpha1.ServicesReport)
	now.store.report(report, r.metrics)
	state := now.importer.State()
	report.From, report.Synced = state.Gateway, state.Synced
	switch {
	case now.store.policy.from == v1alpha1.ImportNone:
		report.Message = "spec.services.importFrom is None"
	case state.Err != nil:
		report.Message = state.Err.Error()
	case state.Stale:
		report.Message = "the remote gateway has lost its API server: its exports may be out of date"
	case state.Gateway == "" && report.Message == "":
		report.Message = "no link is up"
	}
	report.Message = client.Clip(report.Message, maxText)
	return report
}
