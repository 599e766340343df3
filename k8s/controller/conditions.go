package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/condition"
	"strait.dev/strait/k8s/peering"
)

// readyConditions are the conditions that a ready peering needs, in the order in which they
// have to become true. None depends on or repeats continuously changing measurements.
var readyConditions = []string{
	v1alpha1.ConditionAnnounced, v1alpha1.ConditionCIDRConflict, v1alpha1.ConditionTunnelUp,
	v1alpha1.ConditionRouted, v1alpha1.ConditionPathMTU,
}

var peeringConditions = append(slices.Clone(readyConditions), v1alpha1.ConditionReady, v1alpha1.ConditionGatewaysUp, v1alpha1.ConditionGatewaysUpdated)

func (r *report) conditions(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus, conflict metav1.Condition, gateways workloadState) {
	set := func(kind string, c metav1.Condition) {
		c.Type, c.ObservedGeneration, c.LastTransitionTime = kind, peering.Generation, metav1.Time{Time: r.now.Truncate(1e9)}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	set(v1alpha1.ConditionAnnounced, r.announced(peering))
	set(v1alpha1.ConditionCIDRConflict, conflict)
	set(v1alpha1.ConditionTunnelUp, r.tunnelUp(peering, s))
	set(v1alpha1.ConditionRouted, r.routed(peering, s))
	set(v1alpha1.ConditionPathMTU, r.pathMTU(peering, s))
	set(v1alpha1.ConditionReady, r.allReady(peering, s, gateways.problem))
	set(v1alpha1.ConditionGatewaysUp, r.gatewaysUp(peering))
	set(v1alpha1.ConditionGatewaysUpdated, gateways.updated)
}

// allReady returns the condition Ready, which reports the first missing condition.
func (r *report) allReady(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus, problem string) metav1.Condition {
	missing := r.missing(peering, s)
	switch {
	case missing != nil && problem != "":
		return condition.New(metav1.ConditionFalse, "GatewaysNotCreated", "%s", problem)
	case missing != nil:
		return *missing
	case problem != "":
		return condition.New(metav1.ConditionTrue, "Healthy", "packets pass, but %s", problem)
	}
	get := func(kind string) string { return meta.FindStatusCondition(s.Conditions, kind).Message }
	return condition.New(metav1.ConditionTrue, "Healthy", "packets pass: %s; %s", get(v1alpha1.ConditionTunnelUp), get(v1alpha1.ConditionRouted))
}

// missing returns the first condition that keeps a peering from being ready, nil if there
// is none.
func (r *report) missing(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus) *metav1.Condition {
	if !slices.ContainsFunc(known(peering), r.pods.ready) {
		c := condition.New(metav1.ConditionFalse, "NoGatewayReady", "%s", r.notReady(gatewayNames(peering)))
		return &c
	}
	for _, kind := range readyConditions {
		is := meta.FindStatusCondition(s.Conditions, kind)
		wanted := is.Status == metav1.ConditionTrue
		switch kind {
		case v1alpha1.ConditionAnnounced:
			wanted = is.Status != metav1.ConditionFalse // the spec is sufficient
		case v1alpha1.ConditionCIDRConflict:
			wanted = is.Status == metav1.ConditionFalse
		}
		if !wanted {
			c := condition.New(metav1.ConditionFalse, is.Reason, "%s", is.Message)
			return &c
		}
	}
	return nil
}

func (r *report) notReady(names []string) string {
	for _, name := range names {
		if pod, ok := r.pods[name]; ok {
			return fmt.Sprintf("the pod of gateway %s is not ready; run `kubectl describe pod %s --namespace %s` and check its log", pod.Name, pod.Name, pod.Namespace)
		}
	}
	return fmt.Sprintf("gateway %s has no pod yet; if this persists, run `kubectl describe statefulset` in the namespace of the gateways", names[0])
}

// announced returns the condition Announced: whether the announcements of both clusters
// were accepted.
func (r *report) announced(p *v1alpha1.Peering) metav1.Condition {
	const remedy = "grant it in spec.acceptPrefixes of this Peering, or change it in the remote cluster"
	var refused []string
	var taken *peering.ClusterIDTakenError
	errors.As(r.holders.Refuse(p, p.Spec.ClusterID), &taken)
	skew := ""
	effective := p.Status.Announcement
	noLongerGranted := func(a *v1alpha1.Announcement) {
		if err := peering.Refusal(p, r.holders, a); err != nil && !errors.As(err, &taken) {
			refused = append(refused, fmt.Sprintf("the announcement of the remote cluster is no longer granted: %v; %s", err, remedy))
		}
	}
	if effective != nil {
		noLongerGranted(effective)
	}
	for _, name := range known(p) {
		report := r.pods[name].report
		if report == nil {
			continue
		}
		if report.Skew != "" {
			skew = fmt.Sprintf("gateway %s and the remote cluster cannot exchange announcements: %s; install the same version of Strait in both clusters", name, report.Skew)
		}
		if report.Refused != "" {
			refused = append(refused, fmt.Sprintf("gateway %s rejected the announcement of the remote cluster: %s; %s", name, report.Refused, remedy))
		} else if a := report.Announcement; a != nil && (effective == nil || peering.Newer(a, effective)) {
			noLongerGranted(a)
		}
		if report.Refusal != "" {
			refused = append(refused, fmt.Sprintf("the remote cluster rejected the announcement of gateway %s: %s; grant it in the remote cluster, or announce less with spec.localPrefixes and spec.localPods", name, report.Refusal))
		}
	}
	slices.Sort(refused)
	refused = slices.Compact(refused)
	switch {
	case taken != nil:
		return condition.New(metav1.ConditionFalse, peering.ReasonClusterIDTaken, "%v, so announcements with this ID are refused here; if the two are different clusters, set a unique spec.clusterID in the ClusterNetwork of each; otherwise delete the Peering that is wrong", taken)
	case skew != "":
		return condition.New(metav1.ConditionFalse, "VersionSkew", "%s", skew)
	case len(refused) > 0:
		return condition.New(metav1.ConditionFalse, "Refused", "%s", strings.Join(refused, ". "))
	case r.remotes[p.Name].Announced:
		return condition.New(metav1.ConditionTrue, "Granted", "the announcement of the remote cluster is granted and in effect")
	}
	return condition.New(metav1.ConditionUnknown, "NotAnnounced", "the remote cluster has not announced itself yet; until then the spec is in effect")
}

// gatewaysUp returns the condition GatewaysUp: whether all gateways of the spec have a link,
// and why the others do not. Its reason is that of the first one.
func (r *report) gatewaysUp(p *v1alpha1.Peering) metav1.Condition {
	names := gatewayNames(p)
	var reason string
	var down []string
	for _, name := range names {
		why, text := r.notForwarding(name)
		if why == "" {
			continue
		}
		if reason == "" {
			reason = why
		}
		down = append(down, fmt.Sprintf("gateway %s %s", name, text))
	}
	text := fmt.Sprintf("%d of %d gateways have a link", len(names)-len(down), len(names))
	if len(down) == 0 {
		return condition.New(metav1.ConditionTrue, "AllUp", "%s", text)
	}
	return condition.New(metav1.ConditionFalse, reason, "%s: %s", text, strings.Join(down, "; "))
}

// notForwarding returns why a gateway has no link, as a reason and a predicate, empty if it has
// one.
func (r *report) notForwarding(name string) (reason, text string) {
	pod, ok := r.pods[name]
	if !ok {
		return "NoPod", "has no pod yet; if this persists, run `kubectl describe statefulset` in the namespace of the gateways"
	}
	switch {
	case pod.linkUp():
		return "", ""
	case pod.DeletionTimestamp != nil:
		return "Ending", fmt.Sprintf("ends on node %s", pod.Spec.NodeName)
	case unschedulable(pod.Pod):
		return v1alpha1.ReasonUnschedulable, fmt.Sprintf("has no node: %s; set spec.gateway.replicas to a number that the nodes have room for, or add nodes",
			podCondition(pod.Pod, corev1.PodScheduled).Message)
	case !podRuns(pod.Pod):
		return "NotRunning", fmt.Sprintf("is not ready; run `kubectl describe pod %s --namespace %s` and check its log", name, pod.Namespace)
	}
	return "NoLink", "has no link; check its log and TunnelUp"
}

func unschedulable(pod *corev1.Pod) bool {
	scheduled := podCondition(pod, corev1.PodScheduled)
	return scheduled != nil && scheduled.Status == corev1.ConditionFalse
}
