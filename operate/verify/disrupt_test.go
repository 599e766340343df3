package verify

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/operate/operator"
)

// sideOf is a cluster whose Peering has this many gateways.
func sideOf(name string, gateways int32) *operator.Side {
	return &operator.Side{Cluster: operator.Cluster{Name: name}, Peering: &v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{Gateway: v1alpha1.GatewaySpec{Replicas: gateways}}}}
}

func TestDisruptionsAreJudgedByTheirLimits(t *testing.T) {
	t.Parallel()
	all := disruptionsOf(sideOf("a", 2), sideOf("b", 1))
	of := func(cluster, what string) disruption {
		for _, d := range all {
			if d.what == what && (d.of == nil || d.of.Name == cluster) {
				return d
			}
		}
		t.Fatalf("%s: %s is missing", cluster, what)
		return disruption{}
	}
	for _, c := range []struct {
		cluster, what string
		lost          endpoint.StreamsResult
		want          Outcome
	}{
		{"", "nothing", endpoint.StreamsResult{Sent: 10, Gap: time.Minute}, Passed},
		{"", "nothing", endpoint.StreamsResult{Sent: 10, Lost: 1}, Failed},
		{"a", "gateway drained", endpoint.StreamsResult{Sent: 10, Gap: time.Second}, Passed},
		{"a", "gateway drained", endpoint.StreamsResult{Broken: 1}, Failed},
		{"b", "new keys", endpoint.StreamsResult{Sent: 10, Lost: 2}, Failed},
		{"a", "gateway killed", endpoint.StreamsResult{Sent: 10, Lost: 5, Broken: 1, Gap: time.Second}, Passed},
		{"a", "gateway killed", endpoint.StreamsResult{Gap: time.Second + 1}, Failed},
		{"b", "gateway killed", endpoint.StreamsResult{Gap: time.Minute, Lost: 9}, Passed}, // the only one
	} {
		if row := of(c.cluster, c.what).judge("x", "y", c.lost); row.Outcome != c.want || row.Limit == "" {
			t.Errorf("%s %s %+v: %s of limit %q, want %s", c.cluster, c.what, c.lost, row.Outcome, row.Limit, c.want)
		}
	}
}

func TestTheTableOfDisruptionsShowsWhatWasLost(t *testing.T) {
	t.Parallel()
	d := disruptionsOf(sideOf("context a", 2))[2]
	r := &DisruptReport{Rows: []DisruptRow{d.judge("a", "b", endpoint.StreamsResult{Flows: 32, Hit: 9, Gap: 1234567 * time.Microsecond, Sent: 4000, Lost: 310, Duplicated: 1, Broken: 2, Moved: 5})}}
	r.finish(time.Now())
	var b bytes.Buffer
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	line := strings.Join(strings.Fields(strings.Split(b.String(), "\n")[1]), " ")
	if want := "✗ gateway killed context a a b 32 9 1.235s 4000 310 1 2 5 gap ≤ 1s"; line != want || r.Passed {
		t.Errorf("%q, passed %t, want %q", line, r.Passed, want)
	}
}
