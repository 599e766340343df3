package control

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// hostile returns a far end that answers requests for exports as it likes, and the number of
// these requests.
func hostile(t *testing.T, reply func(servicePosition, int64) string) (*exporter, *atomic.Int64) {
	t.Helper()
	e := &exporter{wire: listen(t), link: theLink}
	requests := new(atomic.Int64)
	s := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, err := parseServicePosition(r.URL.Query())
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, reply(at, requests.Add(1)))
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(e.wire) }()
	t.Cleanup(func() { s.Close(); <-ended })
	return e, requests
}

// pageText is a page of records, with the digest of these records.
func pageText(epoch string, revision, snapshot int64, more bool, services ...ServiceRecord) string {
	var d digest
	p := outgoingPage{epoch: epoch, revision: revision, snapshot: snapshot, more: more}
	for _, s := range services {
		d.toggle(digestOf(s.JSON))
		p.changes = append(p.changes, &serviceChange{key: s.Key, record: s.JSON})
	}
	p.digest = d
	return string(slices.Concat(p.encode()...))
}

func TestAHostileFarEndIsRefusedAndAskedSeldom(t *testing.T) {
	t.Parallel()
	web := record("web", 1)
	long := pageText("e", 2, 2, false, record("web", strings.Repeat("x", maxPage)))
	for name, c := range map[string]struct {
		reply func(at servicePosition, n int64) string
		says  string // the error at the end
		keeps int    // records at the end
	}{
		"not JSON":    {func(servicePosition, int64) string { return "<html>" }, "is not the expected JSON", 0},
		"two values":  {func(servicePosition, int64) string { return pageText("e", 2, 2, false) + "{}" }, "has data after the JSON value", 0},
		"no epoch":    {func(servicePosition, int64) string { return pageText("", 2, 2, false) }, "epoch: has 0 bytes", 0},
		"a long page": {func(servicePosition, int64) string { return long }, "is longer than", 0},
		"many records": {func(servicePosition, int64) string {
			return `{"epoch":"e","revision":2,"snapshot":2,"digest":"","services":[{}` + strings.Repeat(",{}", pageServices) + `]}`
		}, "has more than 1000 items", 0},
		"a record that is none": {func(servicePosition, int64) string {
			return `{"epoch":"e","revision":2,"snapshot":2,"digest":"","services":[[]]}`
		}, "services[0]: is not a record", 0},
		"a name that is none": {func(servicePosition, int64) string {
			return pageText("e", 2, 2, false, record("../web", 1))
		}, "services[0]: name: ", 0},
		"a removed name that is none": {func(servicePosition, int64) string {
			return `{"epoch":"e","revision":2,"snapshot":2,"digest":"","removed":["shop"]}`
		}, "removed[0]: name: ", 0},
		"a Service twice": {func(servicePosition, int64) string {
			return pageText("e", 2, 2, false, web, record("web", 2))
		}, "shop/web occurs twice", 0},
		"a Service that is changed and removed": {func(servicePosition, int64) string {
			return strings.Replace(pageText("e", 2, 2, false, web), `"removed":[`, `"removed":["shop/web"`, 1)
		}, "shop/web occurs twice", 0},
		"a negative revision": {func(servicePosition, int64) string { return pageText("e", -2, 2, false) }, "is negative", 0},
		"another digest": {func(servicePosition, int64) string {
			return strings.Replace(pageText("e", 2, 2, false, web), digestOf(web.JSON).String(), "00", 1)
		}, "the digest is not that of the records", 1},
		"the same set, which the importer does not have": {func(at servicePosition, _ int64) string {
			return pageText("e", 2, 0, false)
		}, "does not follow the last one", 0},
		"the last page again": {func(servicePosition, int64) string { return pageText("e", 2, 2, false, web) }, "", 1},
		"an older page": {func(at servicePosition, n int64) string {
			if at.epoch == "" {
				return pageText("e", 9, 9, false, web)
			}
			return pageText("e", 8, 0, false, web)
		}, "is not newer than the last one", 1},
		"a page that promises more and has nothing": {func(at servicePosition, n int64) string {
			if at.epoch == "" {
				return pageText("e", 9, 9, false, web)
			}
			return pageText("e", at.revision, at.snapshot, true)
		}, "is not newer than the last one", 1},
		"pages without end": {func(at servicePosition, n int64) string {
			var many []ServiceRecord
			for i := range pageServices {
				many = append(many, record(fmt.Sprintf("s%d-%d", n, i), 1))
			}
			return pageText("e", at.revision+1, 1<<40, true, many...)
		}, "", MaxServices},
		"another epoch in each page": {func(_ servicePosition, n int64) string {
			return pageText(strconv.FormatInt(n, 10), 2, 2, false, web)
		}, "", 1},
		"a snapshot that begins again and again": {func(_ servicePosition, n int64) string {
			return pageText("e", 1, n, true, web)
		}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, requests := hostile(t, c.reply)
				r := newReceived(t, e)
				time.Sleep(5*time.Minute + time.Second)
				// All but the first few are retries, or a snapshot each snapshotInterval.
				if n := requests.Load(); n > 110 {
					t.Errorf("%d requests in 5 minutes", n)
				}
				r.mu.Lock()
				keeps, calls := len(r.records), r.applied
				r.mu.Unlock()
				if keeps != c.keeps || calls > 40 {
					t.Errorf("%d records are stored, want %d, with %d calls", keeps, c.keeps, calls)
				}
				if err := r.State().Err; c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
					t.Errorf("%v, want %s", err, c.says)
				}
			})
		})
	}
}

