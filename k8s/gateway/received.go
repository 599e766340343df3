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
//
// A remote gateway of a release without revisions counts only while no other one sends
// them: during a rolling upgrade of the remote cluster its upgraded gateways count, and
// after a downgrade of all of them the latest announcement counts.
type receivedAnnouncement struct {
	mu      sync.Mutex
	loaded  bool                   // latest and refused are valid: after a start they are those of the last report
	latest  *v1alpha1.Announcement // nil: none was accepted
	refused string                 // why a later one was rejected; empty: none was
	revised map[string]bool        // whether the last announcement of a remote gateway had a revision, by its name
}

// load loads the fields from the last report, once. The caller holds h.mu.
func (h *receivedAnnouncement) load(last v1alpha1.GatewayReportStatus) {
	if !h.loaded {
		h.loaded, h.latest, h.refused, h.revised = true, last.Announcement, last.Refused, make(map[string]bool)
	}
}

// take considers an announcement of a remote gateway that the Peering grants. published is
// the one in the status of the Peering, nil if there is none; up are the remote gateways
// with a link that is up. It returns a *control.Stale if a later one is in effect. The
// caller holds h.mu.
func (h *receivedAnnouncement) take(from string, a v1alpha1.Announcement, published *v1alpha1.Announcement, up []string, now time.Time) error {
	h.revised[from] = a.Revision > 0
	inEffect := h.latest
	if published != nil && (inEffect == nil || peering.Newer(published, inEffect)) {
		inEffect = published
	}
	switch {
	case inEffect == nil || inEffect.Revision == 0:
	case a.Revision == 0 && !h.downgraded(up):
		return nil // understood; another gateway of that cluster announces in its place
	case a.Revision > 0 && peering.Newer(inEffect, &a):
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

// downgraded reports whether all remote gateways with a link that is up last announced
// without a revision.
func (h *receivedAnnouncement) downgraded(up []string) bool {
	for _, gateway := range up {
		if revised, announced := h.revised[gateway]; revised || !announced {
			return false
		}
	}
	return true
}
