package borrower

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/translate"
)

func resources(of ...string) corev1.ResourceList {
	list := make(corev1.ResourceList)
	for i := 0; i < len(of); i += 2 {
		list[corev1.ResourceName(of[i])] = resource.MustParse(of[i+1])
	}
	return list
}

func TestTheCapacityIsTheLesserOfBothClusters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lent, borrowed, want corev1.ResourceList }{
		"both limit":            {resources("cpu", "8", "memory", "4Gi", "pods", "50"), resources("cpu", "4", "memory", "8Gi", "pods", "90"), resources("cpu", "4", "memory", "4Gi", "pods", "50")},
		"one limits":            {resources("cpu", "8"), resources("memory", "8Gi"), resources("cpu", "8", "memory", "8Gi", "pods", "110")},
		"none limits":           {nil, nil, resources("pods", "110")},
		"more than a list":      {resources("pods", "90k"), nil, resources("pods", "2k")},
		"a resource of its own": {resources("example.com/gpu", "2"), resources("pods", "1"), resources("example.com/gpu", "2", "pods", "1")},
	} {
		got := capacity(c.lent, c.borrowed)
		if len(got) != len(c.want) {
			t.Errorf("%s: %v", name, got)
		}
		for of, q := range c.want {
			if is := got[of]; is.Cmp(q) != 0 {
				t.Errorf("%s: %s is %v, want %v", name, of, &is, &q)
			}
		}
	}
}

// The node controller writes Unknown after a silence, and only the node can write True again. At
// rest the status is written every five minutes.
func TestTheNodeStatusIsWrittenWhenItChanges(t *testing.T) {
	t.Parallel()
	n := translate.Node{Name: "strait-b", Addresses: []string{"10.0.1.9"}}
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	is := nodeStatus(corev1.NodeStatus{}, n, 10250, "v1.37.2", nil, nil, at)
	for _, c := range is.Conditions {
		if want := map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[c.Type == corev1.NodeReady]; c.Status != want {
			t.Errorf("%s is %s", c.Type, c.Status)
		}
	}
	later := metav1.NewTime(at.Add(time.Minute))
	if again := nodeStatus(is, n, 10250, "v1.37.2", nil, nil, later); !apiequality.Semantic.DeepEqual(is, again) {
		t.Errorf("a minute later it is\n%+v, before\n%+v", again, is)
	}
	if again := nodeStatus(is, n, 10250, "v1.37.2", nil, nil, metav1.NewTime(at.Add(5*time.Minute))); apiequality.Semantic.DeepEqual(is, again) {
		t.Error("five minutes later it is not written")
	}
	is.Conditions[0].Status, is.Conditions[0].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	back := nodeStatus(is, n, 10250, "v1.37.2", nil, nil, later)
	if c := back.Conditions[0]; c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Equal(&later) {
		t.Errorf("after a silence it is %+v", c)
	}
}
