package controller

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
)

// peeringConditions are those of a peering, in the order in which things have to become
// true. None depends on measurements that change all the time, nor repeats them.
var peeringConditions = []string{
	v1alpha1.ConditionAnnounced, v1alpha1.ConditionCIDRConflict, v1alpha1.ConditionTunnelUp,
	v1alpha1.ConditionRouted, v1alpha1.ConditionPathMTU, v1alpha1.ConditionReady,
}

// conditions sets all conditions of a status that is complete otherwise.
func (r *report) conditions(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus, conflict metav1.Condition, problem string) {
	set := func(kind string, c metav1.Condition) {
		c.Type, c.ObservedGeneration, c.LastTransitionTime = kind, peering.Generation, metav1.Time{Time: r.now.Truncate(1e9)}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	set(v1alpha1.ConditionAnnounced, r.announced(peering))
	set(v1alpha1.ConditionCIDRConflict, conflict)
	set(v1alpha1.ConditionTunnelUp, r.tunnelUp(peering, s))
	set(v1alpha1.ConditionRouted, r.routed(peering, s))
	set(v1alpha1.ConditionPathMTU, r.pathMTU(peering, s))
	set(v1alpha1.ConditionReady, r.allReady(peering, s, problem))
}

func condition(status metav1.ConditionStatus, reason, message string, arguments ...any) metav1.Condition {
	return metav1.Condition{Status: status, Reason: reason, Message: client.Clip(fmt.Sprintf(message, arguments...), maxMessage)}
}

// allReady is the condition Ready: the first thing that is missing.
func (r *report) allReady(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus, problem string) metav1.Condition {
	missing := r.missing(peering, s)
	switch {
	case missing != nil && problem != "":
		return condition(metav1.ConditionFalse, "GatewaysNotMade", "%s", problem)
	case missing != nil:
		return *missing
	case problem != "":
		return condition(metav1.ConditionTrue, "Works", "packets cross, but %s", problem)
	}
	get := func(kind string) string { return meta.FindStatusCondition(s.Conditions, kind).Message }
	return condition(metav1.ConditionTrue, "Works", "packets cross: %s; %s", get(v1alpha1.ConditionTunnelUp), get(v1alpha1.ConditionRouted))
}

// missing is what keeps a peering from being ready, nil if nothing does.
func (r *report) missing(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus) *metav1.Condition {
	names := gatewayNames(peering)
	if !slices.ContainsFunc(names, func(name string) bool { return r.ready[name] }) {
		c := condition(metav1.ConditionFalse, "NoGatewayReady", "%s", r.notReady(names))
		return &c
	}
	for _, kind := range peeringConditions[:len(peeringConditions)-1] {
		is := meta.FindStatusCondition(s.Conditions, kind)
		wanted := is.Status == metav1.ConditionTrue
		switch kind {
		case v1alpha1.ConditionAnnounced:
			wanted = is.Status != metav1.ConditionFalse // what the spec says is enough
		case v1alpha1.ConditionCIDRConflict:
			wanted = is.Status == metav1.ConditionFalse
		}
		if !wanted {
			c := condition(metav1.ConditionFalse, is.Reason, "%s", is.Message)
			return &c
		}
	}
	return nil
}

// notReady says why no gateway is ready, with the remedy.
func (r *report) notReady(names []string) string {
	for _, pod := range r.pods {
		if slices.Contains(names, pod.Name) {
			return fmt.Sprintf("the pod of gateway %s is not ready; see `kubectl describe pod %s --namespace %s` and its log", pod.Name, pod.Name, pod.Namespace)
		}
	}
	return fmt.Sprintf("gateway %s has no pod yet; if it stays away, see `kubectl describe statefulset` in the namespace of the gateways", names[0])
}

// announced says whether what the clusters said of themselves was granted, on both sides.
func (r *report) announced(p *v1alpha1.Peering) metav1.Condition {
	const remedy = "grant it here, in spec.acceptPrefixes, or change it there"
	var refused []string
	skew := ""
	for i := range p.Status.Announcements {
		a := &p.Status.Announcements[i]
		if !slices.Contains(gatewayNames(p), a.HeardBy) {
			continue // it says no more
		}
		if a.Skew != "" {
			skew = fmt.Sprintf("gateway %s and the remote cluster cannot tell each other what changes: %s, and install the same version of Strait in both clusters", a.HeardBy, a.Skew)
		}
		if a.Refused != "" {
			refused = append(refused, fmt.Sprintf("gateway %s refused what the remote cluster announced: %s; %s", a.HeardBy, a.Refused, remedy))
		} else if a.HeardAt != nil && !a.HeardAt.Time.Before(r.remotes[p.Name].HeardAt) {
			if err := peering.Refusal(p, r.network.clusterID, a); err != nil {
				refused = append(refused, fmt.Sprintf("what the remote cluster announced is not granted any more: %v; %s", err, remedy))
			}
		}
		if a.Refusal != "" {
			refused = append(refused, fmt.Sprintf("the remote cluster refused what gateway %s announced: %s; grant it there, or announce less, in spec.localPrefixes and spec.localPods", a.HeardBy, a.Refusal))
		}
	}
	slices.Sort(refused)
	refused = slices.Compact(refused)
	switch {
	case skew != "":
		return condition(metav1.ConditionFalse, "VersionSkew", "%s", skew)
	case len(refused) > 0:
		return condition(metav1.ConditionFalse, "Refused", "%s", strings.Join(refused, ". "))
	case r.remotes[p.Name].Announced:
		return condition(metav1.ConditionTrue, "AsGranted", "what the remote cluster announced is granted and in force")
	}
	return condition(metav1.ConditionUnknown, "NotHeard", "the remote cluster has not announced itself yet; until then the spec is in force")
}

// maxMessage is the length of a condition's message that the API server takes, in bytes.
const maxMessage = 32768
