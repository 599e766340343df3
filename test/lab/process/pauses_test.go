//go:build nightly

package process

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"strait.dev/strait/test/lab"
)

// pauseBound is how long a gateway may take to stop its threads, in 99.9 % of all cases: a bucket of the histogram, in
// seconds.
const pauseBound = 0.005

func TestThreadsStopWithinMillisecondsUnderLoad(t *testing.T) {
	top := lab.Build(t, lab.Options{})
	for _, w := range top.Directions() {
		if !w.Src.Is6() {
			l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
			lab.Transfer(t, w.From, l, netip.AddrPortFrom(w.Seen, 5001), lab.TransferBytes(t), 4)
		}
	}
	for _, g := range []*lab.Gateway{top.A.Gateway, top.B.Gateway} {
		body, status, err := g.Get("/metrics")
		if err != nil || status != http.StatusOK {
			t.Fatalf("gateway %s: /metrics: status %d, %v", g.Site.Name, status, err)
		}
		const histogram = "go_sched_pauses_stopping_other_seconds"
		all := lab.SumSeries(body, histogram+"_count", nil)
		within, bound := 0.0, 0.0
		for line := range strings.Lines(body) {
			rest, isBucket := strings.CutPrefix(line, histogram+`_bucket{le="`)
			upper, count, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
			le, err := strconv.ParseFloat(upper, 64)
			if n, _ := strconv.ParseFloat(count, 64); isBucket && err == nil && le <= pauseBound && le > bound {
				within, bound = n, le
			}
		}
		t.Logf("gateway %s stopped its threads %v times, %v times within %v s", g.Site.Name, all, within, bound)
		if bound == 0 || within < 0.999*all {
			t.Errorf("gateway %s: %v of %v stops took more than %v s", g.Site.Name, all-within, all, bound)
		}
	}
}
