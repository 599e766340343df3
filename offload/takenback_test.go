package offload_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/test/fakekube"
)

// lendNothing removes all namespaces from what b lends.
func (j *joined) lendNothing(t *testing.T) {
	t.Helper()
	peerings := j.b.Client(t).Peerings()
	p, err := peerings.Get(t.Context(), "a", metav1.GetOptions{})
	if err == nil {
		p.Spec.Lend.Namespaces = nil
		_, err = peerings.Update(t.Context(), p, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// joinWithPod is join, with a pod that runs.
//
//strait:virtualtime
func joinWithPod(t *testing.T) *joined {
	j := join(t)
	j.set("1")
	j.runPod(t)
	time.Sleep(time.Minute)
	return j
}

// A namespace that is not lent any more is read as long as something of the consumer is in it, and
// not after that.
func TestANamespaceThatIsTakenBackIsReadUntilItIsEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := joinWithPod(t)
		j.lendNothing(t)
		time.Sleep(10 * time.Minute)
		if _, err := j.b.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
			t.Fatalf("the twin ended: %v", err)
		}
		if err := j.a.Client(t).Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := j.b.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the twin of a pod that was deleted in the consumer is there: %v", err)
		}
		if n := j.reads(t, nil); n != 0 {
			t.Errorf("within an hour the lender reads the empty namespace %d times", n)
		}
	})
}

// Nor is one read for ever in which the lender has no rights any more.
func TestANamespaceWithoutRightsIsNotReadForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := joinWithPod(t)
		forbidden := func(q fakekube.Request) error {
			return apierrors.NewForbidden(schema.GroupResource{Group: q.Group, Resource: q.Resource}, q.Name, errors.New("no right"))
		}
		if n := j.reads(t, forbidden); n < 100 {
			t.Errorf("while the namespace is lent, the lender tries %d times in an hour to read it", n)
		}
		j.lendNothing(t)
		time.Sleep(time.Minute)
		if n := j.reads(t, forbidden); n != 0 {
			t.Errorf("when it is lent no more, the lender tries %d times in an hour to read it", n)
		}
	})
}

// runWith runs a pod with a restart policy.
func (j *joined) runWith(t *testing.T, policy corev1.RestartPolicy) {
	t.Helper()
	j.a.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"strait.dev/offload": "b"}}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"}, Status: corev1.PodStatus{Phase: corev1.PodPending},
			Spec: corev1.PodSpec{NodeName: "strait-b", RestartPolicy: policy, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		})
	settle(time.Minute)
	twin, err := j.b.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err == nil {
		twin.Status.Phase = corev1.PodRunning
		_, err = j.b.Client(t).Pods("shop").UpdateStatus(t.Context(), twin, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	settle(time.Minute)
}

// addRunning adds a pod that runs, with its record and its twin.
func (j *joined) addRunning(t *testing.T) {
	t.Helper()
	j.a.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"strait.dev/offload": "b"}}},
		&corev1.Pod{
			// The finalizer is another controller's: the object stays after its deletion by the node.
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1", Finalizers: []string{"example.com/keep"}},
			Spec:       corev1.PodSpec{NodeName: "strait-b", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: borrower.Offered, Status: corev1.ConditionTrue}}},
		})
	labels := map[string]string{"strait.dev/peering": "a", "strait.dev/origin-uid": "u-1"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	j.b.Add(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "r-1", Labels: labels, Annotations: map[string]string{"strait.dev/twin-uid": "t-1", "strait.dev/twins-made": "1"}},
		Template: corev1.PodTemplateSpec{Spec: spec}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "t-1", Labels: labels}, Spec: spec, Status: corev1.PodStatus{Phase: corev1.PodRunning}})
}

