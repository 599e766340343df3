package controller

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/peering"
)

const (
	gateInterval = time.Second      // how often closed gates are checked
	gateTimeout  = 10 * time.Second // of one request

	// replacementTimeout is the time for which a pod that is not part of a rollout waits for
	// a link, so that a drain waits for it. A remote cluster that is away must not block
	// drains for longer.
	replacementTimeout = time.Minute
)

// tendPods opens the readiness gates of gateways' pods, and deletes the pods of lost nodes,
// until ctx ends. It runs beside passes, which may take minutes in a large cluster.
func (c *controller) tendPods(ctx context.Context) {
	for ctx.Err() == nil {
		for _, peering := range c.peerings.List() {
			pods := c.gatewayPods([]*v1alpha1.Peering{peering})
			c.openGates(ctx, peering, pods)
			c.deleteLost(ctx, pods)
		}
		sleep(ctx, gateInterval)
	}
}

func (c *controller) openGates(ctx context.Context, p *v1alpha1.Peering, pods gatewayPods) {
	set, ok := c.statefulSetOf(p)
	if !ok {
		return
	}
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || !gateClosed(pod.Pod) {
			continue
		}
		if reason, message := gateReason(set, p, pod, time.Now()); reason != "" {
			if err := c.openGate(ctx, pod.Pod, reason, message); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				c.log.Warn("cannot set a condition of a gateway's pod; trying again", "pod", pod.Name, "condition", workload.LinksUpGate, "error", err)
			}
		}
	}
}

func gateClosed(pod *corev1.Pod) bool {
	has := slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == workload.LinksUpGate })
	is := podCondition(pod, workload.LinksUpGate)
	return has && (is == nil || is.Status != corev1.ConditionTrue)
}

// gateReason returns why the gate of a pod opens, empty while it stays closed.
//
// In a rollout, a gateway that had a link when the rollout began has to have one again,
// however long that takes. Only so an image with which no link comes up goes no further,
// also where the pod is the only gateway. The wait ends when the remote cluster is back, or
// with the next rollout. Other gateways, for instance those that a change from one gateway to
// four adds, have replacementTimeout to get a link if any gateway had one: those that had one
// are replaced afterwards.
//
// A temporary gateway has to have a link too. If the remote cluster has to reach it, it may be
// that a firewall does not know its port: then the rollout goes on after replacementTimeout.
func gateReason(set *appsv1.StatefulSet, p *v1alpha1.Peering, pod gatewayPod, now time.Time) (reason, message string) {
	timeout, links := now.Sub(pod.CreationTimestamp.Time) >= replacementTimeout, rolloutOf(set).Links
	switch {
	case pod.linkUp():
		return "LinkUp", "a link is up"
	case !complete(set) && rolloutOf(set).Surge && isTemporary(p, pod.Name):
		if timeout && len(peering.RemoteOf(p, now).Calls()) == 0 {
			return "NoLink", "no link came up in time; the remote cluster may not reach the temporary gateway"
		}
		return "", ""
	case !complete(set) && len(links) == 0:
		return "NoLinkBefore", "no gateway had a link when the pods began to be replaced"
	case timeout && (complete(set) || !slices.Contains(links, pod.Name)):
		return "NoLink", "no link came up in time, and no rollout depends on it"
	}
	return "", ""
}

// openGate sets the condition of a pod, but not of another one that has replaced it.
func (c *controller) openGate(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": pod.Name, "uid": pod.UID},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": workload.LinksUpGate, "status": corev1.ConditionTrue, "reason": reason, "message": message,
			"lastTransitionTime": metav1.Now(),
		}}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	_, err = c.client.Pods(pod.Namespace).Patch(ctx, pod.Name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: Manager, Force: new(true)}, "status")
	return err
}

func podCondition(pod *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == of {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// podReady reports whether a pod is ready, with its readiness gate, and not being deleted.
func podReady(pod *corev1.Pod) bool {
	ready := podCondition(pod, corev1.PodReady)
	return pod.DeletionTimestamp == nil && ready != nil && ready.Status == corev1.ConditionTrue
}

// podRuns reports whether a pod is ready or lacks only its readiness gate, and is not being
// deleted. ContainersReady would not do: it stays True when the node is lost.
func podRuns(pod *corev1.Pod) bool {
	const gatesNotReady = "ReadinessGatesNotReady" // set by the kubelet
	ready := podCondition(pod, corev1.PodReady)
	return podReady(pod) || pod.DeletionTimestamp == nil && ready != nil && ready.Reason == gatesNotReady
}
