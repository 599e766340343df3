package peering

import (
	"slices"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// clockSkew is how far the clock of a gateway may be ahead of the controller's.
const clockSkew = time.Minute

// Latest returns the announcement that counts: of the one in the status of the Peering and
// those that its gateways report, by the names of the gateways, the latest that the spec
// grants. It is nil if there is none. own is this cluster's ID. The result does not depend
// on the order of the reports. A report of the future does not count: it would outlive the
// gateway that made it.
func Latest(p *v1alpha1.Peering, own v1alpha1.ClusterID, reported []v1alpha1.Announcement, now time.Time) *v1alpha1.Announcement {
	latest := p.Status.Announcement
	granted := latest != nil && latest.HeardAt != nil && Refusal(p, own, latest) == nil
	for i := range reported {
		a := &reported[i]
		if a.HeardAt == nil || a.HeardAt.After(now.Add(clockSkew)) || Refusal(p, own, a) != nil {
			continue
		}
		if !granted || latest.HeardAt.Before(a.HeardAt) {
			latest, granted = a, true
		}
	}
	return latest
}

// Reports returns the reports of a Peering's gateways, by ordinal.
func Reports(p *v1alpha1.Peering, all []v1alpha1.GatewayReport) (own []v1alpha1.GatewayReport) {
	for _, name := range GatewayNames(p) {
		if i := slices.IndexFunc(all, func(r v1alpha1.GatewayReport) bool { return r.Name == name }); i >= 0 {
			own = append(own, all[i])
		}
	}
	return own
}
