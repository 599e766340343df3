package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"strait.dev/strait/internal/ratelimit"
)

const (
	// askInterval is the minimum interval between two requests of an Importer. A burst of changes is received in the
	// next page, with the latest record of each Service.
	askInterval = 200 * time.Millisecond
	// snapshotInterval is the minimum interval between the beginnings of two snapshots from one gateway: a far end
	// that changes its epoch with each answer does not make an importer receive everything all the time.
	snapshotInterval = 10 * time.Second
	// receiveRate is the number of bytes per second that an Importer reads, after receiveBurst: a far end that sends
	// large pages all the time uses little of a CPU.
	receiveRate  = 1 << 20
	receiveBurst = 16 << 20
	// staleTime is how long a gateway that calls its records stale is used only if no other one is there.
	staleTime = time.Minute
)

// ServiceStore is where an Importer stores what it receives.
type ServiceStore interface {
	// Apply stores records, and removes those of other Services. No Service occurs twice. After an error the Importer
	// repeats the call, with the same or later records, and receives nothing else before.
	Apply(ctx context.Context, changed []ServiceRecord, removed []ServiceKey) error
	// Retain removes all records except those that keep selects. It follows the last page of each snapshot. An error
	// is as one of Apply.
	Retain(ctx context.Context, keep func(ServiceKey) bool) error
}

// ImporterOptions configure an Importer. All are required.
type ImporterOptions struct {
	// Up returns the links that are up.
	Up func() []Link
	// Dial connects to Port at a link's far end.
	Dial func(context.Context, Link) (net.Conn, error)
	// Jitter returns random numbers from 0 to 1, like rand.Float64.
	Jitter func() float64
	Store  ServiceStore
	// Budget is of the bytes that are read. Importers that follow one another share it: the far end may be the cause that
	// one follows another.
	Budget *ratelimit.Bucket
	Log    *slog.Logger
}

// ImportState is the state of receiving the exports of the remote cluster.
type ImportState struct {
	Gateway string // the remote gateway that sends them; empty: none does
	Synced  bool   // the store has all of them
	Stale   bool   // Gateway has lost its API server
	Err     error  // why none sends them, or why they cannot be stored; nil: no link is up, or no problem
}

// Importer receives the exports of the remote cluster from one of its gateways, and from another one when that fails.
// Safe for concurrent use, except that Run is called once.
type Importer struct {
	options ImporterOptions

	mu    sync.Mutex
	state ImportState

	// Used only by Run.
	sources  map[linkKey]*source
	order    []linkKey // of the links that are up, as Up returned them
	current  linkKey   // the source of the last request
	failures int       // of the store, consecutive
	epoch    string    // of the last page; empty: none was stored
	revision int64
	snapshot int64      // not 0: a snapshot is not complete
	have     serviceSet // the records in the store; those of the snapshot while that is not complete
}

// serviceSet is the set of the records of a far end.
type serviceSet struct {
	records map[ServiceKey]digest
	digest  digest
}

func (s *serviceSet) put(k ServiceKey, hash digest) {
	s.remove(k)
	s.records[k] = hash
	s.digest.toggle(hash)
}

func (s *serviceSet) remove(k ServiceKey) {
	if old, ok := s.records[k]; ok {
		s.digest.toggle(old)
		delete(s.records, k)
	}
}

// NewImporter returns an Importer that is idle until Run.
func NewImporter(o ImporterOptions) *Importer {
	o.Log = LimitLog(o.Log)
	return &Importer{options: o, sources: make(map[linkKey]*source)}
}

// State returns the current state.
func (i *Importer) State() ImportState {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state
}

func (i *Importer) set(s ImportState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.state = s
}

// Run receives until ctx ends. It begins with a snapshot.
func (i *Importer) Run(ctx context.Context) {
	defer func() {
		for _, s := range i.sources {
			s.close()
		}
	}()
	for ctx.Err() == nil {
		begun := time.Now()
		pause := askInterval
		if s := i.choose(begun); s == nil {
			pause = look
		} else {
			err := i.receive(ctx, s)
			now := time.Now()
			const perByte = time.Second / receiveRate
			i.options.Budget.Spend(now, perByte, s.read)
			if ctx.Err() != nil {
				return
			}
			pause = max(pause, i.note(s, err, now), i.options.Budget.Wait(now, perByte, receiveBurst)+now.Sub(begun))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause - time.Since(begun)):
		}
	}
}

// choose returns the gateway to ask: the same one as before unless another one is better; nil: none at present.
func (i *Importer) choose(now time.Time) (best *source) {
	i.follow()
	for _, k := range i.order {
		s := i.sources[k]
		if now.Before(s.next) {
			continue
		}
		if best == nil || best.stale(now) && !s.stale(now) || best.stale(now) == s.stale(now) && k == i.current {
			best = s
		}
	}
	if best == nil {
		state := ImportState{}
		for _, k := range i.order {
			if state.Err = i.sources[k].err; state.Err != nil {
				break
			}
		}
		i.set(state)
		return nil
	}
	if k := best.link.key(); k != i.current {
		if old := i.sources[i.current]; old != nil {
			old.close()
		}
		i.current = k
	}
	return best
}

