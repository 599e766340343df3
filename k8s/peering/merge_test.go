package peering

import (
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestTheLatestAnnouncementThatIsGrantedCounts(t *testing.T) {
	later := func(d time.Duration, prefix v1alpha1.CIDR) v1alpha1.Announcement {
		return told(func(a *v1alpha1.Announcement) {
			a.HeardAt, a.Prefixes = &metav1.MicroTime{Time: noon.Add(d)}, []v1alpha1.CIDR{prefix}
		})
	}
	unheard := later(0, "10.2.5.0/24")
	unheard.HeardAt = nil
	for name, row := range map[string]struct {
		published *v1alpha1.Announcement
		reported  []v1alpha1.Announcement
		want      v1alpha1.CIDR // empty: none
	}{
		"nothing":                      {nil, nil, ""},
		"the latest":                   {nil, []v1alpha1.Announcement{later(1, "10.2.0.0/24"), later(3, "10.2.1.0/24"), later(2, "10.2.2.0/24")}, "10.2.1.0/24"},
		"one that is not granted":      {nil, []v1alpha1.Announcement{later(1, "10.2.0.0/24"), later(3, "10.9.0.0/24")}, "10.2.0.0/24"},
		"no report yet":                {new(later(1, "10.2.0.0/24")), nil, "10.2.0.0/24"},
		"an older report":              {new(later(2, "10.2.0.0/24")), []v1alpha1.Announcement{later(1, "10.2.1.0/24")}, "10.2.0.0/24"},
		"a newer report":               {new(later(1, "10.2.0.0/24")), []v1alpha1.Announcement{later(2, "10.2.1.0/24")}, "10.2.1.0/24"},
		"a grant that was taken back":  {new(later(2, "10.9.0.0/24")), []v1alpha1.Announcement{later(1, "10.2.1.0/24")}, "10.2.1.0/24"},
		"only what was granted before": {new(later(2, "10.9.0.0/24")), nil, "10.9.0.0/24"},
		"of the future":                {new(later(1, "10.2.0.0/24")), []v1alpha1.Announcement{later(time.Hour, "10.2.1.0/24")}, "10.2.0.0/24"},
		"without a time":               {nil, []v1alpha1.Announcement{unheard}, ""},
	} {
		for seed := range uint64(10) {
			r := rand.New(rand.NewPCG(seed, 1))
			r.Shuffle(len(row.reported), func(i, j int) { row.reported[i], row.reported[j] = row.reported[j], row.reported[i] })
			p := peered()
			p.Status.Announcement = row.published
			got := Latest(p, "a", row.reported, noon.Add(time.Second))
			if got == nil && row.want != "" || got != nil && (len(got.Prefixes) != 1 || got.Prefixes[0] != row.want) {
				t.Errorf("%s, seed %d: %+v, want %s", name, seed, got, row.want)
			}
		}
	}
}

func TestAReportCountsForThePeeringOfItsName(t *testing.T) {
	named := func(name string) v1alpha1.GatewayReport {
		return v1alpha1.GatewayReport{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	p := peered()
	p.Spec.Gateway.Replicas = 2
	own := Reports(p, []v1alpha1.GatewayReport{named("b-1"), named("b-10"), named("b-2"), named("c-0"), named("b"), named("b-0")})
	if len(own) != 2 || own[0].Name != "b-0" || own[1].Name != "b-1" {
		t.Errorf("%+v", own)
	}
}
