package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/test/logbuffer"
)

// exporter is a remote gateway with its exports, behind one link.
type exporter struct {
	*Exports
	link  Link
	wire  *pipes
	stale atomic.Bool
	mute  atomic.Bool // connections to it open and carry nothing

	mu    sync.Mutex
	lags  []time.Duration
	dials int
}

// observed returns the lags, and the number of connections to this gateway.
func (e *exporter) observed() ([]time.Duration, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.lags), e.dials
}

// newExporter serves exports over the link with that number, until the test ends.
func newExporter(t *testing.T, number byte) *exporter {
	t.Helper()
	e := &exporter{wire: listen(t), link: Link{Name: fmt.Sprint("b-", number), Gateway: fmt.Sprint("b-", number), OwnKey: keyNumber(1), RemoteKey: keyNumber(10 + number)}}
	e.Exports = NewExports(ExportsOptions{Stale: e.stale.Load, Stored: func(lag time.Duration) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.lags = append(e.lags, lag)
	}})
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
	log     logbuffer.Buffer // warnings
	applied int              // calls of Apply
	fail    error            // of each call
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
			r.mu.Unlock()
			e.mu.Lock()
			e.dials++
			e.mu.Unlock()
			if e.mute.Load() {
				c, _ := net.Pipe()
				return c, nil
			}
			return e.wire.dial(ctx)
		},
		Jitter: func() float64 { return 0 },
		Store:  r,
		Budget: new(ratelimit.Bucket),
		Log:    slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
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

// links sets the links that are up.
func (r *received) links(up ...*exporter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up = up
}

// failing sets the error of each call of the store.
func (r *received) failing(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
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
		lags, dials := e.observed()
		if dials != 1 {
			t.Errorf("%d connections, want 1", dials)
		}
		if len(lags) != 2 || lags[0] > askInterval || lags[1] > 2*askInterval {
			t.Errorf("lags %v", lags)
		}
	})
}

func TestASnapshotInPagesIncludesChangesMadeMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newExporter(t, 0)
		content := func(i, version int) ServiceRecord {
			return record(fmt.Sprintf("s%04d", i), fmt.Sprint(version, strings.Repeat("x", 1000)))
		}
		var want []ServiceRecord
		for i := range 2000 {
			want = append(want, content(i, 1))
		}
		ok(t, e.Replace(want))
		r := newReceived(t, e)
		time.Sleep(3 * askInterval)
		if r.calls() < 3 || r.State().Synced {
			t.Fatalf("%d pages, %+v; the snapshot must not be complete", r.calls(), r.State())
		}
		ok(t, e.Put(content(0, 2))) // sent already
		want[0] = content(0, 2)
		ok(t, e.Put(content(1999, 2))) // not sent yet
		want[1999] = content(1999, 2)
		e.Remove(want[1].Key)
		e.Remove(want[1998].Key)
		want = slices.Delete(slices.Delete(want, 1998, 1999), 1, 2)
		time.Sleep(10 * time.Second)
		r.is(t, "after the snapshot", want...)
		lags, _ := e.observed() // of the changes, not of the snapshot
		if s := r.State(); !s.Synced || len(lags) != 4 {
			t.Errorf("%+v, lags %v", s, lags)
		}
	})
}

// What an importer has from an earlier process and is not in the snapshot is removed.
func TestASnapshotRemovesEverythingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newExporter(t, 0)
		r := newReceived(t, e)
		ok(t, r.Apply(t.Context(), []ServiceRecord{record("old", 1)}, nil))
		time.Sleep(time.Minute)
		r.is(t, "before the exports are known", record("old", 1))
		if s := r.State(); s.Synced || s.Gateway != "" || !errors.Is(s.Err, errNotLoaded) {
			t.Errorf("%+v", s)
		}
		ok(t, e.Replace(nil))
		time.Sleep(lastRetry)
		r.is(t, "after an empty snapshot")
		if s := r.State(); !s.Synced || s.Err != nil {
			t.Errorf("%+v", s)
		}
	})
}

func TestAnotherGatewayTakesOverWithoutASnapshotIfItHasTheSameRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := newExporter(t, 0), newExporter(t, 1)
		all := []ServiceRecord{record("web", 1), record("db", 1)}
		ok(t, first.Replace(all))
		ok(t, second.Replace([]ServiceRecord{all[1], all[0]}))
		r := newReceived(t, first, second)
		time.Sleep(time.Minute)
		if _, dials := second.observed(); r.State().Gateway != "b-0" || dials != 0 {
			t.Fatalf("%+v", r.State())
		}
		calls := r.calls()
		r.links(second)
		first.wire.Close()
		time.Sleep(time.Minute)
		if s := r.State(); s.Gateway != "b-1" || !s.Synced || r.calls() != calls {
			t.Errorf("%+v, stored %d times", s, r.calls()-calls)
		}
		ok(t, second.Put(record("web", 2)))
		time.Sleep(time.Second)
		r.is(t, "after a change", record("web", 2), record("db", 1))
		if lags, _ := second.observed(); len(lags) != 1 {
			t.Errorf("lags %v", lags)
		}
	})
}

func TestAGatewayThatFailsIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := newExporter(t, 0), newExporter(t, 1)
		ok(t, first.Replace([]ServiceRecord{record("web", 1)}))
		ok(t, second.Replace([]ServiceRecord{record("web", 2)}))
		r := newReceived(t, first, second)
		time.Sleep(time.Second)
		first.wire.Close() // the link stays up
		time.Sleep(holdTime + time.Second)
		r.is(t, "from the other gateway", record("web", 2))
		if s := r.State(); s.Gateway != "b-1" || !s.Synced {
			t.Errorf("%+v", s)
		}
		r.links()
		time.Sleep(holdTime + time.Second)
		if s := r.State(); s != (ImportState{}) {
			t.Errorf("without links: %+v", s)
		}
		r.is(t, "without links", record("web", 2))
	})
}

// A request over a link that ends is given up at once, although TCP would wait for it.
func TestARequestEndsWithItsLink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone, other := newExporter(t, 0), newExporter(t, 1)
		ok(t, other.Replace([]ServiceRecord{record("web", 1)}))
		gone.mute.Store(true)
		r := newReceived(t, gone, other)
		time.Sleep(3 * time.Second)
		r.is(t, "while the request waits")
		r.links(other)
		time.Sleep(look + askInterval)
		synctest.Wait()
		r.is(t, "after the link has ended", record("web", 1))
		if !strings.Contains(r.log.String(), errLinkEnded.Error()) {
			t.Errorf("the log does not tell why: %s", r.log.String())
		}
	})
}

func TestAGatewayWithoutItsAPIServerIsUsedOnlyIfThereIsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := newExporter(t, 0), newExporter(t, 1)
		ok(t, first.Replace([]ServiceRecord{record("web", 1)}))
		ok(t, second.Replace([]ServiceRecord{record("web", 2)}))
		r := newReceived(t, first, second)
		time.Sleep(time.Second)
		r.is(t, "from the first gateway", record("web", 1))
		first.stale.Store(true)
		time.Sleep(2 * holdTime)
		r.is(t, "when it is stale", record("web", 2))
		second.stale.Store(true)
		time.Sleep(10 * time.Minute)
		if s := r.State(); !s.Synced || !s.Stale {
			t.Errorf("when both are stale: %+v", s)
		}
		second.stale.Store(false)
		time.Sleep(3 * time.Minute)
		r.is(t, "when one is not stale any more", record("web", 2))
		if s := r.State(); s.Gateway != "b-1" || s.Stale {
			t.Errorf("%+v", s)
		}
	})
}

func TestAStoreThatFailsIsTriedAgainAndNothingElseIsReceived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := newExporter(t, 0), newExporter(t, 1)
		ok(t, first.Replace([]ServiceRecord{record("web", 1)}))
		ok(t, second.Replace([]ServiceRecord{record("web", 1)}))
		r := newReceived(t, first, second)
		r.failing(errors.New("no API server"))
		time.Sleep(time.Minute)
		_, dials := second.observed()
		if s := r.State(); s.Synced || s.Gateway != "b-0" || s.Err == nil || r.calls() > 8 || dials != 0 {
			t.Errorf("%+v, stored %d times", s, r.calls())
		}
		r.failing(nil)
		time.Sleep(lastRetry)
		r.is(t, "after the snapshot", record("web", 1))
		r.failing(errors.New("no API server"))
		ok(t, first.Put(record("web", 2)))
		time.Sleep(time.Minute)
		r.is(t, "while the store fails", record("web", 1))
		r.failing(nil)
		time.Sleep(lastRetry)
		r.is(t, "after a change", record("web", 2))
		if s := r.State(); !s.Synced || s.Err != nil {
			t.Errorf("%+v", s)
		}
	})
}

// An importer that missed more removals than are remembered gets a snapshot.
func TestForgottenRemovalsAreReplacedByASnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newExporter(t, 0)
		ok(t, e.Replace([]ServiceRecord{record("web", 1), record("db", 1)}))
		r := newReceived(t, e)
		time.Sleep(snapshotInterval)
		r.failing(errors.New("no API server"))
		e.Remove(ServiceKey{"shop", "db"})
		for i := range 3 * maxRemoved {
			ok(t, e.Put(record(fmt.Sprint("s", i), 1)))
			e.Remove(ServiceKey{"shop", fmt.Sprint("s", i)})
		}
		e.Exports.mu.Lock()
		if len(e.latest) > maxRemoved+2 || len(e.log) > 4*maxRemoved {
			t.Errorf("%d changes and a log of %d are kept", len(e.latest), len(e.log))
		}
		e.Exports.mu.Unlock()
		time.Sleep(time.Minute)
		r.failing(nil)
		time.Sleep(time.Minute)
		r.is(t, "after the snapshot", record("web", 1))
		if s := r.State(); !s.Synced {
			t.Errorf("%+v", s)
		}
	})
}

