package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"strait.dev/strait/k8s/client"
)

// confirmTime is the time for which an object that was written counts although the cache
// does not have it yet. Afterwards the cache counts, whatever it has: the API server may have
// been restored from a backup.
const confirmTime = 10 * time.Second

// store is a resource type that is read from a cache and written to the API server. What it
// wrote counts at once, so that a change which follows soon causes no conflict. It is safe
// for concurrent use; each object is written by one goroutine at a time.
type store[T client.Object, L client.List] struct {
	of    func(namespace string) *client.Kind[T, L]
	cache *client.Cache[T]

	mu      sync.Mutex
	written map[string]written[T] // by namespace/name

	own, ownStatus func(T) any // what this controller sets in an object and in its status
	contests       contests
	kind           string
	log            *slog.Logger
}

type written[T client.Object] struct {
	object  T
	deleted bool
	at      time.Time
}

func newStore[T client.Object, L client.List](of func(string) *client.Kind[T, L], cache *client.Cache[T], own, ownStatus func(T) any, kind string, log *slog.Logger) *store[T, L] {
	return &store[T, L]{of: of, cache: cache, written: make(map[string]written[T]), own: own, ownStatus: ownStatus, kind: kind, log: log}
}

func (s *store[T, L]) get(key string) (object T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok = s.cache.Get(key) // after the lock: list forgets what the cache has
	w, has := s.written[key]
	if !has {
		return object, ok
	}
	if s.confirmed(w, object, ok) {
		delete(s.written, key)
		return object, ok
	}
	if w.deleted {
		var none T
		return none, false
	}
	return w.object, true
}

// confirmed reports whether the cache is not behind what was written.
func (s *store[T, L]) confirmed(w written[T], cached T, ok bool) bool {
	if time.Since(w.at) >= confirmTime {
		return true
	}
	if w.deleted {
		return !ok || cached.GetUID() != w.object.GetUID()
	}
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), w.object.GetResourceVersion())
	return err != nil || order >= 0
}

// list returns the objects that an index of the cache has under a key.
func (s *store[T, L]) list(index, key string) (all []T) {
	indexer := s.cache.GetIndexer()
	names := make(map[string]bool)
	s.mu.Lock()
	for name, w := range s.written {
		if cached, ok := s.cache.Get(name); s.confirmed(w, cached, ok) {
			delete(s.written, name) // so that there are few
		} else if keys, err := indexer.GetIndexers()[index](w.object); err == nil && len(keys) > 0 && keys[0] == key {
			names[name] = true
		}
	}
	s.mu.Unlock()
	cached, err := indexer.ByIndex(index, key)
	if err != nil {
		panic(err) // there is no such index
	}
	for _, object := range cached {
		names[keyOf(object.(T))] = true
	}
	for name := range names {
		if object, ok := s.get(name); ok {
			all = append(all, object)
		}
	}
	return all
}

func keyOf(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }

// errContested is the error of a write that is delayed; see contests.
var errContested = errors.New("another writer deletes it again and again; remove that writer. The next attempt is made within " + longestRepair.String())

func (s *store[T, L]) create(ctx context.Context, object T) (T, error) {
	return s.write("create", keyOf(object), s.own(object), object, func() (T, error) {
		return s.of(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{})
	})
}

// update writes an object. While it is contested, the object may stay as it is until a later
// attempt; then update returns what it is.
func (s *store[T, L]) update(ctx context.Context, object T) (T, error) {
	return s.write("update", keyOf(object), s.own(object), object, func() (T, error) {
		return s.of(object.GetNamespace()).Update(ctx, object, metav1.UpdateOptions{})
	})
}

// updateStatus writes the status of an object as update does, if the object exists. The first
// status of an object is no repair, whatever an earlier one of its name had.
func (s *store[T, L]) updateStatus(ctx context.Context, object T) error {
	content := []any{object.GetUID(), s.ownStatus(object)}
	_, err := s.write("write the status of", keyOf(object)+" status", content, object, func() (T, error) {
		return s.of(object.GetNamespace()).UpdateStatus(ctx, object, metav1.UpdateOptions{})
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// write calls send, unless it would repair the object too soon. contest identifies what is
// written.
func (s *store[T, L]) write(doing, contest string, content any, object T, send func() (T, error)) (T, error) {
	if !s.contests.allows(contest, content, time.Now()) {
		is, ok := s.get(keyOf(object))
		if !ok {
			return is, fmt.Errorf("%s %s %s: %w", doing, s.kind, object.GetName(), errContested)
		}
		return is, nil
	}
	is, err := send()
	if err != nil {
		return is, fmt.Errorf("%s %s %s: %w", doing, s.kind, object.GetName(), err)
	}
	if s.contests.written(contest, content, time.Now()) {
		s.log.Warn("another writer changes an object again and again; it is repaired less and less often. Remove that writer, or exclude the object from it", "kind", s.kind, "object", keyOf(object))
	}
	is.SetManagedFields(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[keyOf(is)] = written[T]{object: is, at: time.Now()}
	return is, nil
}

// delete deletes an object, but not another one that has replaced it.
func (s *store[T, L]) delete(ctx context.Context, object T) error {
	uid := object.GetUID()
	err := s.of(object.GetNamespace()).Delete(ctx, object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", s.kind, object.GetName(), err)
	}
	s.contests.forget(keyOf(object))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[keyOf(object)] = written[T]{object: object, deleted: true, at: time.Now()}
	return nil
}

// forget is called when an object is gone: it was deleted after it was written.
func (s *store[T, L]) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, key)
}

// unconfirmed are the Services of which something was written for which confirmTime has not
// passed yet. They are reconciled again then, even if they were meanwhile: an object that was
// deleted before the response to its write arrived counts until then.
type unconfirmed struct {
	mu    sync.Mutex
	until map[key]time.Time
}

// left returns for how long a Service stays unconfirmed. wrote: it was written just now.
func (u *unconfirmed) left(k key, wrote bool, now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if wrote {
		u.until[k] = now.Add(confirmTime)
	}
	left := u.until[k].Sub(now)
	if left <= 0 {
		delete(u.until, k)
	}
	return left
}
