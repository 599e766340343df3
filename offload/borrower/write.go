package borrower

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
)

// consent returns whether a namespace is offloaded to this Peering. The right to read it comes
// with the offloading, so none means that it is not.
func (b *borrower) consent(ctx context.Context, namespace string, now time.Time) Consent {
	if known, ok := b.consents[namespace]; ok && now.Before(known.until) {
		return known.is
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	of, until := ConsentMissing, now.Add(missingOf)
	is, err := b.own.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	switch {
	case err == nil && is.Labels[OffloadLabel] == b.Peering:
		of, until = ConsentGiven, now.Add(consentOf)
	case err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
		return ConsentUnknown
	}
	b.consents[namespace] = consent{of, until}
	return of
}

func (b *borrower) write(ctx context.Context, w *Write) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pods := b.asNode.Pods(w.Pod.Namespace)
	if w.Status == nil {
		now := int64(0)
		err := pods.Delete(ctx, w.Pod.Name, metav1.DeleteOptions{
			// The version guards against a cache that has not seen that the pod was offered.
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &w.Pod.UID, ResourceVersion: &w.Pod.ResourceVersion},
		})
		return b.late(w.Pod, "remove", err)
	}
	pod := w.Pod.DeepCopy()
	pod.Status = *w.Status
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if e := event(w.Pod, w.Status, b.node.Name, metav1.Now()); err == nil && e != nil && b.budget.Event(time.Now()) {
		if _, err := b.asNode.Events(pod.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			b.log.Debug("cannot write an event", "pod", pod.Namespace+"/"+pod.Name, "reason", e.Reason, "error", err)
		}
	}
	return b.late(w.Pod, "update the status of", err)
}

// late returns the error of a write; nil if the cache was late, which will show another state.
func (b *borrower) late(pod *corev1.Pod, what string, err error) error {
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s pod %s/%s: %w", what, pod.Namespace, pod.Name, err)
}

const reporter = "strait.dev/borrower"

const maxEventMessage = 1024 // bytes, as of the API

// event returns the event about a status that says why its pod waits, nil if it does not say so,
// or said so before. Its name is derived from the reason, so that it is written once.
func event(pod *corev1.Pod, is *corev1.PodStatus, node string, now metav1.Time) *corev1.Event {
	if is.Phase != corev1.PodPending || is.Reason == "" || is.Reason == pod.Status.Reason && is.Message == pod.Status.Message {
		return nil
	}
	h := fnv.New64a()
	fmt.Fprint(h, pod.UID, is.Reason, is.Message) // never fails
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: fmt.Sprintf("%s.%x", client.Clip(pod.Name, 200), h.Sum64())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		Type: corev1.EventTypeWarning, Reason: is.Reason, Message: client.Clip(is.Message, maxEventMessage), Action: "Offload",
		EventTime: metav1.MicroTime(now), FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: "strait", Host: node}, ReportingController: reporter, ReportingInstance: node,
	}
}