// follow updates the sources to the links that are up. A link that comes up again has a new source.
func (i *Importer) follow() {
	present := make(map[linkKey]bool)
	i.order = i.order[:0]
	for _, l := range i.options.Up() {
		k := l.key()
		present[k] = true
		i.order = append(i.order, k)
		if i.sources[k] == nil {
			i.sources[k] = newSource(i.options.Dial)
		}
		i.sources[k].link = l
	}
	for k, s := range i.sources {
		if !present[k] {
			s.close()
			delete(i.sources, k)
		}
	}
}

// errLinkEnded is the error of a request whose link is no longer up.
var errLinkEnded = errors.New("the link is down or was removed")

// whileUp returns a context that ends when a link is no longer up: a request would wait for its answer for most of a
// minute, while other gateways could answer.
func (i *Importer) whileUp(ctx context.Context, of linkKey) (within context.Context, end func()) {
	within, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for {
			select {
			case <-within.Done():
				return
			case <-ticker.C:
				if !slices.ContainsFunc(i.options.Up(), func(l Link) bool { return l.key() == of }) {
					cancel(errLinkEnded)
				}
			}
		}
	})
	return within, func() {
		cancel(nil)
		watching.Wait()
	}
}

// receive asks a gateway once, and stores its answer.
func (i *Importer) receive(ctx context.Context, s *source) error {
	at := servicePosition{epoch: i.epoch, revision: i.revision, snapshot: i.snapshot}
	if i.epoch != "" && i.snapshot == 0 {
		at.digest = i.have.digest.String()
	}
	asking, end := i.whileUp(ctx, s.link.key())
	p, err := s.ask(asking, at)
	end()
	if err != nil {
		return err
	}
	now := time.Now()
	if p.Stale {
		s.staleUntil = now.Add(staleTime)
	}
	have, err := i.next(at, p)
	if err != nil {
		return err
	}
	begins := have != &i.have
	if begins && now.Sub(s.snapshotAt) < snapshotInterval {
		return errors.New("snapshots follow each other too soon")
	}
	if err := i.store(ctx, p, have); err != nil {
		return err
	}
	if begins {
		s.snapshotAt = now
	}
	return nil
}

// next checks a page against what was asked for. It returns the set that the page changes: a new one if a snapshot
// begins.
func (i *Importer) next(at servicePosition, p *servicePage) (have *serviceSet, err error) {
	contents := len(p.Services)+len(p.Removed) > 0
	switch {
	case p.Epoch == at.epoch && p.Snapshot == at.snapshot: // the next page
		if p.Revision < at.revision || p.Revision == at.revision && (contents || p.More) {
			return nil, errors.New("the page is not newer than the last one")
		}
		return &i.have, nil
	case p.Snapshot != 0:
		return &serviceSet{records: make(map[ServiceKey]digest)}, nil
	case at.digest == "" || p.Digest != at.digest || contents || p.More:
		return nil, errors.New("the page does not follow the last one and is not part of a snapshot")
	}
	return &i.have, nil // another gateway, or the same one after a restart, has the same set
}

// errTooMany is the error of a set with more Services than a cluster may export.
var errTooMany = errors.New("has more Services than a cluster may export")

// storeError is an error of the store.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// store stores a page that changes a set, which is then the one of the importer.
func (i *Importer) store(ctx context.Context, p *servicePage, have *serviceSet) error {
	count := len(have.records)
	for _, r := range p.Services {
		if _, ok := have.records[r.Key]; !ok {
			count++
		}
	}
	if count > MaxServices {
		return errTooMany
	}
	if len(p.Services)+len(p.Removed) > 0 {
		if err := i.options.Store.Apply(ctx, p.Services, p.Removed); err != nil {
			return storeError{err}
		}
	}
	for _, r := range p.Services {
		have.put(r.Key, digestOf(r.JSON))
	}
	for _, k := range p.Removed {
		have.remove(k)
	}
	if p.Snapshot != 0 && !p.More {
		keep := func(k ServiceKey) bool { _, ok := have.records[k]; return ok }
		if err := i.options.Store.Retain(ctx, keep); err != nil {
			return storeError{err}
		}
	}
	i.have, i.epoch, i.revision, i.snapshot = *have, p.Epoch, p.Revision, p.Snapshot
	if p.More {
		return nil
	}
	i.snapshot = 0
	if p.Digest != i.have.digest.String() {
		i.epoch = "" // receive a snapshot
		return errors.New("the digest is not that of the records that it sent")
	}
	return nil
}

// note records the result of a request. It returns how long to wait before any other one.
func (i *Importer) note(s *source, err error, now time.Time) (wait time.Duration) {
	var failed storeError
	if errors.As(err, &failed) { // another gateway would not help
		if i.failures == 0 {
			i.options.Log.Warn("cannot store exported Services of the remote cluster; retrying", "error", err)
		}
		i.set(ImportState{Gateway: s.link.Gateway, Err: err})
		wait = backoff(i.failures, i.options.Jitter())
		i.failures++
		return wait
	}
	i.failures = 0
	s.done(err, now, i.options.Jitter())
	s.tell(i.options.Log)
	if err == nil {
		i.set(ImportState{Gateway: s.link.Gateway, Synced: i.snapshot == 0, Stale: s.stale(now)})
	}
	return 0
}
