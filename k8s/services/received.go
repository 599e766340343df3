package services

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/services/merge"
)

// lease is the time after the last link to a cluster was lost, for which its exports count.
// Their endpoints are not ready meanwhile.
const lease = 5 * time.Minute

type remote struct {
	cluster  string // empty: not known yet, or another Peering has it
	mappings []merge.Mapping
	linkUp   bool
	lost     time.Time // when the last link was lost; zero while one is up, and before the first one
	permits  v1alpha1.PeeringServices
	gateways []netip.Addr // of the pods of gateways with a link, WithoutNodes
}

func (c *Controller) remoteOf(p *v1alpha1.Peering, now time.Time) remote {
	r := remote{cluster: string(p.Status.ClusterID), permits: p.Spec.Services, mappings: merge.Granted(p.Status.Prefixes, peering.RemoteOf(p, now).Prefixes)}
	r.linkUp = slices.ContainsFunc(p.Status.Gateways, func(g v1alpha1.GatewayStatus) bool { return g.LinkUp })
	if up := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTunnelUp); !r.linkUp && up != nil && up.Status != metav1.ConditionTrue {
		r.lost = up.LastTransitionTime.Time
	}
	if c.WithoutNodes {
		r.gateways = gatewayAddresses(p)
	}
	return r
}

// remotes returns the exports of remote clusters that count, and records the verdicts on the
// others. Gateways write ReceivedServices, so everything in them is untrusted.
func (r *reconciliation) remotes(ctx context.Context) (all []source, failed error) {
	received := r.indexed(byService, r.String())
	slices.SortFunc(received, func(a, b *v1alpha1.ReceivedService) int { return cmp.Compare(a.Name, b.Name) })
	for _, object := range received {
		one, of, refused := r.remoteSource(object)
		if refused == "" && slices.ContainsFunc(all, func(other source) bool { return other.Cluster == one.Cluster }) {
			refused = fmt.Sprintf("another Peering with cluster %s has it too", one.Cluster)
		}
		if r.WithoutNodes {
			ports, note, err := r.planPorts(ctx, object, refused != "")
			failed = cmp.Or(failed, err)
			one.note = joined(one.note, note)
			if refused == "" {
				one.groups = viaGateways(of, one.Record, one.groups, ports)
			}
		}
		if refused == "" {
			all = append(all, one)
		}
		if _, ok := r.Peerings.Get(object.Spec.Peering); ok {
			r.verdicts[object.Spec.Peering] = verdict{imported: refused == "", message: cmp.Or(refused, one.note)}
		}
	}
	return all, failed
}

// remoteSource returns the export of a remote cluster, or why it is refused.
func (r *reconciliation) remoteSource(object *v1alpha1.ReceivedService) (one source, of remote, refused string) {
	s := &object.Spec.Service
	p, ok := r.Peerings.Get(object.Spec.Peering)
	if !ok || !belongs(object, p) {
		return one, of, "it belongs to no Peering"
	}
	of = r.remoteOf(p, r.now)
	switch {
	case of.cluster == "":
		return one, of, "the ID of the remote cluster is not known yet or refused; see the condition Announced of the Peering"
	case of.cluster == r.cluster.id:
		return one, of, fmt.Sprintf("the remote cluster has the ID of this cluster, %s", of.cluster)
	}
	if refused := r.namespaceRefused(of.permits, s.Namespace); refused != "" {
		return one, of, refused
	}
	if s.Type == tooLarge {
		return one, of, "it is larger than a record may be"
	}
	if err := merge.Check(s); err != nil {
		return one, of, err.Error()
	}
	if refused := r.quotas.refused(r.work, object, of.permits); refused != "" {
		return one, of, refused
	}
	if !of.linkUp && !of.lost.IsZero() {
		left := lease - r.now.Sub(of.lost)
		if left <= 0 {
			return one, of, fmt.Sprintf("no link to cluster %s has been up for %v", of.cluster, lease)
		}
		r.queue.AddAfter(r.key, left)
	}
	groups, outside := merge.Remote(of.cluster, s, of.mappings, of.linkUp)
	if outside > 0 && outside == merge.Endpoints(s) {
		return one, of, "its endpoints have addresses outside of the prefixes of the remote cluster"
	}
	if outside > 0 {
		one.note = fmt.Sprintf("%d of its endpoints have addresses outside of the prefixes of the remote cluster", outside)
	}
	record := *s
	record.Labels, record.Annotations = merge.Exported(s.Labels, true), merge.Exported(s.Annotations, false)
	// The remote cluster chooses ExportedAt. An older export decides conflicts, so it is not
	// older than the object, which is deleted when the export ends.
	if seen := object.CreationTimestamp; record.ExportedAt.Before(&seen) {
		record.ExportedAt = seen
	}
	allowed := of.permits.AllowedMetadata
	one.Export = merge.Export{Cluster: of.cluster, Record: &record, Labels: merge.Allowed(record.Labels, allowed), Annotations: merge.Allowed(record.Annotations, allowed)}
	one.groups, one.peering = groups, p.Name
	return one, of, ""
}

// belongs reports whether a ReceivedService is of a Peering, and not of one of that name that
// was deleted.
func belongs(object *v1alpha1.ReceivedService, p *v1alpha1.Peering) bool {
	s := &object.Spec.Service
	return p.DeletionTimestamp == nil && object.Name == s.Name+"."+s.Namespace+"."+object.Spec.Peering &&
		slices.ContainsFunc(object.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID })
}

func (r *reconciliation) namespaceRefused(permits v1alpha1.PeeringServices, name string) string {
	switch permits.ImportFrom {
	case "", v1alpha1.ImportExisting:
	case v1alpha1.ImportListed:
		if !slices.Contains(permits.Namespaces, name) {
			return fmt.Sprintf("namespace %s is not in spec.services.namespaces of the Peering", name)
		}
	default:
		return "spec.services.importFrom of the Peering is None"
	}
	if !r.namespaceExists(name) {
		return fmt.Sprintf("namespace %s does not exist", name)
	}
	return ""
}

func (r *reconciliation) namespaceExists(name string) bool {
	n, ok := r.namespaces.Get(name)
	return ok && n.DeletionTimestamp == nil
}
