package borrower

import (
	"fmt"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
)

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
