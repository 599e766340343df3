package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// simulation does what Kubernetes and gateways do for StatefulSets, once a second: the
// StatefulSet controller creates and replaces pods as with podManagementPolicy Parallel,
// kubelets set Ready with regard to readiness gates, and gateways report their links.
type simulation struct {
	*fixture
	lock     chan struct{}                     // a mutex would stop virtual time while a step waits
	behaves  map[string]behaviour              // of containers by their image; missing: works
	away     map[string]bool                   // remote clusters by the names of peerings
	unlinked map[string]bool                   // gateways that never have a link
	leaves   string                            // the peering whose remote cluster goes away when a gateway is replaced
	stopped  string                            // the gateway whose container does not run
	answers  map[string]*v1alpha1.Announcement // of remote clusters, by the names of peerings
	lost     map[string]bool                   // nodes without power
	least    map[string]int                    // the fewest gateways with a link at once, by the names of peerings, since it was made
	reported map[types.UID]v1alpha1.LinkStatus // by the UIDs of pods
	worst    int                               // the most peerings that had a pod missing or not ready at once since it was set to 0
}

type behaviour int

const (
	works behaviour = iota
	crashes
	hasNoLink
)

// awaitMinutes is await for what takes minutes: it checks once a second.
//
//strait:virtualtime
func awaitMinutes(t testing.TB, what string, check func() string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Second) {
		complaint := check()
		if complaint == "" {
			return
		}
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("%s: %s", what, complaint)
		}
	}
}

// simulate runs a simulation until the test ends.
func (f *fixture) simulate() *simulation {
	s := &simulation{fixture: f, lock: make(chan struct{}, 1), behaves: map[string]behaviour{}, away: map[string]bool{}, unlinked: map[string]bool{}, answers: map[string]*v1alpha1.Announcement{}, lost: map[string]bool{}, least: map[string]int{}, reported: map[types.UID]v1alpha1.LinkStatus{}}
	f.wait = awaitMinutes
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	f.node("node-2", "192.0.2.22", "10.0.1.0/24")
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			s.step(ctx)
			s.pause(time.Second)
		}
	})
	f.Cleanup(func() { cancel(); running.Wait() })
	return s
}

// set changes the simulation between two steps.
func (s *simulation) set(change func()) {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	change()
}

func (s *simulation) step(ctx context.Context) {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	sets, err := s.StatefulSets(gateways).List(ctx, metav1.ListOptions{})
	if s.failed(ctx, err) {
		return
	}
	all, err := s.Pods(gateways).List(ctx, metav1.ListOptions{})
	if s.failed(ctx, err) {
		return
	}
	pods := map[string]*corev1.Pod{}
	up := map[string]int{}
	for i := range all.Items {
		pod := &all.Items[i]
		pods[pod.Name] = pod
		if s.lost[pod.Spec.NodeName] {
			continue
		}
		s.failed(ctx, s.schedule(ctx, pod))
		s.failed(ctx, s.kubelet(ctx, pod))
		s.failed(ctx, s.gateway(ctx, pod.Labels["strait.dev/peering"], pod))
		if s.reported[pod.UID].Up {
			up[pod.Labels["strait.dev/peering"]]++
		}
	}
	for peering, fewest := range s.least {
		s.least[peering] = min(fewest, up[peering])
	}
	disturbed := 0
	for i := range sets.Items {
		if !s.real && s.failed(ctx, s.statefulSet(ctx, &sets.Items[i], pods)) {
			return
		}
		if sets.Items[i].Status.ReadyReplicas < *sets.Items[i].Spec.Replicas {
			disturbed++
		}
	}
	s.worst = max(s.worst, disturbed)
}

// failed reports whether a request failed. An interrupted request or a conflict with another
// writer does not fail the test.
func (s *simulation) failed(ctx context.Context, err error) bool {
	if err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "the object has been modified") {
		s.Error(err)
	}
	return err != nil
}

// statefulSet does one step of the StatefulSet controller.
//
//strait:virtualtime
func (s *simulation) statefulSet(ctx context.Context, set *appsv1.StatefulSet, pods map[string]*corev1.Pod) error {
	revision := revisionOf(set)
	status := appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, UpdateRevision: revision, CurrentRevision: set.Status.CurrentRevision}
	if status.CurrentRevision == "" {
		status.CurrentRevision = revision
	}
	steady := true // all pods above have the revision and are available
	for ordinal := *set.Spec.Replicas - 1; ordinal >= 0; ordinal-- {
		name := fmt.Sprintf("%s-%d", set.Name, ordinal)
		pod := pods[name]
		switch {
		case pod != nil && pod.DeletionTimestamp != nil:
			steady = false
			continue
		case pod == nil:
			if err := s.createPod(ctx, set, name, revision); err != nil {
				return err
			}
			steady = false
			continue
		case pod.Labels[appsv1.ControllerRevisionHashLabelKey] == revision:
			status.UpdatedReplicas++
		case steady:
			if err := s.Pods(gateways).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			steady = false
			continue
		}
		status.Replicas++
		ready := condition(pod, corev1.PodReady)
		if isReady := ready != nil && ready.Status == corev1.ConditionTrue; isReady {
			status.ReadyReplicas++
			steady = steady && time.Since(ready.LastTransitionTime.Time) >= time.Duration(set.Spec.MinReadySeconds)*time.Second
		} else {
			steady = false
		}
	}
	for name, pod := range pods {
		var ordinal int32
		if _, err := fmt.Sscanf(name, set.Name+"-%d", &ordinal); err == nil && ordinal >= *set.Spec.Replicas && pod.DeletionTimestamp == nil {
			if err := s.Pods(gateways).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
	}
	if wanted := *set.Spec.Replicas; status.Replicas == wanted && status.UpdatedReplicas == wanted && status.ReadyReplicas == wanted {
		status.CurrentRevision = revision
	}
	if set.Status.String() == status.String() {
		return nil
	}
	set.Status = status
	_, err := s.StatefulSets(gateways).UpdateStatus(ctx, set, metav1.UpdateOptions{})
	return err
}

