package gateway

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// receivedAnnouncement is what the remote cluster announced to this gateway. The highest
// revision counts, from whichever remote gateway it comes, and clocks decide nothing.
type receivedAnnouncement struct {
	mu      sync.Mutex
	loaded  bool                   // latest and refused are valid: after a start they are those of the last report
	latest  *v1alpha1.Announcement // nil: none was accepted
	refused string                 // why a later one was rejected; empty: none was
}

// load loads the fields from the last report, once. The caller holds h.mu.
func (h *receivedAnnouncement) load(last v1alpha1.GatewayReportStatus) {
	if !h.loaded {
		h.loaded, h.latest, h.refused = true, last.Announcement, last.Refused
	}
}

// take considers an announcement that the Peering grants. published is the one in the status of
// the Peering, nil if there is none. It returns a *control.Stale if a later one is in effect. The
// caller holds h.mu.
func (h *receivedAnnouncement) take(a v1alpha1.Announcement, published *v1alpha1.Announcement, now time.Time) error {
	inEffect := h.latest
	if published != nil && (inEffect == nil || peering.Newer(published, inEffect)) {
		inEffect = published
	}
	if inEffect != nil && peering.Newer(inEffect, &a) {
		return &control.Stale{InEffect: inEffect.Revision}
	}
	at := metav1.NewMicroTime(now.Truncate(time.Microsecond))
	a.HeardAt = &at
	for _, was := range []*v1alpha1.Announcement{published, h.latest} {
		if was != nil && sameAnnouncement(a, *was) {
			a.HeardAt = was.HeardAt
		}
	}
	h.latest, h.refused = &a, ""
	return nil
}

// clusterIDTaken returns why the controller, which knows all Peerings, refuses the cluster ID
// of an announcement; nil if it does not, or not yet. reported is the announcement that the
// gateway reported before, nil if there was none: the verdict is about its ID.
func clusterIDTaken(p *v1alpha1.Peering, reported *v1alpha1.Announcement, id v1alpha1.ClusterID) error {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionAnnounced)
	if c == nil || c.Reason != peering.ReasonClusterIDTaken || reported == nil || reported.ClusterID != id {
		return nil
	}
	return errors.New(c.Message)
}
