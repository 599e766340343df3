package borrower_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

var (
	node    = translate.Node{Name: "strait-b", Addresses: []string{"10.0.1.9"}}
	now     = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	offered = corev1.PodCondition{Type: borrower.Offered, Status: corev1.ConditionTrue}
)

// view is what a borrower sees while everything works.
func view() *borrower.View {
	return &borrower.View{Peering: "b", Node: node, Fresh: true, Lent: []string{"shop"}, Now: now, Shelf: borrower.NewShelf(),
		Reach: merge.Mappings([]v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: "10.71.0.0/16"}})}
}

func describe(p *corev1.Pod) *borrower.Template { return borrower.Describe(p, node) }

func pod(conditions ...corev1.PodCondition) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u-1"},
		Spec:       corev1.PodSpec{NodeName: "strait-b", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, Conditions: conditions},
	}
}

func deleting(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, new(int64(7))
	return p
}

func TestAPodIsOfferedWhenBothClustersConsent(t *testing.T) {
	t.Parallel()
	hostNetwork := pod()
	hostNetwork.Spec.HostNetwork = true
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		consent borrower.Consent
		lent    []string
		fresh   bool
		reason  string // of the status; "offered"; or empty: nothing is written
	}{
		"both consent":                    {pod(), borrower.ConsentGiven, []string{"shop"}, true, "offered"},
		"the namespace is not offloaded":  {pod(), borrower.ConsentMissing, []string{"shop"}, true, "NamespaceNotOffloaded"},
		"its label is not read yet":       {pod(), borrower.ConsentUnknown, []string{"shop"}, true, ""},
		"the namespace is not lent":       {pod(), borrower.ConsentGiven, []string{"jobs"}, true, "NamespaceNotLent"},
		"a field has no meaning there":    {hostNetwork, borrower.ConsentGiven, []string{"shop"}, true, "FieldRefused"},
		"the lender is silent":            {pod(), borrower.ConsentGiven, []string{"shop"}, false, ""},
		"it was offered, consent is lost": {pod(offered), borrower.ConsentMissing, nil, true, ""},
	} {
		v := view()
		v.Lent, v.Fresh = c.lent, c.fresh
		w := borrower.Decide(c.pod, describe(c.pod), nil, c.consent, v)
		got := ""
		if w != nil && w.Status != nil {
			got = w.Status.Reason
			for _, condition := range w.Status.Conditions {
				if condition.Type == borrower.Offered {
					got = "offered"
				}
			}
		}
		if got != c.reason {
			t.Errorf("%s: %q, want %q", name, got, c.reason)
		}
	}
}

func TestAPodObjectIsRemovedWhenItIsCertainThatItHasNoTwin(t *testing.T) {
	t.Parallel()
	gone := &protocol.PodStatus{UID: "u-1", State: protocol.StateGone}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		said    *protocol.PodStatus
		fresh   bool
		removed bool
	}{
		"never offered and deleted":                   {deleting(pod()), nil, false, true},
		"never offered":                               {pod(), nil, true, false},
		"deleted, and gone in the provider":           {deleting(pod(offered)), gone, true, true},
		"gone in the provider, but not deleted":       {pod(offered), gone, true, false},
		"deleted, and the lender says nothing":        {deleting(pod(offered)), nil, true, false},
		"deleted, and the lender is silent":           {deleting(pod(offered)), gone, false, false},
		"deleted, and the twin still runs":            {deleting(pod(offered)), &protocol.PodStatus{UID: "u-1", State: protocol.StateMade, Status: &corev1.PodStatus{Phase: corev1.PodRunning}}, true, false},
		"deleted, and refused":                        {deleting(pod(offered)), &protocol.PodStatus{UID: "u-1", State: protocol.StateRefused, Reason: "NamespaceNotLent"}, true, false},
		"deleted, and the lender asks for a template": {deleting(pod(offered)), &protocol.PodStatus{UID: "u-1", State: protocol.StateUnknown}, true, false},
	} {
		v := view()
		v.Fresh = c.fresh
		w := borrower.Decide(c.pod, describe(c.pod), c.said, borrower.ConsentGiven, v)
		if removed := w != nil && w.Status == nil; removed != c.removed {
			t.Errorf("%s: removed is %v", name, removed)
		}
	}
}

