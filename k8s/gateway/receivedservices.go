package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
)

const (
	// writers is the number of concurrent requests that write ReceivedServices.
	writers = 4
	// writeRate and writeBurst limit these requests, in all and per second: the remote
	// cluster decides how often its exports change. 2 000 Services take 30 s.
	writeRate  = 50
	writeBurst = 500
)

// receivedServices stores the records of the remote cluster that a policy permits as
// ReceivedServices. It implements control.ServiceStore. It is used by one Importer, and safe
// for concurrent use.
//
// It remembers hashes of the objects and no records: what requires records again, like
// another policy, begins with new receivedServices and a snapshot.
type receivedServices struct {
	api     *client.Kind[*v1alpha1.ReceivedService, *v1alpha1.ReceivedServiceList]
	peering string
	policy  *importPolicy
	limit   flowcontrol.RateLimiter

	mu        sync.Mutex
	stored    map[string]storedService // by name of the object; before the first snapshot also objects of an earlier process
	endpoints int                      // of stored
	refused   map[control.ServiceKey]refusal
}

// newReceivedServices returns the store of a Peering. existing are its objects.
func newReceivedServices(c *client.Client, o *Options, policy *importPolicy, existing map[string]storedService) *receivedServices {
	s := &receivedServices{
		api: c.ReceivedServices(o.Namespace), peering: o.Peering, policy: policy,
		limit:  flowcontrol.NewTokenBucketRateLimiter(writeRate, writeBurst),
		stored: existing, refused: make(map[control.ServiceKey]refusal),
	}
	for _, e := range existing {
		s.endpoints += e.endpoints
	}
	return s
}

func (s *receivedServices) nameOf(k control.ServiceKey) string {
	return k.Name + "." + k.Namespace + "." + s.peering
}

// Apply implements control.ServiceStore.
func (s *receivedServices) Apply(ctx context.Context, changed []control.ServiceRecord, removed []control.ServiceKey) error {
	// Removals come first: they make room within the limits.
	if err := each(ctx, removed, s.remove); err != nil {
		return err
	}
	return each(ctx, changed, s.put)
}

// Retain implements control.ServiceStore.
func (s *receivedServices) Retain(ctx context.Context, keep func(control.ServiceKey) bool) error {
	var gone []control.ServiceKey
	s.mu.Lock()
	for _, e := range s.stored {
		if !keep(e.key) {
			gone = append(gone, e.key)
		}
	}
	for k := range s.refused {
		if !keep(k) {
			delete(s.refused, k)
		}
	}
	s.mu.Unlock()
	return each(ctx, gone, s.remove)
}

// each calls do for all items, some at a time. It returns the errors.
func each[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	var (
		running  sync.WaitGroup
		mu       sync.Mutex
		problems error
	)
	slots := make(chan struct{}, writers)
	for _, item := range items {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if err := do(ctx, item); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if problems == nil { // one is enough to repeat all
					problems = err
				}
			}
		})
	}
	running.Wait()
	return problems
}

// put stores a record, or removes its object if it is refused.
func (s *receivedServices) put(ctx context.Context, r control.ServiceRecord) error {
	o, want, why := s.object(r)
	if why != nil {
		return s.refuse(ctx, r.Key, *why)
	}
	if same, why := s.reserve(o.Name, want); why != nil {
		return s.refuse(ctx, r.Key, *why)
	} else if same {
		return nil
	}
	if err := s.write(ctx, o); err != nil {
		s.mu.Lock()
		e := s.stored[o.Name]
		e.hash = [16]byte{} // not known: the request may have succeeded
		s.stored[o.Name] = e
		s.mu.Unlock()
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err) {
			return s.refuse(ctx, r.Key, refusal{refusedAPI, err.Error()})
		}
		return fmt.Errorf("write ReceivedService %s: %w", o.Name, err)
	}
	return nil
}

