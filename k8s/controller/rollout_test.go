package controller_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller"
)

// runs starts a controller whose installation has an image. It ends the one before.
func (f *fixture) runs(stop func(), image string) func() {
	f.Helper()
	if stop != nil {
		stop()
	}
	return f.start(f.cluster.Admin(), "default", "controller-"+image, func(o *controller.Options) { o.Gateways.Image = "registry.example/strait:" + image })
}

// twoPeerings starts peerings b and c with two gateways and one, which run v1 and have
// links.
func twoPeerings(f *fixture) (s *simulation, stop func()) {
	f.Helper()
	s = f.simulate()
	stop = f.runs(nil, "v1")
	f.asks("b", v1alpha1.GatewaySpec{Replicas: 2})
	f.pause(time.Second) // they have an order
	f.asks("c", v1alpha1.GatewaySpec{Replicas: 1})
	f.untilRunning(allReady("v1"))
	f.untilUpdated("b", "c")
	return s, stop
}

// allReady is what twoPeerings runs with one image.
func allReady(tag string) string {
	return strings.ReplaceAll("b-0 TAG ready, b-1 TAG ready, c-0 TAG ready", "TAG", tag)
}

func TestOnePeeringIsUpdatedAfterTheOther(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s, stop := twoPeerings(f)
		s.set(func() { s.worst = 0 })
		f.runs(stop, "v2")
		f.untilCondition("c", v1alpha1.ConditionGatewaysUpdated, "False Waiting the gateways are updated when those of Peering b are")
		f.untilRunning(allReady("v2"))
		f.untilUpdated("b", "c")
		s.set(func() {
			if s.worst != 1 {
				t.Errorf("%d peerings were updated at once", s.worst)
			}
		})
		f.untilEvents("Peering", f.peering("b"), "Normal RollingOut GatewaysUpdated is False: ", "Normal Complete GatewaysUpdated is True: ")
		f.untilEvents("Peering", f.peering("c"), "Normal Waiting GatewaysUpdated is False: ")
	})
}

func TestABadImageStopsAfterTheFirstGatewayOfTheFirstPeering(t *testing.T) {
	for name, bad := range map[string]struct {
		behaviour
		want string
	}{
		"it crashes":    {crashes, "False RollingOut gateway b-1 is updated, but its pod is not ready; run `kubectl describe pod b-1 --namespace strait-gateways`"},
		"no link is up": {hasNoLink, "False RollingOut gateway b-1 is updated, but has no link yet, which it had before; "},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, f *fixture) {
				s, stop := twoPeerings(f)
				s.set(func() { s.behaves["registry.example/strait:v2"] = bad.behaviour })
				stop = f.runs(stop, "v2")
				f.untilCondition("b", v1alpha1.ConditionGatewaysUpdated, bad.want)
				f.pause(2 * time.Minute)
				if got, want := f.running(), strings.Replace(allReady("v1"), "b-1 v1 ready", "b-1 v2 not ready", 1); got != want {
					t.Errorf("after two minutes: %s, want %s", got, want)
				}
				f.untilCondition("b", v1alpha1.ConditionTunnelUp, "True LinkUp 1 link is up")
				f.untilCondition("c", v1alpha1.ConditionGatewaysUpdated, "False Waiting the gateways are updated when those of Peering b are")

				f.runs(stop, "v3") // the next image works
				f.untilRunning(allReady("v3"))
				f.untilUpdated("b", "c")
			})
		})
	}
}

// The pod of an only gateway that is replaced has no other gateway to be compared with.
func TestABadImageStopsAtAnOnlyGateway(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s, stop := f.simulate(), f.runs(nil, "v1")
		f.asks("b", v1alpha1.GatewaySpec{Replicas: 1})
		f.asks("c", v1alpha1.GatewaySpec{Replicas: 1})
		f.untilRunning("b-0 v1 ready, c-0 v1 ready")
		f.pause(time.Minute)
		s.set(func() { s.behaves["registry.example/strait:v2"] = hasNoLink })
		f.runs(stop, "v2")
		f.pause(2 * time.Minute)
		if got, want := f.running(), "b-0 v2 not ready, c-0 v1 ready"; got != want {
			t.Errorf("after two minutes: %s, want %s", got, want)
		}
	})
}

func TestRemoteClustersThatAreAwayBlockNeitherStartsNorUpdates(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s := f.simulate()
		s.set(func() { s.away["b"], s.away["c"] = true, true })
		stop := f.runs(nil, "v1")
		f.asks("b", v1alpha1.GatewaySpec{Replicas: 2})
		f.asks("c", v1alpha1.GatewaySpec{Replicas: 1})
		f.asks("d", v1alpha1.GatewaySpec{Replicas: 1})
		f.untilRunning("b-0 v1 ready, b-1 v1 ready, c-0 v1 ready, d-0 v1 ready")
		f.untilUpdated("b", "c", "d")
		f.runs(stop, "v2")
		f.untilCondition("b", v1alpha1.ConditionGatewaysUpdated, "False Waiting the gateways are updated when those of Peering d are") // d proves that v2 works
		f.untilRunning("b-0 v2 ready, b-1 v2 ready, c-0 v2 ready, d-0 v2 ready")
		f.untilUpdated("b", "c", "d")
	})
}