func TestAStatusIsWrittenOnce(t *testing.T) {
	t.Parallel()
	p, v := pod(offered), view()
	for _, said := range []*protocol.PodStatus{
		{UID: "u-1", State: protocol.StateRefused, Reason: "TwinRefused", Message: "exceeded quota"},
		{UID: "u-1", State: protocol.StatePending},
		{UID: "u-1", State: protocol.StateMade, Made: 1, Status: &corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.2.9"}},
			Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}}},
	} {
		w := borrower.Decide(p, describe(p), said, borrower.ConsentGiven, v)
		if w == nil || w.Status == nil || w.Status.Reason != said.Reason || w.Status.Message != said.Message {
			t.Fatalf("in state %s it writes %+v", said.State, w)
		}
		p.Status = *w.Status
		v.Now = metav1.NewTime(v.Now.Add(time.Minute))
		if w := borrower.Decide(p, describe(p), said, borrower.ConsentGiven, v); w != nil {
			t.Errorf("in state %s it writes again: %+v", said.State, w.Status)
		}
	}
	if p.Status.PodIP != "10.71.2.9" {
		t.Errorf("%+v", p.Status)
	}
}

// An API server that does not keep the observed generation would get the same status again and
// again.
func TestTheGenerationOfAPodIsObservedWhereThatIsKept(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		p, v := pod(offered), view()
		p.Generation, v.Observes = 3, keeps
		said := &protocol.PodStatus{UID: "u-1", State: protocol.StateMade, Status: &corev1.PodStatus{Phase: corev1.PodRunning}}
		w := borrower.Decide(p, describe(p), said, borrower.ConsentGiven, v)
		if w == nil || (w.Status.ObservedGeneration == 3) != keeps {
			t.Fatalf("it writes %+v", w)
		}
		p.Status = *w.Status
		if w := borrower.Decide(p, describe(p), said, borrower.ConsentGiven, v); w != nil {
			t.Errorf("it writes the same again: %+v", w.Status)
		}
		p.Generation = 4
		if w := borrower.Decide(p, describe(p), said, borrower.ConsentGiven, v); (w != nil) != keeps {
			t.Errorf("after a change of the spec it writes %+v", w)
		}
	}
}

func TestTheListHasThePodsThatTheLenderMayKnow(t *testing.T) {
	t.Parallel()
	never, runs, ends, done := pod(), pod(offered), deleting(pod(offered)), pod(offered)
	runs.Name, runs.UID = "web-1", "u-2"
	ends.Name, ends.UID = "web-2", "u-3"
	done.Name, done.UID, done.Status.Phase = "web-3", "u-4", corev1.PodSucceeded
	list, _ := borrower.List([]*corev1.Pod{done, ends, runs, never}, describe, borrower.NewShelf())
	if len(list) != 3 || list[0].UID != "u-2" || list[1].UID != "u-3" || list[2].UID != "u-4" {
		t.Fatalf("%+v", list)
	}
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning} {
		for _, policy := range []corev1.RestartPolicy{"", corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever} {
			one := runs.DeepCopy()
			one.Status.Phase, one.Spec.RestartPolicy = phase, policy
			again, _ := borrower.List([]*corev1.Pod{one}, describe, borrower.NewShelf())
			if want := phase == corev1.PodRunning && (policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure); again[0].Once != want {
				t.Errorf("a pod that is %s and restarts %s: %+v", phase, policy, again[0])
			}
		}
	}
	if list[0].Deleting || list[0].Hash != describe(runs).Hash || !list[1].Deleting || list[1].Grace != 7 || !list[2].Finished {
		t.Errorf("%+v", list)
	}
}

// The provider has taken a namespace back and ended its pods: their owners replace them. A pod
// that waits goes on to wait.
func TestAPodThatTheProviderEndedHasFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		was   corev1.PodPhase
		ended bool
		want  corev1.PodPhase
	}{
		"it ran and has ended":          {corev1.PodRunning, true, corev1.PodFailed},
		"it ran and may run again":      {corev1.PodRunning, false, corev1.PodRunning},
		"it waits for the namespace":    {corev1.PodPending, true, corev1.PodPending},
		"it has finished, and stays so": {corev1.PodSucceeded, true, corev1.PodSucceeded},
	} {
		p := pod(offered)
		p.Status.Phase = c.was
		said := &protocol.PodStatus{UID: "u-1", State: protocol.StateRefused, Reason: "NamespaceNotLent", Message: "no", Ended: c.ended}
		got := p.Status.Phase
		if w := borrower.Decide(p, describe(p), said, borrower.ConsentGiven, view()); w != nil {
			got = w.Status.Phase
		}
		if got != c.want {
			t.Errorf("%s: the phase is %s", name, got)
		}
	}
}