// takeBack deletes what strait unlend does.
func (j *joined) takeBack(t *testing.T) {
	t.Helper()
	for _, err := range []error{
		j.b.Client(t).PodTemplates("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}),
		j.b.Client(t).Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// deletePod deletes the pod in the consumer, and counts how often the borrower removes it after that.
func (j *joined) deletePod(t *testing.T) (removals *atomic.Int64) {
	t.Helper()
	if err := j.a.Client(t).Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	removals = new(atomic.Int64)
	j.a.Fail(func(q fakekube.Request) error {
		if q.Verb == "delete" && q.Resource == "pods" {
			removals.Add(1)
		}
		return nil
	})
	return removals
}

// settle lets both agents work for a while.
//
//strait:virtualtime
func settle(d time.Duration) { time.Sleep(d) }

// The pods of a namespace that was taken back have failed, so that their owners replace them; one
// that was deleted is removed. Nothing of the consumer is in the namespace then, and even the rights
// of the lender in it may be gone before the borrower can learn it.
func TestTheConsumerLearnsThatItsPodsHaveEnded(t *testing.T) {
	t.Parallel()
	failed := func(t *testing.T, j *joined) {
		is, err := j.a.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || is.Status.Phase != corev1.PodFailed || is.Status.Reason != "NamespaceNotLent" {
			t.Errorf("the pod is %s %s, %v", is.Status.Phase, is.Status.Reason, err)
		}
	}
	for name, happens := range map[string]func(t *testing.T, j *joined){
		"a pod that runs": func(t *testing.T, j *joined) {
			j.addRunning(t)
			settle(time.Minute)
			j.lendNothing(t)
			j.takeBack(t)
			settle(time.Minute)
			failed(t, j)
		},
		"a pod that is deleted": func(t *testing.T, j *joined) {
			j.addRunning(t)
			settle(time.Minute)
			j.lendNothing(t)
			removals := j.deletePod(t)
			settle(time.Minute)
			if removals.Load() == 0 {
				t.Error("it is not removed")
			}
		},
		"a pod that is deleted after a restart of the lender": func(t *testing.T, j *joined) {
			j.lendNothing(t)
			settle(time.Minute)
			j.addRunning(t)
			settle(time.Minute)
			removals := j.deletePod(t)
			settle(time.Minute)
			if _, err := j.b.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) || removals.Load() == 0 {
				t.Errorf("of its twin: %v; it was removed %d times", err, removals.Load())
			}
		},
		"a pod that is deleted while the link is down, with the rights of the lender": func(t *testing.T, j *joined) {
			j.addRunning(t)
			settle(time.Minute)
			j.cable.set(true)
			j.lendNothing(t)
			j.takeBack(t)
			settle(time.Second)
			j.b.Fail(func(q fakekube.Request) error {
				if q.Namespace != "shop" {
					return nil
				}
				return apierrors.NewForbidden(schema.GroupResource{Group: q.Group, Resource: q.Resource}, q.Name, errors.New("no right"))
			})
			j.b.BreakWatches()
			removals := j.deletePod(t)
			settle(time.Hour)
			j.cable.set(false)
			settle(time.Minute)
			if removals.Load() == 0 {
				t.Error("it is not removed")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				happens(t, join(t))
			})
		})
	}
}

// The restart policy permits no second run, and whether the first one succeeded is not known.
func TestAPodWhoseRecordIsDeletedFailsInsteadOfRunningTwice(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(t *testing.T, j *joined){
		"by another client": func(t *testing.T, j *joined) { j.takeBack(t) },
		"while the link is down, and the namespace is lent again": func(t *testing.T, j *joined) {
			j.cable.set(true)
			j.takeBack(t)
			settle(time.Hour)
			j.cable.set(false)
		},
		"while the lender is away": func(t *testing.T, j *joined) {
			j.b.BreakWatches()
			j.takeBack(t)
		},
	} {
		for policy, again := range map[corev1.RestartPolicy]bool{corev1.RestartPolicyNever: false, corev1.RestartPolicyOnFailure: false, corev1.RestartPolicyAlways: true} {
			t.Run(name+", "+string(policy), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					j := join(t)
					j.runWith(t, policy)
					happens(t, j)
					settle(time.Minute)
					is, err := j.a.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
					if failed := is.Status.Phase == corev1.PodFailed && is.Status.Reason == "TwinLost"; err != nil || failed == again {
						t.Errorf("the pod is %s %s, %v", is.Status.Phase, is.Status.Reason, err)
					}
					if _, err := j.b.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{}); (err == nil) != again {
						t.Errorf("its twin: %v", err)
					}
				})
			})
		}
	}
}

// A namespace is not read that the consumer names, and that was never lent.
func TestANamespaceThatWasNeverLentIsNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.lendNothing(t)
		time.Sleep(time.Minute)
		j.addRunning(t)
		n := j.reads(t, func(q fakekube.Request) error {
			return apierrors.NewForbidden(schema.GroupResource{Group: q.Group, Resource: q.Resource}, q.Name, errors.New("no right"))
		})
		if n != 1 {
			t.Errorf("the lender tries %d times in an hour to read it, want once", n)
		}
	})
}

// reads ends all watches, and returns how often the lender lists or watches objects of the namespace
// in the following hour. answer is what the API server answers then; nil: as usual.
//
//strait:virtualtime
func (j *joined) reads(t *testing.T, answer func(fakekube.Request) error) int64 {
	t.Helper()
	var n atomic.Int64
	defer j.b.Fail(func(q fakekube.Request) error {
		if q.Namespace != "shop" || !slices.Contains([]string{"list", "watch"}, q.Verb) {
			return nil
		}
		n.Add(1)
		if answer == nil {
			return nil
		}
		return answer(q)
	})()
	j.b.BreakWatches()
	time.Sleep(time.Hour)
	return n.Load()
}
