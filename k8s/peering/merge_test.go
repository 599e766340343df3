package peering

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestTheLatestAnnouncementThatIsGrantedCounts(t *testing.T) {
	later := func(d time.Duration, prefix v1alpha1.CIDR) v1alpha1.Announcement {
		return told(func(a *v1alpha1.Announcement) {
			a.Revision, a.HeardAt, a.Prefixes = int64(d), &metav1.MicroTime{Time: noon.Add(d)}, []v1alpha1.CIDR{prefix}
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
		"of the future":                {new(later(1, "10.2.0.0/24")), []v1alpha1.Announcement{later(time.Hour, "10.2.1.0/24")}, "10.2.1.0/24"},
		"without a time":               {nil, []v1alpha1.Announcement{unheard}, ""},
	} {
		for seed := range uint64(10) {
			r := rand.New(rand.NewPCG(seed, 1))
			r.Shuffle(len(row.reported), func(i, j int) { row.reported[i], row.reported[j] = row.reported[j], row.reported[i] })
			p := peered()
			p.Status.Announcement = row.published
			now := noon.Add(time.Second)
			got := Latest(p, HoldersOf("a", nil), row.reported, now)
			if got != nil && got.HeardAt.After(now) {
				t.Errorf("%s: it was received at %v, and it is %v", name, got.HeardAt, now)
			}
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

func TestARevisionCountsMoreThanATime(t *testing.T) {
	revised := func(revision int64, d time.Duration, prefix v1alpha1.CIDR) v1alpha1.Announcement {
		return told(func(a *v1alpha1.Announcement) {
			a.Revision, a.HeardAt, a.Prefixes = revision, &metav1.MicroTime{Time: noon.Add(d)}, []v1alpha1.CIDR{prefix}
		})
	}
	superseding := revised(3, 2, "10.2.0.0/24")
	superseding.Superseded = nil
	for name, row := range map[string]struct {
		published *v1alpha1.Announcement
		reported  []v1alpha1.Announcement
		want      *v1alpha1.Announcement
	}{
		"the highest":                     {nil, []v1alpha1.Announcement{revised(3, 1, "10.2.0.0/24"), revised(2, 9, "10.2.1.0/24")}, new(revised(3, 1, "10.2.0.0/24"))},
		"a lower one, later":              {new(revised(3, 1, "10.2.0.0/24")), []v1alpha1.Announcement{revised(2, 9, "10.2.1.0/24")}, new(revised(3, 1, "10.2.0.0/24"))},
		"the same, once more":             {new(revised(3, 1, "10.2.0.0/24")), []v1alpha1.Announcement{revised(3, 9, "10.2.0.0/24")}, new(revised(3, 1, "10.2.0.0/24"))},
		"the same, with another spec":     {new(revised(3, 1, "10.2.0.0/24")), []v1alpha1.Announcement{superseding}, &superseding},
		"one that is not granted":         {new(revised(3, 1, "10.2.0.0/24")), []v1alpha1.Announcement{revised(4, 9, "10.9.0.0/24")}, new(revised(3, 1, "10.2.0.0/24"))},
		"instead of what was taken back":  {new(revised(3, 1, "10.9.0.0/24")), []v1alpha1.Announcement{revised(2, 1, "10.2.0.0/24")}, new(revised(2, 1, "10.2.0.0/24"))},
		"the same revision, tie: the one": {nil, []v1alpha1.Announcement{revised(3, 1, "10.2.1.0/24"), revised(3, 2, "10.2.0.0/24")}, new(revised(3, 1, "10.2.1.0/24"))},
		"the same revision, tie: that":    {nil, []v1alpha1.Announcement{revised(3, 2, "10.2.0.0/24"), revised(3, 1, "10.2.1.0/24")}, new(revised(3, 1, "10.2.1.0/24"))},
	} {
		p := peered()
		p.Status.Announcement = row.published
		if got := Latest(p, HoldersOf("a", nil), row.reported, noon.Add(time.Second)); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}

func TestARevisionIsIssuedForEachChangeAndContinuesAboveTheRemoteClusters(t *testing.T) {
	a := v1alpha1.Announcement{ClusterID: "a", Prefixes: []v1alpha1.CIDR{"10.0.0.0/16"}}
	other := v1alpha1.Announcement{ClusterID: "a", Prefixes: []v1alpha1.CIDR{"10.1.0.0/16"}}
	at := func(a v1alpha1.Announcement, revision int64) *v1alpha1.Announcement { a.Revision = revision; return &a }
	for name, row := range map[string]struct {
		now      v1alpha1.Announcement
		last     *v1alpha1.Announcement
		inEffect int64
		want     int64
	}{
		"the first":                     {a, nil, 0, 1},
		"no change":                     {a, at(a, 7), 0, 7},
		"a change":                      {other, at(a, 7), 0, 8},
		"the Peering was created again": {a, nil, 57, 58},
		"etcd was restored":             {a, at(a, 50), 57, 58},
		"the same one was issued twice": {a, at(a, 57), 57, 58},
		"what was said before":          {a, at(a, 58), 57, 58},
		"a remote cluster that lies":    {a, at(a, 7), 1 << 62, 7 + 1<<32 + 1},
		"all revisions are used":        {other, at(a, 1<<62), 1 << 62, 1 << 62},
	} {
		if got := Issue(row.now, row.last, row.inEffect); got.Revision != row.want || got.Prefixes[0] != row.now.Prefixes[0] {
			t.Errorf("%s: %+v, want revision %d", name, got, row.want)
		}
	}
}