func TestAPodThatFitsOnNoMachineIsNotOffered(t *testing.T) {
	t.Parallel()
	p, v := pod(), view()
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	v.Largest = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	w := borrower.Decide(p, describe(p), nil, borrower.ConsentGiven, v)
	if w == nil || w.Status.Reason != "TooLarge" || len(w.Status.Conditions) != 0 {
		t.Errorf("%+v", w)
	}
	v.Largest[corev1.ResourceCPU] = resource.MustParse("8")
	if w := borrower.Decide(p, describe(p), nil, borrower.ConsentGiven, v); w == nil || w.Status.Reason != "" || len(w.Status.Conditions) != 1 {
		t.Errorf("on a larger machine: %+v", w)
	}
}

func TestAPodWaitsWhileTheListIsFull(t *testing.T) {
	t.Parallel()
	p, v := pod(), view()
	v.Full = true
	w := borrower.Decide(p, describe(p), nil, borrower.ConsentGiven, v)
	if w == nil || w.Status.Reason != "TooManyPods" || len(w.Status.Conditions) != 0 {
		t.Fatalf("%+v", w)
	}
	p.Status, v.Full = *w.Status, false
	if w := borrower.Decide(p, describe(p), nil, borrower.ConsentGiven, v); w == nil || w.Status.Reason != "" || len(w.Status.Conditions) != 1 {
		t.Errorf("with room: %+v", w)
	}
}

func TestOnlyOfferedPodsThatHaveNotFinishedTakeRoom(t *testing.T) {
	t.Parallel()
	waits, now, runs, done, ends := pod(), pod(), pod(offered), pod(offered), deleting(pod(offered))
	now.UID, done.Status.Phase, ends.Status.Phase = "u-2", corev1.PodSucceeded, corev1.PodFailed
	if got := borrower.Room([]*corev1.Pod{waits, now, runs, done, ends}, map[types.UID]bool{"u-2": true}); got != protocol.MaxPods-3 {
		t.Errorf("room for %d, want %d", got, protocol.MaxPods-3)
	}
}

// A pod whose twin is lost, and not made again yet, has nothing at its address: Services leave it out.
func TestAPodWithoutATwinIsNotReady(t *testing.T) {
	t.Parallel()
	runs := &protocol.PodStatus{UID: "u-1", State: protocol.StateMade, Made: 1, Status: &corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.2.9"}},
		Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}}}
	for _, state := range []protocol.State{protocol.StatePending, protocol.StateUnknown, protocol.StateRefused} {
		p := pod(offered)
		for _, step := range []struct {
			said  *protocol.PodStatus
			ready corev1.ConditionStatus
		}{{runs, corev1.ConditionTrue}, {&protocol.PodStatus{UID: "u-1", State: state, Reason: "TwinRefused"}, corev1.ConditionFalse}, {runs, corev1.ConditionTrue}} {
			if w := borrower.Decide(p, describe(p), step.said, borrower.ConsentGiven, view()); w != nil {
				p.Status = *w.Status
			}
			for _, of := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
				i := slices.IndexFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == of })
				if i < 0 || p.Status.Conditions[i].Status != step.ready || p.Status.Phase != corev1.PodRunning {
					t.Errorf("in state %s the pod has %+v, want %s %s", step.said.State, p.Status, of, step.ready)
				}
			}
		}
	}
}

// Finished pods stay until their owners delete them. However many there are, the list is sent.
func TestFinishedPodsDoNotFillTheList(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	add := func(n int, phase corev1.PodPhase, created time.Time) {
		for range n {
			p := pod(offered)
			p.Name = fmt.Sprint("p-", len(pods))
			p.UID, p.Status.Phase, p.CreationTimestamp = types.UID(p.Name), phase, metav1.NewTime(created)
			pods = append(pods, p)
		}
	}
	add(1500, corev1.PodSucceeded, now.Add(-time.Hour))
	add(1000, corev1.PodFailed, now.Time)
	add(500, corev1.PodRunning, now.Add(-2*time.Hour))
	list, _ := borrower.List(pods, describe, borrower.NewShelf())
	if _, err := (protocol.Desired{Epoch: protocol.Hash(nil), Term: 1, Sequence: 1, Pods: list}).Encode(); err != nil {
		t.Error(err)
	}
	listed := make(map[string]int)
	for _, p := range list {
		i, _ := strconv.Atoi(strings.TrimPrefix(p.Name, "p-"))
		listed[string(pods[i].Status.Phase)]++
	}
	if listed["Running"] != 500 || listed["Failed"] != 1000 || listed["Succeeded"] != protocol.MaxPods-1500 {
		t.Errorf("the list has %v", listed)
	}
}
