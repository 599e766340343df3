package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/services/merge"
)

// Limits of a reported status, in bytes. The longest text is the termination message of a
// container. If a status is longer as a whole, its texts are shortened further.
const (
	maxText      = 4 << 10
	maxShortText = 64
	maxReport    = 32 << 10
)

// kubelets are the conditions that a node reports of a pod. Others belong to controllers of
// the consumer and stay as they are.
var kubelets = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
}

// Report returns what the consumer gets of a twin's status. It is limited in size.
func Report(s *corev1.PodStatus) *corev1.PodStatus {
	r := report(s, maxText)
	if r.Size() > maxReport {
		r = report(s, maxShortText)
	}
	return r
}

func report(s *corev1.PodStatus, limit int) *corev1.PodStatus {
	r := &corev1.PodStatus{
		Phase: corev1.PodPhase(clip(string(s.Phase), maxShortText)), Reason: clip(s.Reason, limit), Message: clip(s.Message, limit), StartTime: s.StartTime,
	}
	for _, ip := range s.PodIPs[:min(len(s.PodIPs), 2)] {
		r.PodIPs = append(r.PodIPs, corev1.PodIP{IP: clip(ip.IP, maxShortText)})
	}
	r.InitContainerStatuses = containers(s.InitContainerStatuses, maxContainers, limit)
	r.ContainerStatuses = containers(s.ContainerStatuses, maxContainers-len(r.InitContainerStatuses), limit)
	for _, of := range kubelets {
		i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == of })
		if i < 0 {
			continue
		}
		c := &s.Conditions[i]
		r.Conditions = append(r.Conditions, corev1.PodCondition{
			Type: of, Status: corev1.ConditionStatus(clip(string(c.Status), maxShortText)), LastTransitionTime: c.LastTransitionTime,
			Reason: clip(c.Reason, limit), Message: clip(c.Message, limit),
		})
	}
	return r
}

// containers returns at most most statuses of containers, with the fields that describe them and
// not their node.
func containers(all []corev1.ContainerStatus, most, limit int) (some []corev1.ContainerStatus) {
	for _, c := range all[:min(len(all), most)] {
		some = append(some, corev1.ContainerStatus{
			Name: clip(c.Name, maxShortText), State: state(c.State, limit), LastTerminationState: state(c.LastTerminationState, limit),
			Ready: c.Ready, RestartCount: c.RestartCount, Started: c.Started,
			Image: clip(c.Image, limit), ImageID: clip(c.ImageID, limit), ContainerID: clip(c.ContainerID, limit),
		})
	}
	return some
}

func state(s corev1.ContainerState, limit int) corev1.ContainerState {
	s = *s.DeepCopy()
	if w := s.Waiting; w != nil {
		w.Reason, w.Message = clip(w.Reason, limit), clip(w.Message, limit)
	}
	if t := s.Terminated; t != nil {
		t.Reason, t.Message, t.ContainerID = clip(t.Reason, limit), clip(t.Message, limit), clip(t.ContainerID, limit)
	}
	return s
}

