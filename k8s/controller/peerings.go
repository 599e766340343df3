package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/condition"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/services"
)

// report updates the status of each peering. gateways are the states of the gateways'
// workloads by the names of peerings. An error for one peering does not affect others.
func (c *controller) report(ctx context.Context, p *plan, pods gatewayPods, inForce []claims.Spec, gateways map[string]workloadState) error {
	r := newReport(p, pods, inForce, c.services.List(), c.attachments.List())
	r.published, _ = c.networks.Get(v1alpha1.ClusterNetworkName)
	r.multicluster = c.multicluster
	var failed []error
	for _, peering := range p.peerings {
		status := r.status(peering, gateways[peering.Name])
		is, ok := c.peerings.Get(peering.Name)
		if ok {
			c.pacing.receiver(peering, &is.Status, &status, p.now)
		}
		if ok && is.ResourceVersion == peering.ResourceVersion && reflect.DeepEqual(status, is.Status) {
			continue
		}
		if ok && !c.pacing.status(peering, &is.Status, &status, p.now) {
			continue
		}
		// What gateways reported earlier is read from the status, so that it must not be
		// replaced by an older one.
		_, err := c.client.Peerings().ApplyStatus(ctx, &v1alpha1.Peering{
			ObjectMeta: metav1.ObjectMeta{Name: peering.Name, UID: peering.UID, ResourceVersion: peering.ResourceVersion}, Status: status,
		}, Manager)
		switch {
		case err == nil:
			c.tell(p.now, allocation.KindPeering, peering, peering.Status.Conditions, status.Conditions, &c.pacing.of(peering).events)
		case apierrors.IsConflict(err):
			c.wakeUp() // the cache will follow
		case !apierrors.IsNotFound(err):
			failed = append(failed, fmt.Errorf("status of Peering %s: %w", peering.Name, err))
		}
	}
	return errors.Join(failed...)
}

// report is the input from which the statuses of all peerings are computed, without side
// effects.
type report struct {
	*plan
	inForce      []claims.Spec
	granted      map[v1alpha1.ClaimOwner]grantedAddresses
	pods         gatewayPods
	exposing     []*corev1.Service        // Services of gateways
	multicluster *services.Controller     // nil: Services are neither exported nor imported
	published    *v1alpha1.ClusterNetwork // nil: there is none yet
	routes       map[string]*routes
	attached     int                          // nodes
	conflicts    map[v1alpha1.CIDR]*conflicts // by mapped CIDR
}

func newReport(p *plan, pods gatewayPods, inForce []claims.Spec, exposing []*corev1.Service, attachments []*v1alpha1.NodeAttachment) *report {
	r := &report{plan: p, inForce: inForce, granted: addressesByOwner(p.network, inForce), pods: pods, exposing: exposing}
	up := make(map[string]string)
	for _, peering := range p.peerings {
		for _, g := range peering.Status.Gateways {
			if g.LinkUp {
				up[g.Name] = peering.Name
			}
		}
	}
	r.routes, r.attached, r.conflicts = routesTo(up, attachments), len(attachments), conflictsByCIDR(attachments)
	return r
}

func (r *report) status(peering *v1alpha1.Peering, gateways workloadState) v1alpha1.PeeringStatus {
	remote, seen := r.remotes[peering.Name], r.seen(peering.Name)
	s := v1alpha1.PeeringStatus{
		ObservedGeneration: peering.Generation,
		ClusterID:          peering.Status.ClusterID,
		Prefixes:           seenPrefixes(remote.Prefixes, seen),
		ExternalPrefixes:   seenPrefixes(remote.ExternalPrefixes, seen),
		Announcement:       peering.Status.Announcement,
		MTU:                r.mtu(peering),
		Conditions:         condition.Own(peering.Status.Conditions, peeringConditions...),
	}
	if r.balancer.Serves(peering.Spec.Gateway.Service) {
		s.LoadBalancer = r.balancer.Scheme
	}
	var remotes, seenAs []string
	for _, prefix := range s.Prefixes {
		remotes, seenAs = append(remotes, string(prefix.CIDR)), append(seenAs, string(prefix.SeenAs))
	}
	s.Summary.RemoteCIDRs, s.Summary.SeenAs = strings.Join(remotes, ","), strings.Join(seenAs, ",")
	if calls := remote.Calls(); len(calls) > 0 {
		s.Summary.Endpoint = calls[0]
	}
	for _, g := range peering.Status.Gateways {
		g.Number, g.InternalAddresses, g.ExternalAddresses, g.Endpoints = 0, nil, nil, nil
		if addresses := r.granted[v1alpha1.ClaimOwner{Kind: allocation.KindGateway, Name: g.Name}]; len(addresses.internal) > 0 {
			g.Number, g.InternalAddresses, g.ExternalAddresses = allocation.GatewayNumber(addresses.internal[0]), cidrs.IPs(addresses.internal), cidrs.IPs(addresses.external)
			g.Endpoints = workload.EndpointsOf(peering, g.Name, r.exposing, workload.Forwarding(r.helpers, r.nodes, g.Node), g.Node)
		}
		if g.Number != 0 || g.PublicKey != "" || len(g.PodAddresses) > 0 {
			s.Gateways = append(s.Gateways, g)
		}
	}
	s.Services = r.services(peering)
	s.Announced = r.announce(peering, s.Gateways)
	conflict := conflictOf(peering, r.plan, seen)
	conflict.Type = v1alpha1.ConditionCIDRConflict
	r.conditions(peering, &s, conflict, gateways)
	return s
}