func revisionOf(set *appsv1.StatefulSet) string {
	text, err := json.Marshal(set.Spec.Template)
	if err != nil {
		panic(err)
	}
	h := fnv.New64a()
	h.Write(text)
	return fmt.Sprintf("%s-%x", set.Name, h.Sum64())
}

func (s *simulation) createPod(ctx context.Context, set *appsv1.StatefulSet, name, revision string) error {
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Name, pod.Finalizers = name, []string{ends}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	if set.Name == s.leaves {
		s.away[set.Name] = true
	}
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = revision
	_, err := s.Pods(gateways).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// ends is on pods until their kubelet confirms that they have ended.
const ends = "strait.dev/ends"

// schedule binds a pod to the first node that is neither cordoned nor lost.
func (s *simulation) schedule(ctx context.Context, pod *corev1.Pod) error {
	if pod.Spec.NodeName != "" {
		return nil
	}
	nodes, err := s.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if !node.Spec.Unschedulable && !s.lost[node.Name] {
			if s.real {
				return s.cluster.Kubernetes().CoreV1().Pods(gateways).Bind(ctx, &corev1.Binding{
					ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node.Name},
				}, metav1.CreateOptions{})
			}
			pod.Spec.NodeName = node.Name
			updated, err := s.Pods(gateways).Update(ctx, pod, metav1.UpdateOptions{})
			if err == nil {
				*pod = *updated
			}
			return err
		}
	}
	return nil
}

// kubelet starts the container of a pod, and writes whether it is ready. A pod that ends is
// gone in the next step.
func (s *simulation) kubelet(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.Spec.NodeName == "":
		return nil
	case pod.DeletionTimestamp != nil && s.real:
		return s.Pods(gateways).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	case pod.DeletionTimestamp != nil:
		pod.Finalizers = nil
		_, err := s.Pods(gateways).Update(ctx, pod, metav1.UpdateOptions{})
		return err
	}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	switch {
	case s.crashes(pod):
		ready.Status, ready.Reason = corev1.ConditionFalse, "ContainersNotReady"
	case slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		is := condition(pod, g.ConditionType)
		return is == nil || is.Status != corev1.ConditionTrue
	}):
		ready.Status, ready.Reason = corev1.ConditionFalse, "ReadinessGatesNotReady"
	}
	if was := condition(pod, corev1.PodReady); was == nil {
		pod.Status.Conditions = append(pod.Status.Conditions, ready)
	} else if was.Status != ready.Status || was.Reason != ready.Reason {
		*was = ready
	} else {
		return nil
	}
	pod.Status.Phase = corev1.PodRunning
	_, err := s.Pods(gateways).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

func (s *simulation) crashes(pod *corev1.Pod) bool {
	return s.behaves[pod.Spec.Containers[0].Image] == crashes || pod.Name == s.stopped
}

// gateway writes the report of a gateway whose container runs. Nothing deletes that of a pod
// that was replaced.
func (s *simulation) gateway(ctx context.Context, peering string, pod *corev1.Pod) error {
	image := pod.Spec.Containers[0].Image
	if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || s.crashes(pod) {
		return nil // the last report stays
	}
	link := v1alpha1.LinkStatus{Remote: "r-0", Up: s.behaves[image] == works && !s.away[peering] && !s.unlinked[pod.Name]}
	if link.Up {
		link.LastHandshake = new(metav1.NewTime(pod.CreationTimestamp.Add(time.Second)))
	}
	if reflect.DeepEqual(s.reported[pod.UID], link) {
		return nil
	}
	_, err := s.GatewayReports(gateways).Apply(ctx, reportOf(pod, v1alpha1.GatewayReportStatus{Peering: peering, Links: []v1alpha1.LinkStatus{link}, Announcement: s.answers[peering]}), "strait-gateway")
	if err == nil {
		s.reported[pod.UID] = link
	}
	return err
}

func condition(pod *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == of })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// running describes all gateways' pods, like "b-0 v1 ready" or "b-1 v2 not ready".
func (f *fixture) running() string {
	pods, err := f.Pods(gateways).List(f.Context(), metav1.ListOptions{})
	must(f.T, err)
	var all []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		_, tag, _ := strings.Cut(pod.Spec.Containers[0].Image, "strait:")
		ready := "not ready"
		if is := condition(pod, corev1.PodReady); is != nil && is.Status == corev1.ConditionTrue {
			ready = "ready"
		}
		all = append(all, fmt.Sprintf("%s %s %s", pod.Name, tag, ready))
	}
	return strings.Join(all, ", ")
}

// untilRunning waits until running returns want.
func (f *fixture) untilRunning(want string) {
	f.Helper()
	f.until("the gateways' pods", func() string {
		if got := f.running(); got != want {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	})
}

// untilUpdated waits until the gateways of all peerings are updated.
func (f *fixture) untilUpdated(peerings ...string) {
	f.Helper()
	for _, name := range peerings {
		f.until("GatewaysUpdated of Peering "+name, func() string {
			if c := meta.FindStatusCondition(f.peering(name).Status.Conditions, v1alpha1.ConditionGatewaysUpdated); c == nil || c.Status != metav1.ConditionTrue {
				return fmt.Sprint(c)
			}
			return ""
		})
	}
}
