//go:build nightly

package lab

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// pauseBound is how long a gateway may take to stop its threads, in 99.9 % of all cases: a bucket of the histogram, in
// seconds.
const pauseBound = 0.005

func TestThreadsStopWithinMillisecondsUnderLoad(t *testing.T) {
	top := build(t, options{})
	for _, w := range top.directions() {
		if !w.src.Is6() {
			l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 5001))
			transfer(t, w.from, l, netip.AddrPortFrom(w.seen, 5001), transferBytes(t), 4)
		}
	}
	for _, g := range []*gateway{top.a.gateway, top.b.gateway} {
		body, status, err := g.get("/metrics")
		if err != nil || status != http.StatusOK {
			t.Fatalf("gateway %s: /metrics: status %d, %v", g.site.name, status, err)
		}
		const histogram = "go_sched_pauses_stopping_other_seconds"
		all := sumSeries(body, histogram+"_count", nil)
		within, bound := 0.0, 0.0
		for line := range strings.Lines(body) {
			rest, isBucket := strings.CutPrefix(line, histogram+`_bucket{le="`)
			upper, count, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
			le, err := strconv.ParseFloat(upper, 64)
			if n, _ := strconv.ParseFloat(count, 64); isBucket && err == nil && le <= pauseBound && le > bound {
				within, bound = n, le
			}
		}
		t.Logf("gateway %s stopped its threads %v times, %v times within %v s", g.site.name, all, within, bound)
		if bound == 0 || within < 0.999*all {
			t.Errorf("gateway %s: %v of %v stops took more than %v s", g.site.name, all-within, all, bound)
		}
	}
}
