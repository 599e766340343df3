package services

import (
	"fmt"
	"sync"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// quotas decide which Services of a remote cluster fit into the limits of its Peering: the
// oldest ReceivedServices, so that a new Service displaces no other. It is safe for
// concurrent use.
type quotas struct {
	mu        sync.Mutex
	byPeering map[string]*quota
}

// quota is the decision for one Peering.
type quota struct {
	current bool              // no ReceivedService changed since
	refused map[string]string // why, by the names of ReceivedServices; empty: all fit
	counted map[string]int    // endpoints, by the names of ReceivedServices
}

func (q *quotas) init() { q.byPeering = make(map[string]*quota) }

// forget is called when a Peering or one of its ReceivedServices changed.
func (q *quotas) forget(peering string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if of := q.byPeering[peering]; of != nil {
		of.current = false
	}
}

// refused returns why a ReceivedService exceeds the limits of its Peering. If that changes
// for others, they are put into the queue.
func (q *quotas) refused(w *work, object *v1alpha1.ReceivedService, permits v1alpha1.PeeringServices) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.byPeering[object.Spec.Peering]
	if of == nil || !of.current || of.counted[object.Name] != endpoints(&object.Spec.Service) {
		was := of
		of = newQuota(w.indexed(byPeering, object.Spec.Peering), permits)
		q.byPeering[object.Spec.Peering] = of
		if was != nil {
			w.requeue(object.Spec.Peering, was, of)
		}
	}
	if _, ok := of.counted[object.Name]; !ok {
		return "it is deleted"
	}
	return of.refused[object.Name]
}

// newQuota decides for all ReceivedServices of a Peering.
func newQuota(all []*v1alpha1.ReceivedService, permits v1alpha1.PeeringServices) *quota {
	of := &quota{current: true, refused: make(map[string]string), counted: make(map[string]int, len(all))}
	maxServices, maxEndpoints := int(value(permits.MaxServices)), int(value(permits.MaxEndpoints))
	total := 0
	for _, r := range all {
		n := endpoints(&r.Spec.Service)
		of.counted[r.Name] = n
		total += n
	}
	if len(all) <= maxServices && total <= maxEndpoints {
		return of
	}
	services, used := 0, 0
	for _, r := range client.OldestFirst(all) {
		n := of.counted[r.Name]
		switch {
		case services >= maxServices:
			of.refused[r.Name] = fmt.Sprintf("the Peering permits %d Services (spec.services.maxServices)", maxServices)
		case used+n > maxEndpoints:
			of.refused[r.Name] = fmt.Sprintf("with its %d endpoints there would be more than the Peering permits, %d (spec.services.maxEndpoints)", n, maxEndpoints)
		default:
			services, used = services+1, used+n
		}
	}
	return of
}

// requeue adds the Services for which two decisions differ.
func (w *work) requeue(peering string, was, is *quota) {
	for _, r := range w.indexed(byPeering, peering) {
		if was.refused[r.Name] != is.refused[r.Name] {
			w.queue.Add(key{r.Spec.Service.Namespace, r.Spec.Service.Name})
		}
	}
}
