package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/services/merge"
)

const (
	// writers is the number of concurrent requests that write ReceivedServices.
	writers = 4
	// apiRetryInterval is the time after which objects that the API server refused are
	// written again: a quota may have room.
	apiRetryInterval = 5 * time.Minute
	// maxRefusal is the maximum length of the reason of a refusal, in bytes.
	maxRefusal = 256
)

const manager = "strait-gateway"

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
	budget  *writeBudget

	mu        sync.Mutex
	applying  bool
	stored    map[string]storedService // by name of the object; before the first snapshot also objects of an earlier process
	endpoints int                      // of stored
	bytes     int                      // likewise
	leaving   map[string]storedService // that are to be deleted, and do not count any more
	refused   map[control.ServiceKey]refusal
}

// newReceivedServices returns the store of a Peering. existing are its objects; budget is used
// by all stores of the Peering, one after the other.
func newReceivedServices(c *client.Client, o *Options, policy *importPolicy, budget *writeBudget, existing map[string]storedService) *receivedServices {
	s := &receivedServices{
		api: c.ReceivedServices(o.Namespace), peering: o.Peering, policy: policy, budget: budget,
		stored: existing, leaving: make(map[string]storedService), refused: make(map[control.ServiceKey]refusal),
	}
	for _, e := range existing {
		s.endpoints += e.endpoints
		s.bytes += e.bytes
	}
	return s
}

func (s *receivedServices) nameOf(k control.ServiceKey) string {
	return k.Name + "." + k.Namespace + "." + s.peering
}

func (s *receivedServices) Apply(ctx context.Context, changed []control.ServiceRecord, removed []control.ServiceKey) error {
	s.mu.Lock()
	s.applying = true
	defer func() { s.mu.Lock(); s.applying = false; s.mu.Unlock() }()
	for _, k := range removed {
		s.forget(k)
	}
	var writes, repeated []receivedWrite
	for _, r := range changed {
		switch w, same, why := s.decide(r); {
		case why != nil:
			s.refuse(r.Key, *why)
		case same:
		case s.budget.waits(w.Name, time.Now()):
			repeated = append(repeated, w)
		default:
			writes = append(writes, w)
		}
	}
	s.mu.Unlock()
	if err := s.delete(ctx); err != nil {
		return err
	}
	// Those that changed a moment ago keep no others waiting.
	return cmp.Or(each(ctx, writes, s.write), each(ctx, repeated, s.write))
}

func (s *receivedServices) Retain(ctx context.Context, keep func(control.ServiceKey) bool) error {
	s.mu.Lock()
	for _, e := range s.stored {
		if !keep(e.key) {
			s.forget(e.key)
		}
	}
	maps.DeleteFunc(s.refused, func(k control.ServiceKey, _ refusal) bool { return !keep(k) })
	s.mu.Unlock()
	return s.delete(ctx)
}

// each calls do for all items, some at a time. It returns one of the errors: one is enough to repeat
// all.
func each[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	problems := make([]error, len(items))
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), writers, len(items), func(i int) { problems[i] = do(ctx, items[i]) })
	return cmp.Or(problems...)
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
	merge.DropEmpty(&o.Spec.Service)
	if why := s.policy.check(r.Key, &o.Spec.Service); why != nil {
		return nil, storedService{}, why
	}
	want, err := storedServiceOf(o)
	if err != nil {
		return nil, storedService{}, malformed("not a record: %v", err)
	}
	return o, want, nil
}

type receivedWrite struct {
	*v1alpha1.ReceivedService
	bytes  int  // as merge.Size counts them
	exists bool // as far as is known: it has been written or read
}

// decide counts the object of a record against the limits, or returns why the record is
// refused. It reports whether the object exists already as wanted. The caller holds s.mu.
func (s *receivedServices) decide(r control.ServiceRecord) (w receivedWrite, same bool, why *refusal) {
	o, want, why := s.object(r)
	if why != nil {
		return w, false, why
	}
	have, exists := s.stored[o.Name]
	count, endpoints, bytes := len(s.stored), s.endpoints-have.endpoints+want.endpoints, s.bytes-have.bytes+want.bytes
	if !exists {
		count++
	}
	limited := func(format string, a ...any) *refusal {
		return &refusal{refusedLimit, fmt.Sprintf(format, a...), want.endpoints, want.bytes}
	}
	switch {
	case count > s.policy.maxServices:
		return w, false, limited("more than %d Services; increase spec.services.maxServices", s.policy.maxServices)
	case endpoints > s.policy.maxEndpoints:
		return w, false, limited("more than %d endpoints; increase spec.services.maxEndpoints", s.policy.maxEndpoints)
	case bytes > s.policy.maxBytes:
		return w, false, limited("with its %d bytes there would be more than %d; increase spec.services.maxBytes", want.bytes, s.policy.maxBytes)
	}
	delete(s.refused, r.Key)
	delete(s.leaving, o.Name)
	s.stored[o.Name], s.endpoints, s.bytes = want, endpoints, bytes
	return receivedWrite{o, want.bytes, have.hash != [16]byte{}}, have.hash == want.hash, nil
}

