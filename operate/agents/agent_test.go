package agents

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func TestAgentsPassTheStandardOfTheirNamespace(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	passes := func(a Agent, level api.Level) policy.AggregateCheckResult {
		pod := a.pod(Options{Image: "strait.dev/strait:1", Purpose: "verify"}, nil)
		return policy.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
	}
	ports := []corev1.ContainerPort{{ContainerPort: 6099}}
	if is := passes(Agent{Name: "a", Profile: Restricted, Ports: ports}, api.LevelRestricted); !is.Allowed {
		t.Errorf("a Restricted agent is refused: %s", is.ForbiddenDetail())
	}
	if passes(Agent{Name: "a", Profile: Node}, api.LevelBaseline).Allowed {
		t.Error("a Node agent passes baseline: it needs no namespace of its own")
	}
}

func TestTheImageOrTheClusterChoosesTheUIDOfRestrictedAgents(t *testing.T) {
	if is := (Agent{Name: "a"}).pod(Options{Image: "i"}, nil).Spec.SecurityContext; is.RunAsUser != nil || is.RunAsGroup != nil || !*is.RunAsNonRoot {
		t.Errorf("the security context is %+v", is)
	}
	if is := (Agent{Name: "a", Profile: Node}).pod(Options{Image: "i"}, nil).Spec.SecurityContext; *is.RunAsUser != 0 || is.RunAsNonRoot != nil {
		t.Errorf("the security context of a Node agent is %+v", is)
	}
}

func TestOnlyThoseWhoLookAtPacketsHaveCapabilities(t *testing.T) {
	for profile, want := range map[Profile]int{Restricted: 0, Node: 2} {
		pod := Agent{Name: "a", Profile: profile}.pod(Options{Image: "i"}, nil)
		c := pod.Spec.Containers[0].SecurityContext
		if len(c.Capabilities.Add) != want || len(c.Capabilities.Drop) != 1 || *c.AllowPrivilegeEscalation || c.Privileged != nil || pod.Spec.HostPID {
			t.Errorf("profile %d: %+v", profile, c)
		}
		if *pod.Spec.AutomountServiceAccountToken {
			t.Errorf("profile %d: has a token that it does not need", profile)
		}
	}
}

func TestAnAgentIsBoundToItsNodeThroughTheScheduler(t *testing.T) {
	pod := Agent{Name: "a", Node: "n2"}.pod(Options{Image: "i"}, nil)
	if pod.Spec.NodeName != "" || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0] != "n2" {
		t.Errorf("%+v, want an affinity to the node", pod.Spec.Affinity)
	}
}

func TestWhatKeepsAPodFromRunningIsSaid(t *testing.T) {
	waiting := func(reason, message string) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}},
		}}}
	}
	for _, c := range []struct {
		pod     *corev1.Pod
		state   string
		refused bool
	}{
		{nil, "unknown", false},
		{waiting("ContainerCreating", ""), "Pending", false},
		{waiting("ImagePullBackOff", "no such image"), "ImagePullBackOff: no such image", true},
		{waiting("ErrImageNeverPull", ""), "ErrImageNeverPull", true},
		{&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2 nodes are available"},
		}}}, "Unschedulable: 0/2 nodes are available", false},
		{&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}},
		}}}, "exit code 1 Error", false},
	} {
		if is := state(c.pod); is != c.state {
			t.Errorf("%q, want %q", is, c.state)
		}
		if c.pod != nil && refused(c.pod) != c.refused {
			t.Errorf("%s: refused is %v", c.state, !c.refused)
		}
	}
}
