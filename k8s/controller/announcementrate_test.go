package controller_test

import (
	"fmt"
	"testing"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// The remote cluster announces another CIDR every second. A link that goes down meanwhile is in
// the status at once.
func TestT10_APeeringFollowsAnnouncementsSeldomAndLinksAtOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.node("node-1", "192.0.2.21", "10.0.0.0/16")
		f.network(`{"clusterID": "a", "podCIDRs": ["10.0.0.0/16"]}`)
		f.accept("b", "172.16.0.0/12")
		f.runGateway("b-0", "True")
		report := func(n int, up bool) {
			r := announces("b", v1alpha1.CIDR(fmt.Sprintf("172.16.%d.0/24", n)))
			r.Announcement.Revision = int64(n + 1)
			r.Links = []v1alpha1.LinkStatus{{Remote: "a-0", Up: up}}
			f.say("b-0", r)
		}
		changes, last := 0, int64(0)
		for n := range 60 {
			report(n, n != 40)
			f.pause(time.Second)
			p := f.peering("b")
			if a := p.Status.Announcement; a != nil && a.Revision != last {
				changes, last = changes+1, a.Revision
			}
			if n == 0 && last != 1 {
				t.Error("the first announcement is not in effect after a second")
			}
			if up := p.Status.Gateways[0].LinkUp; up != (n != 40) {
				t.Errorf("second %d: the link is up: %v", n, up)
			}
		}
		if changes > 11 || changes < 5 {
			t.Errorf("%d announcements in a minute are in effect", changes)
		}
		f.pause(11 * time.Second)
		if a := f.peering("b").Status.Announcement; a.Revision != 60 {
			t.Errorf("revision %d is in effect at the end, want 60", a.Revision)
		}
	})
}