// object returns the object of a record, or why the record is refused.
func (s *receivedServices) object(r control.ServiceRecord) (*v1alpha1.ReceivedService, storedService, *refusal) {
	o := &v1alpha1.ReceivedService{ObjectMeta: metav1.ObjectMeta{
		Name: s.nameOf(r.Key), Labels: map[string]string{peering.Label: s.peering},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Peering", Name: s.peering, UID: s.policy.uid}},
	}}
	o.Spec.Peering = s.peering
	if err := json.Unmarshal(r.JSON, &o.Spec.Service); err != nil {
		return nil, storedService{}, malformed("not a record: %v", err)
	}
	if _, why := s.policy.check(r.Key, &o.Spec.Service); why != nil {
		return nil, storedService{}, why
	}
	want, err := storedServiceOf(o)
	if err != nil {
		return nil, storedService{}, malformed("not a record: %v", err)
	}
	return o, want, nil
}

// reserve counts an object that is to be written against the limits. It reports whether the
// object exists already as wanted.
func (s *receivedServices) reserve(name string, want storedService) (same bool, why *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, exists := s.stored[name]
	count, endpoints := len(s.stored), s.endpoints-have.endpoints+want.endpoints
	if !exists {
		count++
	}
	switch {
	case count > s.policy.maxServices:
		return false, &refusal{refusedLimit, fmt.Sprintf("more than %d Services; increase spec.services.maxServices", s.policy.maxServices)}
	case endpoints > s.policy.maxEndpoints:
		return false, &refusal{refusedLimit, fmt.Sprintf("more than %d endpoints; increase spec.services.maxEndpoints", s.policy.maxEndpoints)}
	}
	delete(s.refused, want.key)
	s.stored[name], s.endpoints = want, endpoints
	return exists && have.hash == want.hash, nil
}

func (s *receivedServices) write(ctx context.Context, o *v1alpha1.ReceivedService) error {
	if err := s.limit.Wait(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	_, err := s.api.Apply(ctx, o, "strait-gateway")
	return err
}

// refuse removes the object of a refused record, and remembers why it is refused.
func (s *receivedServices) refuse(ctx context.Context, k control.ServiceKey, why refusal) error {
	if err := s.remove(ctx, k); err != nil {
		return err
	}
	why.text = client.Clip(why.text, 256)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[k] = why
	return nil
}

// remove deletes the object of a Service, if there is one.
func (s *receivedServices) remove(ctx context.Context, k control.ServiceKey) error {
	name := s.nameOf(k)
	s.mu.Lock()
	delete(s.refused, k)
	have, exists := s.stored[name]
	s.mu.Unlock()
	if !exists {
		return nil
	}
	if err := s.limit.Wait(ctx); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if err := s.api.Delete(within, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ReceivedService %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, name)
	s.endpoints -= have.endpoints
	return nil
}

// outdated reports whether a snapshot is needed: other objects exist than were stored, or the
// limits have room again for refused records.
func (s *receivedServices) outdated(existing map[string]storedService) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(existing) != len(s.stored) {
		return true
	}
	for name, e := range existing {
		if s.stored[name].hash != e.hash {
			return true
		}
	}
	return len(s.stored) < s.policy.maxServices && s.endpoints < s.policy.maxEndpoints && s.refusedFor(refusedLimit) > 0
}

// refusedFor returns the number of records that are refused for a reason. The caller holds
// s.mu.
func (s *receivedServices) refusedFor(reason string) (n int) {
	for _, why := range s.refused {
		if why.reason == reason {
			n++
		}
	}
	return n
}

// report sets the numbers of a report, and its message if records are refused.
func (s *receivedServices) report(r *v1alpha1.ServicesReport, m *metrics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Received, r.Refused = int32(len(s.stored)), int32(len(s.refused))
	m.received.Set(float64(len(s.stored)))
	for _, reason := range refusalReasons {
		m.refused.WithLabelValues(reason).Set(float64(s.refusedFor(reason)))
	}
	if len(s.refused) == 0 {
		return
	}
	var first control.ServiceKey
	for k := range s.refused {
		if first.Name == "" || cmp.Or(cmp.Compare(k.Namespace, first.Namespace), cmp.Compare(k.Name, first.Name)) < 0 {
			first = k
		}
	}
	r.Message = fmt.Sprintf("%v is refused: %s", first, s.refused[first].text)
	if more := len(s.refused) - 1; more > 0 {
		r.Message += fmt.Sprintf("; and %d more", more)
	}
}
