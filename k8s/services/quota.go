package services

import (
	"fmt"
	"sync"

	"k8s.io/utils/ptr"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/services/merge"
)

// quotas decide which Services of a remote cluster fit into the limits of its Peering: the
// oldest ReceivedServices, so that a new Service displaces no other. It is safe for
// concurrent use.
type quotas struct {
	mu        sync.Mutex
	byPeering map[string]*quota
}

type quota struct {
	current bool              // no ReceivedService changed since
	refused map[string]string // why, by the names of ReceivedServices; empty: all fit
	counted map[string]amount // by the names of ReceivedServices
}

// amount is what a ReceivedService counts against the limits.
type amount struct{ endpoints, bytes int }

func amountOf(r *v1alpha1.ReceivedService) amount {
	return amount{merge.Endpoints(&r.Spec.Service), merge.Size(&r.Spec.Service)}
}

func (q *quotas) init() { q.byPeering = make(map[string]*quota) }

// forget is called when a Peering or one of its ReceivedServices changed. It reports whether
// the decision has to be made again: what was refused may fit now.
func (q *quotas) forget(peering string) (again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.byPeering[peering]
	if of == nil {
		return false
	}
	of.current = false
	return len(of.refused) > 0
}

// decide makes the decision for a Peering. Services for which it changes are put into the
// queue. The caller holds the lock.
func (q *quotas) decide(w *work, peering string, permits v1alpha1.PeeringServices) *quota {
	was := q.byPeering[peering]
	is := newQuota(w.indexed(byPeering, peering), permits)
	q.byPeering[peering] = is
	if was != nil {
		w.requeue(peering, was, is)
	}
	return is
}

func (q *quotas) again(w *work, peering string) {
	p, ok := w.Peerings.Get(peering)
	if !ok {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.decide(w, peering, p.Spec.Services)
}

// refused returns why a ReceivedService exceeds the limits of its Peering.
func (q *quotas) refused(w *work, object *v1alpha1.ReceivedService, permits v1alpha1.PeeringServices) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.byPeering[object.Spec.Peering]
	if of == nil || !of.current || of.counted[object.Name] != amountOf(object) {
		of = q.decide(w, object.Spec.Peering, permits)
	}
	if _, ok := of.counted[object.Name]; !ok {
		return "it is deleted"
	}
	return of.refused[object.Name]
}

func newQuota(all []*v1alpha1.ReceivedService, permits v1alpha1.PeeringServices) *quota {
	of := &quota{current: true, refused: make(map[string]string), counted: make(map[string]amount, len(all))}
	maxServices, maxEndpoints := int(ptr.Deref(permits.MaxServices, 0)), int(ptr.Deref(permits.MaxEndpoints, 0))
	maxBytes := int(ptr.Deref(permits.MaxBytes, merge.DefaultMaxBytes))
	var total amount
	for _, r := range all {
		n := amountOf(r)
		of.counted[r.Name] = n
		total = amount{total.endpoints + n.endpoints, total.bytes + n.bytes}
	}
	if len(all) <= maxServices && total.endpoints <= maxEndpoints && total.bytes <= maxBytes {
		return of
	}
	services, used := 0, amount{}
	for _, r := range client.OldestFirst(all) {
		n := of.counted[r.Name]
		switch {
		case services >= maxServices:
			of.refused[r.Name] = fmt.Sprintf("the Peering permits %d Services (spec.services.maxServices)", maxServices)
		case used.endpoints+n.endpoints > maxEndpoints:
			of.refused[r.Name] = fmt.Sprintf("with its %d endpoints there would be more than the Peering permits, %d (spec.services.maxEndpoints)", n.endpoints, maxEndpoints)
		case used.bytes+n.bytes > maxBytes:
			of.refused[r.Name] = fmt.Sprintf("with its %d bytes there would be more than the Peering permits, %d (spec.services.maxBytes)", n.bytes, maxBytes)
		default:
			services, used = services+1, amount{used.endpoints + n.endpoints, used.bytes + n.bytes}
		}
	}
	return of
}

func (w *work) requeue(peering string, was, is *quota) {
	for _, r := range w.indexed(byPeering, peering) {
		if was.refused[r.Name] != is.refused[r.Name] {
			w.queue.Add(key{r.Spec.Service.Namespace, r.Spec.Service.Name})
		}
	}
}
