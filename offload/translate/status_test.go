package translate_test

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/translate"
)

var (
	reach = []merge.Mapping{
		{CIDR: netip.MustParsePrefix("10.0.0.0/16"), SeenAs: netip.MustParsePrefix("10.71.0.0/16")},
		{CIDR: netip.MustParsePrefix("fd00:10::/48"), SeenAs: netip.MustParsePrefix("fd00:71::/48")},
	}
	earlier = metav1.NewTime(time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
	now     = metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
)

// running returns the status of a twin that runs.
func running() *corev1.PodStatus {
	return &corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "192.0.2.7", HostIPs: []corev1.HostIP{{IP: "192.0.2.7"}}, NominatedNodeName: "n",
		PodIP: "10.0.2.9", PodIPs: []corev1.PodIP{{IP: "10.0.2.9"}, {IP: "fd00:10::9"}}, StartTime: &earlier,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: "forged.example/condition", Status: corev1.ConditionTrue},
		},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true, RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: earlier}}}},
	}
}

// condition returns the status of a condition, empty if there is none.
func condition(s corev1.PodStatus, of corev1.PodConditionType) string {
	for _, c := range s.Conditions {
		if c.Type == of {
			return string(c.Status)
		}
	}
	return ""
}

func TestAStatusHasTheAddressesOfTheConsumer(t *testing.T) {
	t.Parallel()
	p := pod()
	p.Spec.ReadinessGates = nil
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: earlier}}}
	s := translate.Status(p, translate.Report(running()), 1, node, reach, now)
	if want := []corev1.PodIP{{IP: "10.71.2.9"}, {IP: "fd00:71::9"}}; s.PodIP != "10.71.2.9" || !reflect.DeepEqual(s.PodIPs, want) {
		t.Errorf("podIP %s, podIPs %v", s.PodIP, s.PodIPs)
	}
	if s.HostIP != "10.0.1.9" || len(s.HostIPs) != 2 || s.NominatedNodeName != "" {
		t.Errorf("host addresses %s, %v", s.HostIP, s.HostIPs)
	}
	if s.Phase != corev1.PodRunning || s.QOSClass != corev1.PodQOSBurstable || condition(s, corev1.PodReady) != "True" ||
		condition(s, corev1.PodScheduled) != "True" || condition(s, "forged.example/condition") != "" {
		t.Errorf("%+v", s)
	}
	p.Status = s
	if again := translate.Status(p, translate.Report(running()), 1, node, reach, metav1.NewTime(now.Add(time.Hour))); !equality.Semantic.DeepEqual(s, again) {
		t.Errorf("the same status of the twin becomes\n%+v\nand an hour later\n%+v", s, again)
	}
}

func TestAnAddressOutsideOfThePeeringIsNotTakenOver(t *testing.T) {
	t.Parallel()
	p := pod()
	p.Spec.ReadinessGates = nil
	twin := running()
	for _, forged := range []string{"10.9.0.1", "192.0.2.1", "127.0.0.1", "10.0.0.1%eth0", "", "name.example"} {
		twin.PodIP, twin.PodIPs = forged, []corev1.PodIP{{IP: forged}}
		if s := translate.Status(p, twin, 1, node, reach, now); s.PodIP != "" || s.PodIPs != nil || condition(s, corev1.PodReady) != "False" {
			t.Errorf("of %q: podIPs %v, Ready %s", forged, s.PodIPs, condition(s, corev1.PodReady))
		}
	}
}

func TestReadinessGatesAreThoseOfTheConsumer(t *testing.T) {
	t.Parallel()
	p := pod() // with a gate
	if s := translate.Status(p, running(), 1, node, reach, now); condition(s, corev1.PodReady) != "False" {
		t.Error("ready without its gate")
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: "example.com/gate", Status: corev1.ConditionTrue}}
	s := translate.Status(p, running(), 1, node, reach, now)
	if condition(s, corev1.PodReady) != "True" || condition(s, "example.com/gate") != "True" {
		t.Errorf("%+v", s.Conditions)
	}
}

func TestPhasesOnlyAdvance(t *testing.T) {
	t.Parallel()
	p := pod()
	for _, step := range []struct{ twin, want corev1.PodPhase }{
		{"", corev1.PodPending}, {corev1.PodPending, corev1.PodPending}, {corev1.PodRunning, corev1.PodRunning},
		{corev1.PodPending, corev1.PodRunning}, // a twin was made again
		{corev1.PodUnknown, corev1.PodRunning}, {"Forged", corev1.PodRunning},
		{corev1.PodSucceeded, corev1.PodSucceeded}, {corev1.PodRunning, corev1.PodSucceeded}, {corev1.PodFailed, corev1.PodSucceeded},
	} {
		twin := running()
		twin.Phase = step.twin
		p.Status = translate.Status(p, twin, 1, node, reach, now)
		if p.Status.Phase != step.want {
			t.Errorf("after a twin in phase %q the pod is %q, want %q", step.twin, p.Status.Phase, step.want)
		}
	}
	if condition(p.Status, corev1.PodReady) != "False" || condition(p.Status, corev1.ContainersReady) != "False" {
		t.Errorf("finished, and %+v", p.Status.Conditions)
	}
}

func TestEachNewTwinIsARestart(t *testing.T) {
	t.Parallel()
	for made, want := range map[int32]int32{0: 1, 1: 1, 3: 3} {
		if s := translate.Status(pod(), running(), made, node, reach, now); s.ContainerStatuses[0].RestartCount != want {
			t.Errorf("%d twins, the last of which restarted once: %d restarts", made, s.ContainerStatuses[0].RestartCount)
		}
	}
}

func TestAStatusIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 70_000)
	s := running()
	s.Message, s.Reason = long, long
	s.ContainerStatuses = nil
	for range 100 {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: "c", Image: long, ImageID: long, ContainerID: long,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Message: long}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: long}},
		})
	}
	text, err := translate.Report(s).Marshal()
	if err != nil || len(text) > 32<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
