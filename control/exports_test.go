package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// exporter is a remote gateway with its exports, behind one link.
type exporter struct {
	*Exports
	link  Link
	wire  *pipes
	stale bool // set it before the next request
	lags  []time.Duration
	dials int
}

// newExporter serves exports over the link with that number, until the test ends.
func newExporter(t *testing.T, number byte) *exporter {
	t.Helper()
	e := &exporter{wire: listen(t), link: Link{Name: fmt.Sprint("b-", number), Gateway: fmt.Sprint("b-", number), OwnKey: keyNumber(1), RemoteKey: keyNumber(10 + number)}}
	e.Exports = NewExports(ExportsOptions{Stale: func() bool { return e.stale }, Stored: func(lag time.Duration) { e.lags = append(e.lags, lag) }})
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(e.wire, func(net.Conn) (Link, bool) { return theLink, true }, acceptAll, e.Exports, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		e.wire.Close()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	return e
}

// record is a record of Service shop/NAME with some content.
func record(name string, content any) ServiceRecord {
	return ServiceRecord{ServiceKey{"shop", name}, fmt.Appendf(nil, `{"namespace":"shop","name":%q,"content":%q}`, name, fmt.Sprint(content))}
}

// received is a ServiceStore, and the Importer that fills it.
type received struct {
	*Importer
	mu      sync.Mutex
	up      []*exporter
	records map[ServiceKey]string
	applied int   // calls of Apply
	fail    error // of each call
}

func newReceived(t *testing.T, from ...*exporter) *received {
	t.Helper()
	r := &received{up: from, records: make(map[ServiceKey]string)}
	r.Importer = NewImporter(ImporterOptions{
		Up: func() (up []Link) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, e := range r.up {
				up = append(up, e.link)
			}
			return up
		},
		Dial: func(ctx context.Context, l Link) (net.Conn, error) {
			r.mu.Lock()
			i := slices.IndexFunc(r.up, func(e *exporter) bool { return e.link.key() == l.key() })
			if i < 0 {
				r.mu.Unlock()
				return nil, errors.New("no link")
			}
			e := r.up[i]
			e.dials++
			r.mu.Unlock()
			return e.wire.dial(ctx)
		},
		Jitter: func() float64 { return 0 },
		Store:  r,
		Log:    slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

func (r *received) Apply(_ context.Context, changed []ServiceRecord, removed []ServiceKey) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.applied++; r.fail != nil {
		return r.fail
	}
	for _, c := range changed {
		r.records[c.Key] = string(c.JSON)
	}
	for _, k := range removed {
		delete(r.records, k)
	}
	return nil
}

func (r *received) Retain(_ context.Context, keep func(ServiceKey) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	maps.DeleteFunc(r.records, func(k ServiceKey, _ string) bool { return !keep(k) })
	return nil
}

// is checks that the store has exactly these records.
func (r *received) is(t *testing.T, when string, want ...ServiceRecord) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	same := len(r.records) == len(want)
	for _, w := range want {
		same = same && r.records[w.Key] == string(w.JSON)
	}
	if !same {
		t.Errorf("%s: %v, want %d records", when, r.records, len(want))
	}
}

func (r *received) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestExportsArriveChangeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newExporter(t, 0)
		ok(t, e.Replace([]ServiceRecord{record("web", 1), record("db", 1)}))
		r := newReceived(t, e)
		synctest.Wait()
		r.is(t, "after the snapshot", record("web", 1), record("db", 1))
		if s := r.State(); !s.Synced || s.Gateway != "b-0" || s.Err != nil || s.Stale {
			t.Errorf("%+v", s)
		}
		time.Sleep(askInterval)
		ok(t, e.Put(record("web", 2)))
		synctest.Wait()
		r.is(t, "after a change", record("web", 2), record("db", 1))
		e.Remove(ServiceKey{"shop", "db"})
		time.Sleep(askInterval)
		synctest.Wait()
		r.is(t, "after a removal", record("web", 2))

		calls := r.calls()
		time.Sleep(time.Hour)
		if r.calls() != calls {
			t.Error("something is stored while nothing changes")
		}
		if e.dials != 1 {
			t.Errorf("%d connections, want 1", e.dials)
		}
		if len(e.lags) != 2 || e.lags[0] > askInterval || e.lags[1] > 2*askInterval {
			t.Errorf("lags %v", e.lags)
		}
	})
}
