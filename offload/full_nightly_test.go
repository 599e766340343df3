//go:build nightly

package offload_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/offload/protocol"
)

// Pods that name the node themselves are counted by no scheduler. Those beyond what a list can have
// wait, and stop nothing.
func TestPodsBeyondTheListWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		const more = 7
		j.a.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"strait.dev/offload": "b"}}})
		for i := range protocol.MaxPods + more {
			name := fmt.Sprintf("web-%04d", i)
			j.a.Add(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("u-" + name)}, Status: corev1.PodStatus{Phase: corev1.PodPending},
				Spec: corev1.PodSpec{NodeName: "strait-b", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			})
		}
		count := func() (twins, waiting int, oneWithTwin string) {
			there, err := j.b.Client(t).Pods("shop").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			here, err := j.a.Client(t).Pods("shop").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range here.Items {
				if here.Items[i].Status.Reason == "TooManyPods" {
					waiting++
				}
			}
			return len(there.Items), waiting, there.Items[0].Name
		}
		time.Sleep(10 * time.Minute)
		twins, waiting, name := count()
		if twins != protocol.MaxPods || waiting != more {
			t.Fatalf("%d pods run and %d wait, want %d and %d", twins, waiting, protocol.MaxPods, more)
		}
		if err := j.a.Client(t).Pods("shop").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if twins, waiting, _ := count(); twins != protocol.MaxPods || waiting != more-1 {
			t.Errorf("after one has ended, %d pods run and %d wait, want %d and %d", twins, waiting, protocol.MaxPods, more-1)
		}
	})
}
