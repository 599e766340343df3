package peering

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// withIDs is a Peering that was created at a minute, with a cluster ID in its spec and in its
// status.
func withIDs(name string, minute int, spec, status v1alpha1.ClusterID) *v1alpha1.Peering {
	return &v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Time{Time: noon.Add(time.Duration(minute) * time.Minute)}},
		Spec:       v1alpha1.PeeringSpec{ClusterID: spec}, Status: v1alpha1.PeeringStatus{ClusterID: status},
	}
}

func TestAClusterIDBelongsToThePeeringThatHadItFirst(t *testing.T) {
	for name, row := range map[string]struct {
		all    []*v1alpha1.Peering
		holder string // of cluster ID x; empty: none
	}{
		"none has it":                            {[]*v1alpha1.Peering{withIDs("p", 1, "", ""), withIDs("q", 2, "y", "y")}, ""},
		"one has it by its announcement":         {[]*v1alpha1.Peering{withIDs("p", 1, "", ""), withIDs("q", 2, "", "x")}, "q"},
		"a spec before any announcement":         {[]*v1alpha1.Peering{withIDs("p", 1, "", ""), withIDs("q", 2, "x", "")}, "q"},
		"an announcement before a spec":          {[]*v1alpha1.Peering{withIDs("p", 1, "x", ""), withIDs("q", 2, "", "x")}, "q"},
		"a status that the spec no longer means": {[]*v1alpha1.Peering{withIDs("p", 1, "y", "x"), withIDs("q", 2, "x", "")}, "q"},
		"two specs":                              {[]*v1alpha1.Peering{withIDs("p", 2, "x", ""), withIDs("q", 1, "x", "")}, "q"},
		"two of the same time":                   {[]*v1alpha1.Peering{withIDs("q", 1, "x", ""), withIDs("r", 1, "x", "")}, "q"},
		"two statuses of an earlier version":     {[]*v1alpha1.Peering{withIDs("p", 1, "", "x"), withIDs("q", 2, "x", "x")}, "q"},
		"two announcements then":                 {[]*v1alpha1.Peering{withIDs("p", 2, "", "x"), withIDs("q", 1, "", "x")}, "q"},
	} {
		for seed := range uint64(5) {
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(row.all), func(i, j int) { row.all[i], row.all[j] = row.all[j], row.all[i] })
			holders := HoldersOf("a", row.all)
			for _, p := range append(row.all, withIDs("later", 9, "", "")) {
				err := holders.Refuse(p, "x")
				var taken *ClusterIDTakenError
				switch free := row.holder == "" || p.Name == row.holder; {
				case free && err != nil, !free && (!errors.As(err, &taken) || taken.Holder != row.holder):
					t.Errorf("%s, seed %d: Peering %s: %v, want the holder %s", name, seed, p.Name, err, row.holder)
				}
			}
			if holders.Refuse(row.all[0], "a") == nil || holders.Hold(row.all[0], "a") != "" {
				t.Errorf("%s: this cluster's own ID is not refused", name)
			}
		}
	}
}

func TestAnAnnouncementWithTheIDOfAnotherPeeringCountsNowhere(t *testing.T) {
	p, a := peered(), told()
	p.Spec.ClusterID, p.Status.Announcement = "", &a
	holders := HoldersOf("a", []*v1alpha1.Peering{p, withIDs("first", 1, "b", "b")})
	if err := Refusal(p, holders, &a); err == nil || err.Error() != "cluster ID b belongs to Peering first" {
		t.Errorf("it is refused with %v", err)
	}
	if got := Latest(p, holders, []v1alpha1.Announcement{a}, noon); got != nil {
		t.Errorf("in effect is %+v", got)
	}
	other := told(func(a *v1alpha1.Announcement) { a.ClusterID = "c" })
	if got := Latest(p, holders, []v1alpha1.Announcement{a, other}, noon); got == nil || got.ClusterID != "c" {
		t.Errorf("with an ID of its own, in effect is %+v", got)
	}
}