func TestARemoteClusterThatGoesAwayDuringAnUpdateDelaysIt(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s, stop := twoPeerings(f)
		s.set(func() { s.leaves = "b" })
		f.runs(stop, "v2")
		f.untilCondition("b", v1alpha1.ConditionGatewaysUpdated, "False RollingOut gateway b-1 is updated, but has no link yet")
		f.pause(2 * time.Minute)
		if got, want := f.running(), "b-0 v1 ready, b-1 v2 not ready, c-0 v1 ready"; got != want {
			t.Errorf("while the remote cluster is away: %s, want %s", got, want)
		}

		// An administrator continues without it, as the condition says.
		message := meta.FindStatusCondition(f.peering("b").Status.Conditions, v1alpha1.ConditionGatewaysUpdated).Message
		if want := "run `kubectl annotate statefulset b --namespace strait-gateways strait.dev/rollout-`"; !strings.HasSuffix(message, want) {
			t.Errorf("the message is %q, without %q", message, want)
		}
		_, err := f.StatefulSets(gateways).Patch(t.Context(), "b", types.MergePatchType, []byte(`{"metadata":{"annotations":{"strait.dev/rollout":null}}}`), metav1.PatchOptions{FieldManager: "kubectl-annotate"})
		must(t, err)
		f.untilRunning(allReady("v2"))
		f.untilUpdated("b", "c")
	})
}

// A gateway that did not work before, for instance because its port is blocked or its pod
// cannot be scheduled, keeps other peerings from nothing.
func TestAGatewayThatDidNotWorkBeforeBlocksNoUpdate(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s := f.simulate()
		s.set(func() { s.unlinked["b-1"] = true })
		stop := f.runs(nil, "v1")
		f.asks("b", v1alpha1.GatewaySpec{Replicas: 2})
		f.asks("c", v1alpha1.GatewaySpec{Replicas: 1})
		f.untilRunning(allReady("v1"))
		stop = f.runs(stop, "v2")
		f.untilRunning(allReady("v2"))
		f.untilUpdated("b", "c")

		s.set(func() { s.stopped = "b-1" })
		f.untilRunning(strings.Replace(allReady("v2"), "b-1 v2 ready", "b-1 v2 not ready", 1))
		f.runs(stop, "v3")
		f.untilRunning("b-0 v2 ready, b-1 v3 not ready, c-0 v3 ready")
	})
}

// A change of one peering waits for no other, even if that does not work.
func TestAChangeOfOnePeeringWaitsForNoOther(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s, _ := twoPeerings(f)
		s.set(func() { s.leaves = "b" })
		f.asks("b", v1alpha1.GatewaySpec{Replicas: 3}) // replaces the pods
		f.untilCondition("b", v1alpha1.ConditionGatewaysUpdated, "False RollingOut gateway b-1 is updated, but has no link yet")
		f.asks("c", v1alpha1.GatewaySpec{Replicas: 3})
		f.until("c is changed", func() string {
			if running := f.running(); !strings.HasSuffix(running, "c-0 v1 ready, c-1 v1 ready, c-2 v1 ready") {
				return running
			}
			return ""
		})
		f.untilUpdated("c")
	})
}

// While an update waits, everything else of a Peering can be changed.
func TestAWaitingPeeringCanBeScaled(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s, stop := twoPeerings(f)
		s.set(func() { s.behaves["registry.example/strait:v2"] = hasNoLink })
		f.runs(stop, "v2")
		f.untilCondition("c", v1alpha1.ConditionGatewaysUpdated, "False Waiting")
		f.asks("c", v1alpha1.GatewaySpec{Replicas: 2})
		f.untilRunning("b-0 v1 ready, b-1 v2 not ready, c-0 v1 ready, c-1 v1 ready")
	})
}

func TestADrainedGatewayWaitsForItsLinkButNotForever(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s, _ := twoPeerings(f)
		s.set(func() { s.away["b"] = true })
		must(t, f.Pods(gateways).Delete(t.Context(), "b-1", metav1.DeleteOptions{}))
		f.untilRunning(strings.Replace(allReady("v1"), "b-1 v1 ready", "b-1 v1 not ready", 1))
		f.pause(30 * time.Second)
		f.untilRunning(strings.Replace(allReady("v1"), "b-1 v1 ready", "b-1 v1 not ready", 1))
		f.untilRunning(allReady("v1"))
	})
}

// Without a controller pods keep their conditions, and a rollout goes no further.
func TestRolloutsPauseWithoutAController(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		_, stop := twoPeerings(f)
		stop = f.runs(stop, "v2")
		f.until("b-1 is replaced", func() string {
			if running := f.running(); !strings.Contains(running, "b-1 v2 not ready") {
				return running
			}
			return ""
		})
		stop()
		f.pause(2 * time.Minute)
		if got, want := f.running(), strings.Replace(allReady("v1"), "b-1 v1 ready", "b-1 v2 not ready", 1); got != want {
			t.Errorf("without a controller: %s, want %s", got, want)
		}
		f.runs(nil, "v2")
		f.untilRunning(allReady("v2"))
	})
}