// Final reports whether a phase is terminal.
func Final(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// Lost is the status of a twin that is gone and not made again.
func Lost() *corev1.PodStatus {
	return &corev1.PodStatus{
		Phase: corev1.PodFailed, Reason: "TwinLost",
		Message: "the pod was deleted in the other cluster, and its restart policy permits no second run",
	}
}

// Status returns the status of a pod of the consumer, given that of its twin as Report returns it. made is how many
// twins were made so far: each is a restart of all containers. An address that reach does not
// map is left out: the provider cannot draw traffic to other addresses. A terminal status is
// final. The times of conditions that change are now.
func Status(pod *corev1.Pod, twin *corev1.PodStatus, made int32, node Node, reach []merge.Mapping, now metav1.Time) corev1.PodStatus {
	if Final(pod.Status.Phase) {
		return *pod.Status.DeepCopy()
	}
	is := *pod.Status.DeepCopy()
	r := twin.DeepCopy()
	is.Reason, is.Message, is.StartTime = r.Reason, r.Message, r.StartTime
	is.InitContainerStatuses, is.ContainerStatuses = r.InitContainerStatuses, r.ContainerStatuses
	for _, list := range [][]corev1.ContainerStatus{is.InitContainerStatuses, is.ContainerStatuses} {
		for i := range list {
			list[i].RestartCount += max(made-1, 0)
		}
	}
	if is.Phase == "" {
		is.Phase = corev1.PodPending
	}
	if r.Phase == corev1.PodRunning || Final(r.Phase) { // never back to Pending: phases only advance
		is.Phase = r.Phase
	}
	is.PodIP, is.PodIPs = "", nil
	for _, ip := range r.PodIPs {
		if mapped, ok := merge.Translate(reach, ip.IP); ok {
			is.PodIPs = append(is.PodIPs, corev1.PodIP{IP: mapped.String()})
		}
	}
	if len(is.PodIPs) > 0 {
		is.PodIP = is.PodIPs[0].IP
	}
	is.HostIP, is.HostIPs = "", nil
	for i, a := range node.Addresses {
		if i == 0 {
			is.HostIP = a
		}
		is.HostIPs = append(is.HostIPs, corev1.HostIP{IP: a})
	}
	for _, c := range r.Conditions {
		if c.Type != corev1.PodReady {
			setCondition(&is, c, now)
		}
	}
	setCondition(&is, ready(pod, &is), now)
	if Final(is.Phase) {
		setCondition(&is, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "PodCompleted"}, now)
	}
	return is
}

// Waiting returns the status of a pod that has no twin, for a reason. It is not ready, if it was:
// there is nothing at its address.
func Waiting(pod *corev1.Pod, reason, message string, now metav1.Time) corev1.PodStatus {
	is := *pod.Status.DeepCopy()
	if is.Phase == "" {
		is.Phase = corev1.PodPending
	}
	if Final(is.Phase) {
		return is
	}
	is.Reason, is.Message = clip(reason, maxText), clip(message, maxText)
	for _, of := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		if holds(&is, of) {
			setCondition(&is, corev1.PodCondition{Type: of, Status: corev1.ConditionFalse, Reason: "NoTwin"}, now)
		}
	}
	return is
}

// ready returns the condition Ready of a pod: its containers are ready, other pods reach it, and
// the readiness gates of the consumer are met.
func ready(pod *corev1.Pod, is *corev1.PodStatus) corev1.PodCondition {
	no := func(reason, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	}
	switch {
	case Final(is.Phase):
		return no("PodCompleted", "")
	case !holds(is, corev1.ContainersReady):
		return no("ContainersNotReady", "")
	case len(is.PodIPs) == 0:
		return no("AddressNotMapped", "the Peering maps no address of the pod into this cluster; check status.prefixes of the Peering")
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if !holds(is, gate.ConditionType) {
			return no("ReadinessGatesNotReady", "the condition "+string(gate.ConditionType)+" is not True")
		}
	}
	return corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
}

func holds(s *corev1.PodStatus, of corev1.PodConditionType) bool {
	return slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == of && c.Status == corev1.ConditionTrue })
}

// setCondition sets a condition. The time of its last transition changes only with its status.
func setCondition(s *corev1.PodStatus, c corev1.PodCondition, now metav1.Time) {
	i := slices.IndexFunc(s.Conditions, func(was corev1.PodCondition) bool { return was.Type == c.Type })
	if i < 0 {
		c.LastTransitionTime = now
		s.Conditions = append(s.Conditions, c)
		return
	}
	was := &s.Conditions[i]
	c.LastTransitionTime, c.LastProbeTime, c.ObservedGeneration = was.LastTransitionTime, was.LastProbeTime, was.ObservedGeneration
	if was.Status != c.Status {
		c.LastTransitionTime = now
	}
	*was = c
}
