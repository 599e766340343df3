package controller

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/peering"
)

const reporter = "strait.dev/controller"

const (
	eventsWaiting = 256             // maximum queue length; further events are dropped
	eventTimeout  = 5 * time.Second // timeout of one request

	maxEventMessage = 1024 // bytes

	// A Peering has eventBurst events at once, and one more per eventInterval: a remote cluster
	// can lose and restore its links all the time, and the API server keeps events for an hour.
	eventInterval = time.Minute
	eventBurst    = 30
)

// tell queues events for the conditions of an object whose status changed, within a budget; nil:
// all of them. Passes do not wait for them to be written.
func (c *controller) tell(now time.Time, kind string, about client.Object, was, is []metav1.Condition, budget *ratelimit.Bucket) {
	for _, condition := range is {
		before := meta.FindStatusCondition(was, condition.Type)
		if before != nil && before.Status == condition.Status {
			continue
		}
		expected := condition.Status == metav1.ConditionUnknown || kind == allocation.KindPeering && condition.Status == metav1.ConditionFalse && condition.Reason != peering.ReasonClusterIDTaken
		if before == nil && expected {
			continue // a new peering is expected not to work yet
		}
		if budget != nil && !budget.Take(now, eventInterval, eventBurst) {
			continue
		}
		select {
		case c.events <- eventOf(now, kind, about, condition):
		default: // the queue is full
		}
	}
}

func (c *controller) writeEvents(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-c.events:
			limited, cancel := context.WithTimeout(ctx, eventTimeout)
			_, err := c.client.Events(event.Namespace).Create(limited, event, metav1.CreateOptions{})
			cancel()
			if err != nil && !apierrors.IsAlreadyExists(err) {
				c.log.Debug("cannot write an event", "about", event.InvolvedObject.Kind+" "+event.InvolvedObject.Name, "reason", event.Reason, "error", err)
			}
		}
	}
}

// eventOf returns an event about a condition. Its name is derived from the condition, so
// that it is written once.
func eventOf(now time.Time, kind string, about client.Object, c metav1.Condition) *corev1.Event {
	h := fnv.New64a()
	fmt.Fprint(h, about.GetUID(), c.Type, c.Status, c.LastTransitionTime.Unix()) // never fails
	severity := corev1.EventTypeNormal
	if bad := c.Type == v1alpha1.ConditionCIDRConflict; (c.Status == metav1.ConditionTrue) == bad && c.Status != metav1.ConditionUnknown &&
		c.Type != v1alpha1.ConditionGatewaysUpdated && c.Type != v1alpha1.ConditionGatewaysUp { // rollouts are expected
		severity = corev1.EventTypeWarning
	}
	message := fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%x", about.GetName(), h.Sum64())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: about.GetName(), UID: about.GetUID(), ResourceVersion: about.GetResourceVersion(),
		},
		Type: severity, Reason: c.Reason, Message: client.Clip(message, maxEventMessage), Action: "Observe" + c.Type,
		EventTime: metav1.MicroTime{Time: now}, FirstTimestamp: metav1.Time{Time: now}, LastTimestamp: metav1.Time{Time: now}, Count: 1,
		Source: corev1.EventSource{Component: Manager}, ReportingController: reporter, ReportingInstance: Manager,
	}
}
