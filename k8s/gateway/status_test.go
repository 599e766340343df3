package gateway

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestOnlyWhatMattersMakesTheStatusBeWritten(t *testing.T) {
	rtt := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	base := func() v1alpha1.PeeringStatus {
		return v1alpha1.PeeringStatus{
			Gateways: []v1alpha1.GatewayStatus{{Name: "b-0", PublicKey: "k", PodAddresses: []v1alpha1.IP{"192.0.2.10"}, Node: "node-1", MTU: 1400}},
			Links: []v1alpha1.LinkStatus{{
				Local: "b-0", Remote: "b-0", Up: true, RTT: rtt(time.Millisecond), LastHandshake: &metav1.Time{Time: time.Unix(1000, 0)}, Endpoint: "192.0.2.1:51840",
			}},
		}
	}
	for name, c := range map[string]struct {
		edit       func(*v1alpha1.PeeringStatus)
		now, later bool
	}{
		"nothing":             {func(*v1alpha1.PeeringStatus) {}, false, false},
		"the usual jitter":    {func(s *v1alpha1.PeeringStatus) { s.Links[0].RTT = rtt(1200 * time.Microsecond) }, false, false},
		"another round trip":  {func(s *v1alpha1.PeeringStatus) { s.Links[0].RTT = rtt(2 * time.Millisecond) }, false, true},
		"the first":           {func(s *v1alpha1.PeeringStatus) { s.Links[0].RTT = nil }, false, true},
		"another handshake":   {func(s *v1alpha1.PeeringStatus) { s.Links[0].LastHandshake.Time = time.Unix(1120, 0) }, false, true},
		"another endpoint":    {func(s *v1alpha1.PeeringStatus) { s.Links[0].Endpoint = "192.0.2.2:51840" }, false, true},
		"the link went down":  {func(s *v1alpha1.PeeringStatus) { s.Links[0].Up = false }, true, false},
		"another link":        {func(s *v1alpha1.PeeringStatus) { s.Links[0].Remote = "b-1" }, true, false},
		"a link less":         {func(s *v1alpha1.PeeringStatus) { s.Links = nil }, true, false},
		"another MTU":         {func(s *v1alpha1.PeeringStatus) { s.Gateways[0].MTU = 1300 }, true, false},
		"another pod address": {func(s *v1alpha1.PeeringStatus) { s.Gateways[0].PodAddresses = nil }, true, false},
		"another key":         {func(s *v1alpha1.PeeringStatus) { s.Gateways[0].PublicKey = "l" }, true, false},
		"the gateway itself":  {func(s *v1alpha1.PeeringStatus) { s.Gateways = nil }, true, false},
	} {
		want := base()
		c.edit(&want)
		if now, later := compareStatus(base(), want); now != c.now || later != c.later {
			t.Errorf("%s: now %v, later %v; want %v, %v", name, now, later, c.now, c.later)
		}
	}
}
