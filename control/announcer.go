package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

// look is how often an Announcer checks the links and the clock.
const look = 500 * time.Millisecond

// AnnouncerOptions configure an Announcer. All are required.
type AnnouncerOptions struct {
	// Up returns the links that are up.
	Up func() []Link
	// Dial connects to Port at a link's far end.
	Dial func(context.Context, Link) (net.Conn, error)
	// Jitter returns random numbers from 0 to 1, like rand.Float64.
	Jitter func() float64
	Log    *slog.Logger
}

// Result is the state of announcing over one link.
type Result struct {
	Link       Link
	Current    bool      // the far end has accepted the announcement last passed to Set
	AcceptedAt time.Time // when it last accepted an announcement; zero = never
	Refused    string    // why it refuses the last one; empty = not refused
	Stale      int64     // the last one is older than this revision, or another one of it; 0 = it is not
	Err        error     // any other error of the last attempt; nil = none
	Versions   []int     // protocol versions that it supports; nil = not known
}

// Announcer sends the announcement last passed to Set to the far ends of all links that are up: when the announcement
// changes, when a link comes up, and every minute. Safe for concurrent use.
type Announcer struct {
	options AnnouncerOptions
	changed chan struct{} // wakes Run

	mu     sync.Mutex
	body   []byte // the announcement; nil before the first Set
	number uint64 // number of the announcement, from 1
	peers  map[linkKey]*peer
}

// peer is the far end of a link that is up.
type peer struct {
	result   Result
	schedule schedule
	accepted uint64             // number of the announcement that the far end has; 0 = none
	cancel   context.CancelFunc // of the current exchange; nil = none
}

// NewAnnouncer returns an Announcer that is idle until Run.
func NewAnnouncer(o AnnouncerOptions) *Announcer {
	o.Log = LimitLog(o.Log)
	return &Announcer{options: o, changed: make(chan struct{}, 1), peers: make(map[linkKey]*peer)}
}

// Set sets the announcement. An invalid one is an error and changes nothing; the same one again changes nothing either.
func (a *Announcer) Set(x Announcement) error {
	if err := x.Validate(); err != nil {
		return err
	}
	body, err := x.encode()
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.Equal(a.body, body) {
		return nil
	}
	a.body = body
	a.number++
	for _, p := range a.peers {
		p.result.Current = false
	}
	a.wake()
	return nil
}

// wake makes Run check at once. A pending wake covers this one too.
func (a *Announcer) wake() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// Results returns the state of each link that is up, in the order of Up.
func (a *Announcer) Results() []Result {
	up := a.options.Up()
	a.mu.Lock()
	defer a.mu.Unlock()
	results := make([]Result, len(up))
	for i, l := range up {
		if p := a.peers[l.key()]; p != nil {
			results[i] = p.result
			results[i].Versions = slices.Clone(p.result.Versions)
		}
		results[i].Link = l
	}
	return results
}

// Run announces until ctx ends, and waits for the exchanges it started.
func (a *Announcer) Run(ctx context.Context) {
	var exchanges sync.WaitGroup
	defer exchanges.Wait()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		a.step(ctx, time.Now(), &exchanges)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-a.changed:
		}
	}
}

// step updates the peers and starts the exchanges that are due.
func (a *Announcer) step(ctx context.Context, now time.Time, exchanges *sync.WaitGroup) {
	up := a.options.Up()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.follow(up)
	if a.body == nil || ctx.Err() != nil {
		return
	}
	for _, p := range a.peers {
		if p.cancel != nil || !p.schedule.due(a.number, now) {
			continue
		}
		link, body, number := p.result.Link, a.body, a.number
		ctx, cancel := context.WithCancel(ctx)
		p.cancel = cancel
		exchanges.Go(func() {
			defer cancel()
			dial := func(ctx context.Context) (net.Conn, error) { return a.options.Dial(ctx, link) }
			versions, err := announce(ctx, dial, body)
			a.note(p, number, versions, err, time.Now())
		})
	}
}

// follow updates the peers to the links that are up. a.mu is held.
func (a *Announcer) follow(up []Link) {
	present := make(map[linkKey]bool, len(up))
	for _, l := range up {
		present[l.key()] = true
		if a.peers[l.key()] == nil {
			a.peers[l.key()] = &peer{}
		}
		a.peers[l.key()].result.Link = l
	}
	for k, p := range a.peers {
		if present[k] {
			continue
		}
		delete(a.peers, k)
		if p.cancel != nil {
			p.cancel()
		}
	}
}

// note records the result of an exchange.
func (a *Announcer) note(p *peer, number uint64, versions []int, err error, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.cancel = nil
	before := p.result
	p.schedule.done(number, err == nil, now, a.options.Jitter())
	p.result.Refused, p.result.Stale, p.result.Err = reason(err)
	if versions != nil {
		p.result.Versions = versions
	}
	switch {
	case err == nil:
		p.result.AcceptedAt, p.accepted = now, number
	case p.result.Refused != "" || p.result.Stale != 0:
		p.accepted = 0
	}
	p.result.Current = p.accepted == a.number
	if number != a.number {
		a.wake() // Set was called meanwhile
	}
	if a.peers[p.result.Link.key()] == p {
		a.tell(before, p.result)
	}
}

// tell logs an outcome that differs from the one before.
func (a *Announcer) tell(before, now Result) {
	log := a.options.Log.With("link", now.Link.Name)
	switch {
	case now.Refused != "" && now.Refused != before.Refused:
		log.Warn("the remote cluster refused the announcement", "reason", now.Refused)
	case now.Stale != 0 && now.Stale != before.Stale:
		log.Info("the remote cluster has a later announcement of this cluster in effect; announcing a newer one", "revision", now.Stale)
	case now.Err != nil && before.Err == nil && !errors.Is(now.Err, context.Canceled):
		log.Warn("cannot send the announcement to the remote cluster; retrying", "error", plain(now.Err.Error()))
	case now.Current && !before.Current:
		log.Info("the remote cluster accepted the announcement")
	}
}
