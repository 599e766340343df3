package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// onlyGateway starts Peering b, whose only gateway runs v1, has a link and initiates
// connections. The remote cluster announces itself.
func onlyGateway(f *fixture) (s *simulation, stop func()) {
	f.Helper()
	s = f.simulate()
	s.set(func() { s.answers["b"] = announces("b", "10.9.0.0/16").Announcement })
	stop = f.runs(nil, "v1")
	f.accept("b", "10.0.0.0/8")
	f.untilRunning("b-0 v1 ready")
	f.untilCondition("b", v1alpha1.ConditionAnnounced, "True Granted")
	f.until("a PodDisruptionBudget", func() string {
		if workloads := f.workloads(); !strings.Contains(workloads, "budget/b") {
			return workloads
		}
		return ""
	})
	s.set(func() { s.least["b"] = 1 })
	return s, stop
}

// neverDown checks that a gateway of b had a link since onlyGateway.
func (s *simulation) neverDown() {
	s.Helper()
	s.set(func() {
		if s.least["b"] < 1 {
			s.Error("there was a time without a link")
		}
	})
}

// untilAlone waits until the only gateway runs an image, and nothing of the temporary one is
// left but its key.
func (f *fixture) untilAlone(tag string) {
	f.Helper()
	f.untilRunning("b-0 " + tag + " ready")
	f.untilServices("set/b x1", 1)
	f.until("the status", func() string { return strings.TrimPrefix(strings.Join(f.present("b"), " "), "b-0") })
}

// cordon sets whether pods may be scheduled to a node.
func (f *fixture) cordon(node string, cordoned bool) {
	f.Helper()
	_, err := f.Nodes().Patch(f.Context(), node, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, cordoned), metav1.PatchOptions{})
	must(f.T, err)
}

func TestF2_TheOnlyGatewayIsReplacedWhenATemporaryOneForwards(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s, stop := onlyGateway(f)
		f.runs(stop, "v2")
		f.untilCondition("b", v1alpha1.ConditionGatewaysUpdated, "False RollingOut gateway b-1, which stands in while b-0 is replaced, ")
		service, err := f.Services(gateways).Get(t.Context(), "b-1", metav1.GetOptions{})
		if err != nil || service.Spec.Type != corev1.ServiceTypeClusterIP {
			t.Errorf("the Service of the temporary gateway: %v, %v", service.Spec.Type, err)
		}
		f.untilUpdated("b")
		f.untilAlone("v2")
		s.neverDown()
		f.pause(2 * time.Minute)
		if got := f.running(); got != "b-0 v2 ready" {
			t.Errorf("two minutes later: %s", got)
		}
	})
}

func TestABadImageDoesNotReplaceAnOnlyGatewayThatForwards(t *testing.T) {
	for name, bad := range map[string]behaviour{"it crashes": crashes, "no link is up": hasNoLink} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, f *fixture) {
				s, stop := onlyGateway(f)
				s.set(func() { s.behaves["registry.example/strait:v2"] = bad })
				f.runs(stop, "v2")
				f.untilRunning("b-0 v1 ready, b-1 v2 not ready")
				f.pause(5 * time.Minute)
				f.untilRunning("b-0 v1 ready, b-1 v2 not ready")
				s.neverDown()
				if bad == crashes {
					return
				}
				message := meta.FindStatusCondition(f.peering("b").Status.Conditions, v1alpha1.ConditionGatewaysUpdated).Message
				if want := "run `kubectl annotate statefulset b --namespace strait-gateways strait.dev/rollout-`"; !strings.HasSuffix(message, want) {
					t.Errorf("the message is %q, without %q", message, want)
				}
				_, err := f.StatefulSets(gateways).Patch(t.Context(), "b", types.MergePatchType, []byte(`{"metadata":{"annotations":{"strait.dev/rollout":null}}}`), metav1.PatchOptions{FieldManager: "kubectl-annotate"})
				must(t, err)
				f.untilRunning("b-0 v2 not ready")
			})
		})
	}
}

func TestF2_TheOnlyGatewayLeavesACordonedNodeWithoutAGap(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s, _ := onlyGateway(f)
		budget, err := f.PodDisruptionBudgets(gateways).Get(t.Context(), "b", metav1.GetOptions{})
		must(t, err)
		if budget.Spec.MinAvailable.IntValue() != 1 {
			t.Errorf("the budget is %v", budget.Spec)
		}
		f.cordon("node-1", true)
		f.untilRunning("b-0 v1 ready, b-1 v1 ready")
		f.pause(time.Minute)
		f.untilRunning("b-0 v1 ready, b-1 v1 ready") // until the gateway is evicted
		before := f.gatewayPod("b-0").UID
		must(t, f.Pods(gateways).Delete(t.Context(), "b-0", metav1.DeleteOptions{}))
		f.placedOn("b-0", "node-2", before)
		f.untilAlone("v1")
		s.neverDown()
	})
}

// From one gateway to four, all get a new template: those that are added, too.
func TestF2_AnOnlyGatewayIsReplacedWhenThoseThatAreAddedForward(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s, _ := onlyGateway(f)
		added := []string{"b-1", "b-2", "b-3"}
		s.set(func() {
			for _, name := range added {
				s.unlinked[name] = true
			}
		})
		_, err := f.Peerings().Patch(t.Context(), "b", types.MergePatchType, []byte(`{"spec":{"gateway":{"replicas":4}}}`), metav1.PatchOptions{})
		must(t, err)
		f.untilCondition("b", v1alpha1.ConditionGatewaysUpdated, "False RollingOut gateway b-3 has no link yet; the update continues when it has one, after 1m0s in any case")
		f.pause(30 * time.Second)
		f.untilRunning("b-0 v1 ready, b-1 v1 not ready, b-2 v1 not ready, b-3 v1 not ready")
		s.set(func() { clear(s.unlinked) })
		f.untilRunning("b-0 v1 ready, b-1 v1 ready, b-2 v1 ready, b-3 v1 ready")
		f.untilUpdated("b")
		s.neverDown()

		// One that gets none blocks nothing.
		s.set(func() { s.unlinked["b-4"] = true })
		_, err = f.Peerings().Patch(t.Context(), "b", types.MergePatchType, []byte(`{"spec":{"gateway":{"replicas":5}}}`), metav1.PatchOptions{})
		must(t, err)
		f.untilRunning("b-0 v1 ready, b-1 v1 ready, b-2 v1 ready, b-3 v1 ready, b-4 v1 ready")
		f.untilUpdated("b")
		s.neverDown()
	})
}

func TestNoRoomForATemporaryGatewayBlocksNeitherDrainsNorUpdates(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		_, stop := onlyGateway(f)
		f.cordon("node-1", true)
		f.cordon("node-2", true)
		f.untilRunning("b-0 v1 ready, b-1 v1 not ready")
		f.pause(time.Minute)
		if workloads := f.workloads(); !strings.Contains(workloads, "budget/b") {
			t.Errorf("after a minute: %s", workloads)
		}
		f.until("evictions are allowed", func() string {
			if workloads := f.workloads(); strings.Contains(workloads, "budget/b") {
				return workloads
			}
			return ""
		})

		f.runs(stop, "v2")
		f.until("b-0 is replaced without it", func() string {
			if running := f.running(); strings.Contains(running, "b-0 v1") {
				return running
			}
			return ""
		})
		f.cordon("node-2", false)
		f.untilUpdated("b")
		f.untilAlone("v2")
	})
}
