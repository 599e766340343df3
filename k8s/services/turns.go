package services

import (
	"cmp"
	"slices"

	"k8s.io/client-go/util/workqueue"
)

// turns is the order of the work queue: Peerings take turns, and so does this cluster. A remote
// cluster that changes thousands of Services delays the changes of another one by those in
// progress. The work queue serializes the calls.
type turns struct {
	peerings func(key) []string // those that export a Service, none for work of this cluster
	waiting  map[string][]key   // by Peering, first come first served
	order    []string           // the Peerings with waiting work, the next one first
	length   int
}

func newTurns(peerings func(key) []string) *turns {
	return &turns{peerings: peerings, waiting: make(map[string][]key)}
}

var _ workqueue.Queue[key] = (*turns)(nil)

// Touch does nothing: what waits keeps its place.
func (t *turns) Touch(key) {}

// Push adds work to that of its Peering. A Service of several Peerings is added to the shortest list.
func (t *turns) Push(k key) {
	var of string
	if all := t.peerings(k); len(all) > 0 {
		of = slices.MinFunc(all, func(a, b string) int { return cmp.Compare(len(t.waiting[a]), len(t.waiting[b])) })
	}
	if len(t.waiting[of]) == 0 {
		t.order = append(t.order, of)
	}
	t.waiting[of] = append(t.waiting[of], k)
	t.length++
}

func (t *turns) Len() int { return t.length }

func (t *turns) Pop() key {
	of := t.order[0]
	t.order = t.order[1:]
	k := t.waiting[of][0]
	if rest := t.waiting[of][1:]; len(rest) > 0 {
		t.waiting[of] = rest
		t.order = append(t.order, of)
	} else {
		delete(t.waiting, of)
	}
	t.length--
	return k
}

// peeringsOf returns the Peerings on whose exports a key depends, and those on whose exports it
// depended when it was last reconciled.
func (w *work) peeringsOf(k key) (names []string) {
	if k.namespace == "" {
		return nil
	}
	for _, r := range w.indexed(byService, k.String()) {
		names = append(names, r.Spec.Peering)
	}
	if len(names) > 0 {
		return names
	}
	return w.judged.peerings(k)
}

func workQueue(order *turns) workqueue.TypedRateLimitingInterface[key] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.NewTypedItemExponentialFailureRateLimiter[key](firstWait, longest),
		workqueue.TypedRateLimitingQueueConfig[key]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[key]{
				Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[key]{Queue: order}),
			}),
		})
}
