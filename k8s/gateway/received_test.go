package gateway

import (
	"errors"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// receivers is a Peering with two gateways, each with links to both remote gateways, in
// virtual time, and the controller that merges what they report.
type receivers struct {
	peering  *v1alpha1.Peering
	gateways [2]receivedAnnouncement
	now      time.Time
	changes  int // of what is in effect
}

var dawn = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func newReceivers() *receivers {
	h := &receivers{now: dawn, peering: &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{
		ClusterID: "b", AcceptPrefixes: []v1alpha1.AcceptedCIDR{"10.0.0.0/8"},
	}}}
	for i := range h.gateways {
		h.gateways[i].load(v1alpha1.GatewayReportStatus{})
	}
	return h
}

// announced is what a gateway of cluster b announces.
func announced(revision int64, prefix v1alpha1.CIDR) v1alpha1.Announcement {
	return v1alpha1.Announcement{Revision: revision, ClusterID: "b", Prefixes: []v1alpha1.CIDR{prefix},
		Gateways: []v1alpha1.AnnouncedGateway{{Name: "a-0", PublicKeys: []v1alpha1.PublicKey{"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="}}}}
}

// receive lets a gateway receive an announcement of a remote one, and the controller merge.
func (h *receivers) receive(gateway int, a v1alpha1.Announcement) error {
	g := &h.gateways[gateway]
	err := g.take(a, h.peering.Status.Announcement, h.now)
	var reported []v1alpha1.Announcement
	for i := range h.gateways {
		if latest := h.gateways[i].latest; latest != nil {
			reported = append(reported, *latest)
		}
	}
	is := peering.Latest(h.peering, peering.HoldersOf("a", nil), reported, h.now).DeepCopy()
	if !reflect.DeepEqual(is, h.peering.Status.Announcement) {
		h.peering.Status.Announcement = is
		h.changes++
	}
	return err
}

// For ten minutes two remote gateways repeat different announcements, as gateways with
// different views of their API server do: one change, then none.
func TestFlapping_TwoRemoteGatewaysWithDifferentViewsChangeThePeeringOnce(t *testing.T) {
	for name, row := range map[string]struct {
		first, second v1alpha1.Announcement // of a-0 and a-1
		want          v1alpha1.CIDR
	}{
		"an older revision":                   {announced(5, "10.5.0.0/16"), announced(4, "10.4.0.0/16"), "10.5.0.0/16"},
		"one revision with different content": {announced(5, "10.5.0.0/16"), announced(5, "10.4.0.0/16"), "10.5.0.0/16"},
		"the same":                            {announced(5, "10.5.0.0/16"), announced(5, "10.5.0.0/16"), "10.5.0.0/16"},
	} {
		h := newReceivers()
		h.peering.Status.Announcement = nil
		for ; h.now.Before(dawn.Add(10 * time.Minute)); h.now = h.now.Add(time.Second) {
			for gateway := range h.gateways {
				switch int(h.now.Sub(dawn).Seconds()) % 7 { // at different times at each
				case 3 * gateway:
					_ = h.receive(gateway, row.first)
				case 3*gateway + 1:
					_ = h.receive(gateway, row.second)
				}
			}
		}
		if is := h.peering.Status.Announcement; h.changes != 1 || is == nil || is.Prefixes[0] != row.want {
			t.Errorf("%s: %d changes, in effect %+v", name, h.changes, is)
		}
	}
}

func TestAnOlderAnnouncementIsAnsweredWithTheRevisionInEffect(t *testing.T) {
	h := newReceivers()
	for i, step := range []struct {
		revision int64
		prefix   v1alpha1.CIDR
		stale    int64 // 0: accepted
	}{
		{57, "10.1.0.0/16", 0}, {57, "10.1.0.0/16", 0}, {58, "10.2.0.0/16", 0},
		{1, "10.3.0.0/16", 58},  // the Peering there was created again
		{59, "10.3.0.0/16", 0},  // its controller continued
		{50, "10.4.0.0/16", 59}, // etcd there was restored
		{59, "10.2.0.0/16", 59}, // the same revision, and content that does not take precedence
	} {
		err := h.receive(i%2, announced(step.revision, step.prefix))
		var stale *control.Stale
		if is := errors.As(err, &stale); is != (step.stale > 0) || is && stale.InEffect != step.stale {
			t.Errorf("step %d: %v, want %d", i, err, step.stale)
		}
	}
	if is := h.peering.Status.Announcement; is.Revision != 59 || is.Prefixes[0] != "10.3.0.0/16" {
		t.Errorf("in effect %+v", is)
	}
}

func TestARemoteClusterIsToldThatItsIDBelongsToAnother(t *testing.T) {
	p := &v1alpha1.Peering{Status: v1alpha1.PeeringStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAnnounced, Reason: peering.ReasonClusterIDTaken, Message: "it is of Peering b"}}}}
	reported := &v1alpha1.Announcement{ClusterID: "b"}
	if err := clusterIDTaken(p, reported, "b"); err == nil || err.Error() != "it is of Peering b" {
		t.Errorf("it is told %v", err)
	}
	for name, err := range map[string]error{
		"the ID that it has now": clusterIDTaken(p, reported, "c"), "the first announcement": clusterIDTaken(p, nil, "b"),
		"an ID of its own": clusterIDTaken(&v1alpha1.Peering{}, reported, "b"),
	} {
		if err != nil {
			t.Errorf("%s: it is told %v", name, err)
		}
	}
}