// Random changes, failures of the store, and gateways that come and go: at the end the
// importer has what the exporters have.
func TestTheImporterConverges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 15))
			all := []*exporter{newExporter(t, 0), newExporter(t, 1)}
			for _, e := range all {
				ok(t, e.Replace(nil))
			}
			r := newReceived(t)
			want := make(map[ServiceKey]ServiceRecord)
			for range 300 {
				s := record(fmt.Sprint("s", random.IntN(40)), random.IntN(3))
				switch random.IntN(12) {
				case 0:
					r.links(all[:1+random.IntN(2)]...)
				case 1:
					r.links(all[random.IntN(2):]...)
				case 2:
					r.failing([]error{nil, nil, errors.New("no API server")}[random.IntN(3)])
				case 3:
					time.Sleep(time.Duration(random.IntN(20)) * time.Second)
				case 4, 5, 6:
					delete(want, s.Key)
					for _, e := range all {
						e.Remove(s.Key)
					}
				default:
					want[s.Key] = s
					for _, e := range all {
						ok(t, e.Put(s))
					}
				}
				time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			}
			r.failing(nil)
			r.links(all...)
			time.Sleep(2 * time.Minute)
			r.is(t, fmt.Sprint("seed ", seed), slices.Collect(maps.Values(want))...)
			if s := r.State(); !s.Synced {
				t.Errorf("seed %d: %+v", seed, s)
			}
		})
	}
}

func TestARecordOf5000EndpointsFitsIntoAPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		endpoint := fmt.Sprintf(`{"address":"2001:db8:1234:5678:9abc:def0:1234:5678","hostname":%q,"zone":%q,"ready":true,"serving":true,"terminating":true}`,
			strings.Repeat("h", 63), strings.Repeat("z", 63))
		long := record("long", strings.Repeat(endpoint+",", 5000))
		e := newExporter(t, 0)
		ok(t, e.Replace([]ServiceRecord{record("a", 1), long, record("z", 1)}))
		r := newReceived(t, e)
		time.Sleep(time.Second)
		r.is(t, "after the snapshot", record("a", 1), long, record("z", 1))
		if len(long.JSON) < 1<<20 || r.calls() != 3 {
			t.Errorf("%d bytes in %d pages", len(long.JSON), r.calls())
		}
		if err := e.Put(record("long", strings.Repeat("x", maxRecord))); err == nil {
			t.Error("a longer record is accepted")
		}
		time.Sleep(time.Second)
		r.is(t, "a record that cannot be sent is not exported", record("a", 1), record("z", 1))
	})
}

func TestAClusterExportsALimitedNumberOfServices(t *testing.T) {
	t.Parallel()
	e := NewExports(ExportsOptions{Stale: func() bool { return false }, Stored: func(time.Duration) {}})
	var all []ServiceRecord
	for i := range MaxServices + 2 {
		all = append(all, record(fmt.Sprint("s", i), 1))
	}
	if err := e.Replace(all); !errors.Is(err, ErrTooManyServices) || e.Len() != MaxServices {
		t.Errorf("%d Services, %v", e.Len(), err)
	}
	e.Remove(all[0].Key)
	ok(t, e.Put(all[MaxServices]))
}

// A far end that holds all its connections does so on its own link only, and not for long.
func TestT17_AReaderOfAPageThatIsSlowIsHungUpOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newExporter(t, 0)
		ok(t, e.Replace([]ServiceRecord{record("web", strings.Repeat("x", 1<<20))}))
		begun := time.Now()
		c := connect(t, e.wire)
		if _, err := io.WriteString(c, "GET /v1/services HTTP/1.1\r\nHost: link\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 16)
		var err error
		for err == nil {
			time.Sleep(time.Second)
			_, err = c.Read(b)
		}
		if took := time.Since(begun); took < pagePatience || took > pagePatience+10*time.Second {
			t.Errorf("hung up after %v, want %v", took, pagePatience)
		}
	})
}

// While an importer waits on one connection, announcements are exchanged on another.
func TestAnnouncementsPassAnImporterThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newExporter(t, 0)
		ok(t, e.Replace(nil))
		newReceived(t, e)
		a := announcement()
		body, err := a.encode()
		ok(t, err)
		for range 10 {
			time.Sleep(time.Second)
			begun := time.Now()
			if _, err := announce(t.Context(), e.wire.dial, body); err != nil || time.Since(begun) > 0 {
				t.Errorf("after %v: %v", time.Since(begun), err)
			}
		}
	})
}
