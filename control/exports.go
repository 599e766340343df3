package control

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"
)

// maxRemoved is the maximum number of removed Services whose removal is remembered. An importer that missed a forgotten
// one gets a snapshot.
const maxRemoved = 4096

// ErrTooManyServices is the error of a Service above MaxServices.
var ErrTooManyServices = fmt.Errorf("a cluster exports at most %d Services", MaxServices)

// ExportsOptions configure Exports. All are required.
type ExportsOptions struct {
	// Stale reports whether the records may be out of date, because this gateway has lost its API server.
	Stale func() bool
	// Stored is called when the far end has stored a change, with the time since Put or Remove. It must not block.
	Stored func(lag time.Duration)
}

// Exports are the records of the Services that this cluster exports. Serve sends them to the far ends of links that ask
// for them. Nothing is kept for an importer: it says which revision it has. Safe for concurrent use.
//
// Each change of a record has a revision. A snapshot is all records in the order of their revisions, so that changes
// that are made while it is sent follow it.
type Exports struct {
	options ExportsOptions
	epoch   string

	mu       sync.Mutex
	loaded   bool
	changed  chan struct{} // closed by the next change
	revision int64         // of the latest change; 1 before the first, so that no snapshot begins at 0
	latest   map[ServiceKey]*serviceChange
	log      []*serviceChange // by revision: latest, and some that are superseded
	live     int              // number of Services
	removed  int              // number of removals in latest
	floor    int64            // revision of the latest removal that is forgotten
	stored   int64            // the latest revision that an importer has stored
	digest   digest
}

// serviceChange is a change of a Service.
type serviceChange struct {
	key        ServiceKey
	revision   int64
	record     []byte // nil: the Service was removed
	hash       digest // of the record
	at         time.Time
	superseded bool
}

// length returns the length of a change in a page.
func (c *serviceChange) length() int {
	if c.record != nil {
		return len(c.record)
	}
	return len(c.key.Namespace) + len(c.key.Name)
}

// NewExports returns an empty set. Importers are told to ask again later until Replace was called.
func NewExports(o ExportsOptions) *Exports {
	return &Exports{options: o, epoch: rand.Text(), revision: 1, changed: make(chan struct{}), latest: make(map[ServiceKey]*serviceChange)}
}

// Put adds or replaces a record. If it cannot be sent, that is an error, and the Service is removed.
func (e *Exports) Put(r ServiceRecord) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.put(r)
}

// Remove removes a Service, if it is in the set.
func (e *Exports) Remove(k ServiceKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(k)
}

// Replace makes the set equal to these records. The error joins those of records that cannot be sent.
func (e *Exports) Replace(all []ServiceRecord) (problems error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	present := make(map[ServiceKey]bool, len(all))
	for _, r := range all {
		present[r.Key] = true
	}
	for k := range e.latest {
		if !present[k] {
			e.remove(k)
		}
	}
	for _, r := range all {
		if err := e.put(r); err != nil {
			problems = errors.Join(problems, fmt.Errorf("%v: %w", r.Key, err))
		}
	}
	e.loaded = true
	return problems
}

// Len returns the number of Services in the set.
func (e *Exports) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.live
}

func (e *Exports) put(r ServiceRecord) error {
	err := r.Key.validate()
	old := e.latest[r.Key]
	exists := old != nil && old.record != nil
	switch {
	case err != nil:
	case len(r.JSON) > maxRecord:
		err = fmt.Errorf("the record is longer than %d bytes; export fewer endpoints", maxRecord)
	case !exists && e.live == MaxServices:
		err = ErrTooManyServices
	}
	if err != nil {
		e.remove(r.Key)
		return err
	}
	hash := digestOf(r.JSON)
	if exists && old.hash == hash {
		return nil
	}
	e.append(&serviceChange{key: r.Key, record: r.JSON, hash: hash})
	return nil
}

func (e *Exports) remove(k ServiceKey) {
	if old := e.latest[k]; old != nil && old.record != nil {
		e.append(&serviceChange{key: k})
	}
}

// append makes a change the latest one of its Service.
func (e *Exports) append(c *serviceChange) {
	if old := e.latest[c.key]; old != nil {
		e.count(old, -1)
		old.superseded = true
	}
	e.revision++
	c.revision, c.at = e.revision, time.Now()
	e.latest[c.key] = c
	e.log = append(e.log, c)
	e.count(c, 1)
	if e.removed > maxRemoved {
		e.forget()
	}
	if len(e.log) > 2*len(e.latest)+maxRemoved {
		e.log = slices.DeleteFunc(e.log, func(c *serviceChange) bool { return c.superseded })
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

// count adds a latest change to the counters and the digest (by 1), or removes it (by -1).
func (e *Exports) count(c *serviceChange, by int) {
	if c.record == nil {
		e.removed += by
		return
	}
	e.live += by
	e.digest.toggle(c.hash)
}

// forget forgets the older half of the removals.
func (e *Exports) forget() {
	for _, c := range e.log {
		if e.removed <= maxRemoved/2 {
			return
		}
		if c.record == nil && !c.superseded {
			e.count(c, -1)
			c.superseded = true
			delete(e.latest, c.key)
			e.floor = c.revision
		}
	}
}

// since returns the changes after a revision, including superseded ones.
func (e *Exports) since(revision int64) []*serviceChange {
	return e.log[sort.Search(len(e.log), func(i int) bool { return e.log[i].revision > revision }):]
}

// errNotLoaded is the error of an answer before Replace was called.
var errNotLoaded = errors.New("the exported Services are not known yet; ask again later")

// page returns the next page for an importer at a position. If there is nothing new, idle is true, and changed is
// closed when there is.
func (e *Exports) page(at servicePosition) (p outgoingPage, idle bool, changed <-chan struct{}, err error) {
	stale := e.options.Stale()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.loaded {
		return p, false, nil, errNotLoaded
	}
	p = outgoingPage{epoch: e.epoch, revision: e.revision, stale: stale, digest: e.digest}
	needs := at.revision // an importer at this position needs the removals after this revision
	if at.snapshot > 0 {
		needs = at.snapshot
	}
	switch {
	case at.epoch == e.epoch && at.revision <= e.revision && needs <= e.revision && needs >= e.floor:
		p.snapshot = at.snapshot
		if p.snapshot == 0 {
			e.acknowledge(at.revision)
		}
	case at.digest == e.digest.String():
		e.stored = e.revision
		return p, false, nil, nil
	default:
		at.revision, p.snapshot = 0, e.revision
		e.stored = e.revision // changes up to here are not delivered as such
	}
	length := 0
	for _, c := range e.since(at.revision) {
		if c.superseded || c.record == nil && c.revision <= p.snapshot {
			continue
		}
		if n := len(p.changes); n == pageServices || n > 0 && length+c.length() > pageLength {
			p.more, p.revision = true, p.changes[n-1].revision
			break
		}
		length += c.length()
		p.changes = append(p.changes, c)
	}
	return p, p.snapshot == 0 && len(p.changes) == 0, e.changed, nil
}

// acknowledge records that an importer has stored all changes up to a revision.
func (e *Exports) acknowledge(revision int64) {
	if revision <= e.stored {
		return
	}
	for _, c := range e.since(e.stored) {
		if c.revision > revision {
			break
		}
		if !c.superseded {
			e.options.Stored(time.Since(c.at))
		}
	}
	e.stored = revision
}
