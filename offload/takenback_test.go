package offload_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