// refuse remembers why a record is refused. Its object is to be deleted. The caller holds
// s.mu.
func (s *receivedServices) refuse(k control.ServiceKey, why refusal) {
	s.forget(k)
	why.text = client.Clip(why.text, maxRefusal)
	s.refused[k] = why
}

// forget stops counting an object, which is to be deleted: it makes room for others at once.
// The caller holds s.mu.
func (s *receivedServices) forget(k control.ServiceKey) {
	delete(s.refused, k)
	name := s.nameOf(k)
	if e, exists := s.stored[name]; exists {
		delete(s.stored, name)
		s.endpoints -= e.endpoints
		s.bytes -= e.bytes
		s.leaving[name] = e
	}
}

// write writes an object. If the API server refuses it, it is deleted.
func (s *receivedServices) write(ctx context.Context, o receivedWrite) error {
	err := s.request(ctx, o.Name, o.bytes, func(ctx context.Context) error { return s.createOrReplace(ctx, o) })
	if err == nil {
		return nil
	}
	key := control.ServiceKey{Namespace: o.Spec.Service.Namespace, Name: o.Spec.Service.Name}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err) {
		s.mu.Lock()
		s.refuse(key, refusal{reason: refusedAPI, text: err.Error()})
		s.mu.Unlock()
		return s.deleteOne(ctx, o.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.stored[o.Name]
	e.hash = [16]byte{} // not known: the request may have succeeded
	s.stored[o.Name] = e
	return fmt.Errorf("write ReceivedService %s: %w", o.Name, err)
}

// createOrReplace writes an object. Both requests are less work for the API server than a
// server-side apply: 2,000 of those took a quarter of its time in a first import.
func (s *receivedServices) createOrReplace(ctx context.Context, o receivedWrite) error {
	// The other request follows if another gateway has created or deleted the object.
	if o.exists {
		if err := s.replace(ctx, o.ReceivedService); !apierrors.IsNotFound(err) {
			return err
		}
	}
	_, err := s.api.Create(ctx, o.ReceivedService, metav1.CreateOptions{FieldManager: manager})
	if !o.exists && apierrors.IsAlreadyExists(err) {
		return s.replace(ctx, o.ReceivedService)
	}
	return err
}

func (s *receivedServices) replace(ctx context.Context, o *v1alpha1.ReceivedService) error {
	patch, err := json.Marshal([]jsonPatch{
		{"add", "/metadata/labels", o.Labels}, {"add", "/metadata/ownerReferences", o.OwnerReferences}, {"add", "/spec", o.Spec},
	})
	if err == nil {
		_, err = s.api.Patch(ctx, o.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: manager})
	}
	return err
}

// jsonPatch is an operation of a JSON patch (RFC 6902). "add" replaces what exists.
type jsonPatch struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func (s *receivedServices) delete(ctx context.Context) error {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.leaving))
	s.mu.Unlock()
	return each(ctx, names, s.deleteOne)
}

func (s *receivedServices) deleteOne(ctx context.Context, name string) error {
	err := s.request(ctx, name, 0, func(ctx context.Context) error { return s.api.Delete(ctx, name, metav1.DeleteOptions{}) })
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ReceivedService %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leaving, name)
	return nil
}

// request sends a request that writes an object of a size, within the budget.
func (s *receivedServices) request(ctx context.Context, name string, bytes int, send func(context.Context) error) error {
	if err := s.budget.wait(ctx, name, bytes, s.policy); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	return send(ctx)
}

// outdated reports whether a snapshot is needed: other objects exist than were stored, the
// limits have room again for refused records, or the API server may accept what it refused:
// age is the time since the last snapshot began.
func (s *receivedServices) outdated(existing map[string]storedService, age time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applying {
		return false // the objects are not what they will be
	}
	if len(existing) != len(s.stored) {
		return true
	}
	for name, e := range existing {
		if s.stored[name].hash != e.hash {
			return true
		}
	}
	return s.hasRoom() || age > apiRetryInterval && s.refusedFor(refusedAPI) > 0
}

// hasRoom reports whether a record that is refused because of a limit fits now. The caller
// holds s.mu.
func (s *receivedServices) hasRoom() bool {
	if len(s.stored) >= s.policy.maxServices {
		return false
	}
	for _, why := range s.refused {
		if why.reason == refusedLimit && s.endpoints+why.endpoints <= s.policy.maxEndpoints && s.bytes+why.bytes <= s.policy.maxBytes {
			return true
		}
	}
	return false
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
		if s.budget.short(time.Now()) {
			r.Message = fmt.Sprintf("the remote cluster changes its exports faster than they are imported: more than %d KiB or %d Services per second", bytesPerSecond>>10, writesPerSecond)
		}
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