// announce returns what this cluster announces to the remote cluster of a peering with these
// gateways.
func (r *report) announce(p *v1alpha1.Peering, gateways []v1alpha1.GatewayStatus) *v1alpha1.Announcement {
	last := p.Status.Announced
	if r.published == nil || r.published.Status.ClusterID == "" {
		return last
	}
	p = p.DeepCopy()
	p.Status.Gateways = gateways
	a := peering.Announce(p, r.published)
	if len(a.Gateways) == 0 {
		return last // no gateway has a key yet
	}
	return peering.Issue(a, last, r.pods.revisionInEffect(p))
}

func (r *report) seen(peering string) map[v1alpha1.CIDR]v1alpha1.CIDR {
	owner := v1alpha1.ClaimOwner{Kind: allocation.KindPeering, Name: peering}
	seen := make(map[v1alpha1.CIDR]v1alpha1.CIDR)
	for _, spec := range r.inForce {
		if spec.Owner == owner && spec.Pool == v1alpha1.PoolRemap && spec.For != "" {
			seen[spec.For] = spec.Prefix
		}
	}
	return seen
}

func (r *report) mtu(peering *v1alpha1.Peering) (smallest int32) {
	for _, g := range peering.Status.Gateways {
		if r.pods.ready(g.Name) && g.MTU > 0 && (smallest == 0 || g.MTU < smallest) {
			smallest = g.MTU
		}
	}
	return smallest
}

// conflictOf returns the condition CIDRConflict: whether a CIDR of the peering is in use in
// this cluster and cannot be mapped.
func conflictOf(peering *v1alpha1.Peering, p *plan, seen map[v1alpha1.CIDR]v1alpha1.CIDR) metav1.Condition {
	condition := metav1.Condition{Status: metav1.ConditionFalse, Reason: "NoConflict", Message: "the remote CIDRs are free in this cluster"}
	var unseen, moved []string
	for _, one := range p.views[peering.Name] {
		switch seenAs, ok := seen[one.CIDR]; {
		case !ok && one.Claim != (claims.Spec{}):
			unseen = append(unseen, fmt.Sprintf("%s is waiting for AddressClaims in use to be released", one.CIDR))
		case !ok:
			unseen = append(unseen, fmt.Sprintf("%s is not mapped: %s; set its seenAs to a free CIDR, or remove seenAs and extend spec.remapPools of ClusterNetwork %s",
				one.CIDR, one.Reason, v1alpha1.ClusterNetworkName))
		case one.Moved:
			moved = append(moved, fmt.Sprintf("%s is mapped to %s: %s", one.CIDR, seenAs, one.Reason))
		}
	}
	was := meta.FindStatusCondition(peering.Status.Conditions, v1alpha1.ConditionCIDRConflict)
	switch {
	case p.network.Problem != "" && was != nil && len(seen) == len(p.remotes[peering.Name].Ranges()):
		condition = *was // existing mappings are kept
	case p.network.Problem != "":
		condition.Status, condition.Reason = metav1.ConditionUnknown, "ClusterNetworkNotReady"
		condition.Message = fmt.Sprintf("ClusterNetwork %s is not ready: %s", v1alpha1.ClusterNetworkName, p.network.Problem)
	case len(unseen) > 0:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "NotMapped", strings.Join(unseen, "; ")
	case len(moved) > 0:
		condition.Reason, condition.Message = "Remapped", strings.Join(moved, "; ")
	}
	return condition
}

func seenPrefixes(prefixes v1alpha1.RemotePrefixes, seen map[v1alpha1.CIDR]v1alpha1.CIDR) (all []v1alpha1.SeenPrefix) {
	for _, p := range prefixes {
		if seenAs, ok := seen[p.CIDR]; ok {
			all = append(all, v1alpha1.SeenPrefix{CIDR: p.CIDR, SeenAs: seenAs})
		}
	}
	return all
}

// publishedPrefixes returns all addresses and CIDRs that the status of a peering publishes.
func publishedPrefixes(peering *v1alpha1.Peering) (used []netip.Prefix) {
	for _, p := range slices.Concat(peering.Status.Prefixes, peering.Status.ExternalPrefixes) {
		if seenAs, err := netip.ParsePrefix(string(p.SeenAs)); err == nil {
			used = append(used, seenAs)
		}
	}
	for _, g := range peering.Status.Gateways {
		for _, a := range slices.Concat(cidrs.Addrs(g.InternalAddresses), cidrs.Addrs(g.ExternalAddresses)) {
			used = append(used, cidrs.Single(a))
		}
	}
	return used
}

func (r *report) services(p *v1alpha1.Peering) *v1alpha1.PeeringServicesStatus {
	if r.multicluster == nil {
		return nil
	}
	is := v1alpha1.PeeringServicesStatus{}
	if was := p.Status.Services; was != nil {
		is = *was
	}
	is.Receiver = receiver(p.Status.Gateways, is.Receiver)
	if summary, known := r.multicluster.Summary(p.Name); known {
		is.Imported, is.Refused, is.Failed, is.Message = summary.Imported, summary.Refused, summary.Failed, summary.Message
	}
	return &is
}

// receiver returns the gateway that receives the exports of the remote cluster: the same one
// as before while it has a link that is up, otherwise the first one that has. Empty: none has.
func receiver(gateways []v1alpha1.GatewayStatus, was string) string {
	linked := func(g v1alpha1.GatewayStatus) bool { return g.LinkUp }
	if slices.ContainsFunc(gateways, func(g v1alpha1.GatewayStatus) bool { return g.Name == was && linked(g) }) {
		return was
	}
	if i := slices.IndexFunc(gateways, linked); i >= 0 {
		return gateways[i].Name
	}
	return ""
}