// An honest gateway of the same cluster is used in place of a hostile one.
func TestAnotherGatewayIsUsedInPlaceOfAHostileOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad, _ := hostile(t, func(servicePosition, int64) string { return "{" })
		good := newExporter(t, 1)
		ok(t, good.Replace([]ServiceRecord{record("web", 1)}))
		r := newReceived(t, bad, good)
		time.Sleep(time.Second)
		r.is(t, "from the other gateway", record("web", 1))
	})
}

func TestAnotherGatewayIsUsedInPlaceOfASilentOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := &exporter{wire: says(t), link: theLink}
		good := newExporter(t, 1)
		ok(t, good.Replace([]ServiceRecord{record("web", 1)}))
		r := newReceived(t, silent, good)
		time.Sleep(holdTime + patience + time.Second)
		r.is(t, "from the other gateway", record("web", 1))
	})
}

func TestMalformedRequestsForExportsAreAnsweredSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newExporter(t, 0)
		ok(t, e.Replace([]ServiceRecord{record("web", 1)}))
		client := newClient(e.wire.dial)
		defer client.CloseIdleConnections()
		for query, want := range map[string]int{
			"revision=x": 400, "revision=-1": 400, "snapshot=99999999999999999999": 400,
			"": 200, "epoch=other&revision=7": 200, "epoch=" + e.epoch + "&revision=999": 200, "epoch=" + e.epoch + "&snapshot=999": 200, "other=1": 200,
		} {
			status, b, err := request(t.Context(), client, http.MethodGet, servicesPath+"?"+query, nil, maxPage)
			if err != nil || status != want {
				t.Errorf("%s: %d %s, %v; want %d", query, status, b, err, want)
			}
			if p, err := decodeServicePage(b); status == 200 && (err != nil || len(p.Services) != 1 || p.Snapshot == 0) {
				t.Errorf("%s: %+v, %v; want a snapshot", query, p, err)
			}
		}
	})
}

func FuzzServicePage(f *testing.F) {
	f.Add([]byte(pageText("e", 2, 2, true, record("web", 1), record("db", "<&>"))))
	f.Add([]byte(pageText("e", 3, 0, false)))
	f.Add([]byte(`{"epoch":"e","revision":2,"digest":"","stale":true,"removed":["shop/web"],"later":{}}`))
	f.Add([]byte(`{"epoch":"e","services":null,"removed":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeServicePage(b)
		if err != nil {
			return
		}
		if len(p.Services) > pageServices || len(p.Removed) > pageServices || p.Revision < 0 || p.Snapshot < 0 {
			t.Fatalf("%+v", p)
		}
		again := outgoingPage{epoch: p.Epoch, revision: p.Revision, snapshot: p.Snapshot, more: p.More, stale: p.Stale}
		for _, s := range p.Services {
			if s.Key.validate() != nil {
				t.Fatalf("%v", s.Key)
			}
			again.changes = append(again.changes, &serviceChange{key: s.Key, record: s.JSON})
		}
		for _, k := range p.Removed {
			if k.validate() != nil {
				t.Fatalf("%v", k)
			}
			again.changes = append(again.changes, &serviceChange{key: k})
		}
		q, err := decodeServicePage(slices.Concat(again.encode()...))
		if err != nil {
			if strings.ContainsFunc(p.Epoch, func(r rune) bool { return r < ' ' || r > '~' }) {
				return // a gateway's own epoch has no such characters
			}
			t.Fatal(err)
		}
		if len(q.Services) != len(p.Services) || !slices.Equal(q.Removed, p.Removed) || q.Revision != p.Revision || q.Snapshot != p.Snapshot || q.More != p.More || q.Stale != p.Stale {
			t.Errorf("%+v became %+v", p, q)
		}
		for i := range p.Services {
			if !bytes.Equal(p.Services[i].JSON, q.Services[i].JSON) {
				t.Errorf("%s became %s", p.Services[i].JSON, q.Services[i].JSON)
			}
		}
	})
}
