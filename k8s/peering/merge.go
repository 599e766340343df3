package peering

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Latest returns the announcement that counts: of the one in the status of the Peering and
// those that its gateways report, the newest that the spec grants. It is nil if there is
// none, or only one with a cluster ID of another holder. A report of the future counts as one
// of now, whichever clock is wrong: otherwise it would outlive the gateway that made it.
func Latest(p *v1alpha1.Peering, holders Holders, reported []v1alpha1.Announcement, now time.Time) *v1alpha1.Announcement {
	granted := func(a *v1alpha1.Announcement) bool {
		return a.HeardAt != nil && Refusal(p, holders, a) == nil
	}
	var best *v1alpha1.Announcement // of the reports
	for _, a := range reported {
		if a.HeardAt != nil && a.HeardAt.After(now) {
			at := metav1.NewMicroTime(now.Truncate(time.Microsecond))
			a.HeardAt = &at
		}
		if granted(&a) && (best == nil || Newer(&a, best)) {
			best = &a
		}
	}
	is := p.Status.Announcement
	if is != nil && holders.Refuse(p, is.ClusterID) != nil {
		is = nil
	}
	switch {
	case best == nil:
		return is
	case is == nil || !granted(is) || Newer(best, is):
		return best
	}
	return is
}

// Newer reports whether an announcement takes precedence over another: the one with the
// higher revision. Of the same revision with different content, which a controller never
// issues, the same one of the two takes precedence everywhere. With the same content, the
// one that was received later takes precedence if another spec has superseded other keys
// since.
func Newer(a, b *v1alpha1.Announcement) bool {
	if a.Revision != b.Revision {
		return a.Revision > b.Revision
	}
	if order := bytes.Compare(content(a), content(b)); order != 0 {
		return order > 0
	}
	return !slices.Equal(a.Superseded, b.Superseded) && b.HeardAt.Before(a.HeardAt)
}

func content(a *v1alpha1.Announcement) []byte {
	bare := v1alpha1.Announcement{Offload: a.Offload, ClusterID: a.ClusterID, Prefixes: a.Prefixes, ExternalPrefixes: a.ExternalPrefixes, Gateways: a.Gateways}
	text, err := json.Marshal(bare)
	if err != nil {
		panic(err) // plain data can be encoded
	}
	return text
}

// maxRevision is the highest revision, as in the API and in package control.
const maxRevision = 1 << 62

// maxStep is how far a revision follows the remote cluster at once: neither a compromised
// gateway nor the remote cluster can use up all revisions.
const maxStep = 1 << 32

// Issue returns the announcement of a cluster with its revision. last is the one that was
// issued before, nil if there is none; inEffect is the revision that the remote cluster has
// in effect according to the gateways, 0 if it accepts the last one. The same content keeps
// its revision, unless the remote cluster rejects it as old: after etcd was restored from a
// backup, or the Peering was created again.
func Issue(a v1alpha1.Announcement, last *v1alpha1.Announcement, inEffect int64) *v1alpha1.Announcement {
	var revision int64
	if last != nil {
		revision = last.Revision
	}
	if last != nil && bytes.Equal(content(&a), content(last)) && inEffect < revision {
		return last
	}
	a.Revision = min(max(revision, min(inEffect, revision+maxStep))+1, maxRevision)
	return &a
}

// Reports returns the reports of a Peering's gateways: of those of its spec, by ordinal, and
// of others in its status, which are temporary or being removed.
func Reports(p *v1alpha1.Peering, all []v1alpha1.GatewayReport) (own []v1alpha1.GatewayReport) {
	names := GatewayNames(p)
	for _, g := range p.Status.Gateways {
		if !slices.Contains(names, g.Name) {
			names = append(names, g.Name)
		}
	}
	for _, name := range names {
		if i := slices.IndexFunc(all, func(r v1alpha1.GatewayReport) bool { return r.Name == name }); i >= 0 {
			own = append(own, all[i])
		}
	}
	return own
}
