package controller

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/network"
	"strait.dev/strait/k8s/controller/workload"
)

// Policies limit what a gateway may write, and the controller does not rely on them.
func TestT6_AReportCountsOnlyForThePodThatWroteIt(t *testing.T) {
	owner := func(kind string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, UID: uid, Controller: new(kind != "Pod")}}
	}
	meta := func(name string, uid types.UID, owners []metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "strait-gateways", Name: name, UID: uid, OwnerReferences: owners}
	}
	for name, row := range map[string]struct {
		change func(set *appsv1.StatefulSet, pod *corev1.Pod, report *v1alpha1.GatewayReport)
		counts bool
	}{
		"as it should be": {func(*appsv1.StatefulSet, *corev1.Pod, *v1alpha1.GatewayReport) {}, true},
		"of an earlier pod": {func(_ *appsv1.StatefulSet, _ *corev1.Pod, r *v1alpha1.GatewayReport) {
			r.OwnerReferences = owner("Pod", "before")
		}, false},
		"of no pod":               {func(_ *appsv1.StatefulSet, _ *corev1.Pod, r *v1alpha1.GatewayReport) { r.OwnerReferences = nil }, false},
		"a pod of no StatefulSet": {func(_ *appsv1.StatefulSet, p *corev1.Pod, _ *v1alpha1.GatewayReport) { p.OwnerReferences = nil }, false},
		"a pod of another": {func(_ *appsv1.StatefulSet, p *corev1.Pod, _ *v1alpha1.GatewayReport) {
			p.OwnerReferences = owner("StatefulSet", "other")
		}, false},
		"of a Peering before": {func(s *appsv1.StatefulSet, _ *corev1.Pod, _ *v1alpha1.GatewayReport) {
			s.OwnerReferences = owner("Peering", "before")
		}, false},
		"more gateways than asked":   {func(_ *appsv1.StatefulSet, p *corev1.Pod, r *v1alpha1.GatewayReport) { p.Name, r.Name = "b-1", "b-1" }, false},
		"in the name of another one": {func(_ *appsv1.StatefulSet, _ *corev1.Pod, r *v1alpha1.GatewayReport) { r.Name = "c-0" }, false},
	} {
		nowhere, err := client.New(&rest.Config{Host: "https://192.0.2.1"})
		if err != nil {
			t.Fatal(err)
		}
		c := &controller{
			gateways: workload.Gateways{Namespace: "strait-gateways"}, pods: nowhere.Pods("strait-gateways").Cache(""),
			statefulSets: nowhere.StatefulSets("strait-gateways").Cache(""), reports: nowhere.GatewayReports("strait-gateways").Cache(""),
		}
		set := &appsv1.StatefulSet{ObjectMeta: meta("b", "set", owner("Peering", "u"))}
		pod := &corev1.Pod{ObjectMeta: meta("b-0", "pod", owner("StatefulSet", "set")), Spec: corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{
			PodIPs:     []corev1.PodIP{{IP: "10.0.1.9"}, {IP: "fe80::1"}, {IP: "none"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}}
		report := &v1alpha1.GatewayReport{ObjectMeta: meta("b-0", "r", owner("Pod", "pod")), Status: v1alpha1.GatewayReportStatus{
			Peering: "b", PublicKey: keyHere, KeyGeneration: 1, MTU: 1400, Links: []v1alpha1.LinkStatus{{Remote: "a-0", Up: true}},
		}}
		row.change(set, pod, report)
		for _, err := range []error{c.statefulSets.GetStore().Add(set), c.pods.GetStore().Add(pod), c.reports.GetStore().Add(report)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "u"}, Spec: v1alpha1.PeeringSpec{Gateway: v1alpha1.GatewaySpec{Replicas: 1}}}
		all := []*v1alpha1.Peering{p, {ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c"}, Spec: p.Spec}}
		merged := merge(all, &network.Network{}, c.gatewayPods(all), noon)
		if g := merged[0].Status.Gateways[0]; g.LinkUp != row.counts || (g.PublicKey == keyHere) != row.counts || (g.MTU == 1400) != row.counts {
			t.Errorf("%s: %+v", name, g)
		} else if row.counts && (g.Node != "node-1" || len(g.PodAddresses) != 1 || g.PodAddresses[0] != "10.0.1.9") {
			t.Errorf("%s: placed at %+v", name, g)
		}
		if g := merged[1].Status.Gateways[0]; g.LinkUp || g.PublicKey != "" || g.MTU != 0 {
			t.Errorf("%s: the other Peering has %+v", name, g)
		}
	}
}

func TestT6_AReportCannotPinItsAnnouncementOrUseAKeyOfTheFuture(t *testing.T) {
	s := working()
	s.report().KeyGeneration, s.report().PublicKey, s.report().NextPublicKey = 7, keyThere, keyThere
	superseding := func(key v1alpha1.PublicKey, at time.Duration) *v1alpha1.Announcement {
		a := s.peering.Status.Announcement.DeepCopy()
		a.HeardAt, a.Superseded = &metav1.MicroTime{Time: noon.Add(at)}, []v1alpha1.PublicKey{key}
		return a
	}
	s.now = noon.Add(time.Minute)
	s.report().Announcement = superseding(keyHere, time.Hour)
	s.pass()
	if g := s.peering.Status.Gateways[0]; g.PublicKey != "" || g.KeyGeneration != 0 || g.NextPublicKey != "" {
		t.Errorf("the gateway is %+v", g)
	}
	if a := s.peering.Status.Announcement; a.HeardAt.After(s.now) || len(a.Superseded) != 1 {
		t.Errorf("in effect is %+v", a)
	}
	s.now = noon.Add(3 * time.Minute)
	s.report().Announcement = superseding(keyThere, 2*time.Minute)
	s.pass()
	if a := s.peering.Status.Announcement; len(a.Superseded) != 1 || a.Superseded[0] != keyThere {
		t.Errorf("a later report does not count: %+v", a)
	}
}

// A pod that is replaced has not reported yet: its keys stay announced, its routes stay.
func TestWhatAGatewayReportedStaysWhileItsPodIsReplaced(t *testing.T) {
	s := working()
	s.report().KeyGeneration, s.peering.Spec.Gateway.Replicas = 1, 2
	s.pods["b-1"] = gatewayPod{Pod: aGatewayPod("b-1", corev1.ConditionTrue), report: &v1alpha1.GatewayReportStatus{PublicKey: keyThere, KeyGeneration: 1}}
	s.pass()
	before := *s.peering.Status.DeepCopy()
	if g := before.Gateways[0]; g.PublicKey != keyHere || !g.LinkUp {
		t.Fatalf("%+v", g)
	}
	s.pods = nil
	s.pass()
	if g := s.peering.Status.Gateways[0]; g.PublicKey != keyHere || g.MTU != 1400 || g.LinkUp {
		t.Errorf("without a pod: %+v", g)
	}
	if s.peering.Status.Announcement == nil {
		t.Error("the announcement is forgotten")
	}
	s.peering.Spec.Gateway.Replicas = 1
	s.pass()
	if len(before.Gateways) != 2 || len(s.peering.Status.Gateways) != 1 {
		t.Errorf("a gateway that was removed stays: %+v", s.peering.Status.Gateways)
	}
}

// Nodes accept overlay packets from these addresses, and another pod may get those of one that has ended.
func TestT1_AGatewayWhosePodHasEndedHasNoAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*scene)
		want int
	}{
		"running":         {func(*scene) {}, 1},
		"being deleted":   {func(s *scene) { s.pods["b-0"].DeletionTimestamp = &metav1.Time{Time: noon} }, 1},
		"evicted":         {func(s *scene) { s.pods["b-0"].Status.Phase = corev1.PodFailed }, 0},
		"ended":           {func(s *scene) { s.pods["b-0"].Status.Phase = corev1.PodSucceeded }, 0},
		"not started yet": {func(s *scene) { s.pods["b-0"].Status.PodIPs = nil }, 0},
		"gone":            {func(s *scene) { s.pods = nil }, 0},
	} {
		s := working()
		s.pods["b-0"].Status.PodIPs = []corev1.PodIP{{IP: "10.0.1.9"}}
		s.pass()
		c.edit(s)
		s.pass()
		if g := s.peering.Status.Gateways[0]; len(g.PodAddresses) != c.want || g.PublicKey != keyHere {
			t.Errorf("%s: %v, want %d addresses, and the key", name, g.PodAddresses, c.want)
		}
	}
}

func TestTheAgeOfAKeyBeginsWithItsFirstUse(t *testing.T) {
	t.Parallel()
	report := func(key v1alpha1.PublicKey, generation int32) *v1alpha1.GatewayReportStatus {
		return &v1alpha1.GatewayReportStatus{PublicKey: key, KeyGeneration: generation, NextPublicKey: keyThere}
	}
	p := &v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{Gateway: v1alpha1.GatewaySpec{KeyGeneration: 2}}}
	g := &v1alpha1.GatewayStatus{}
	for hour, step := range []struct {
		report *v1alpha1.GatewayReportStatus
		since  int // hour; -1: not known
	}{
		{report("", 0), -1}, // no key yet
		{report(keyHere, 1), 1},
		{report(keyHere, 1), 1},
		{report(keyThere, 3), 1}, // not requested
		{report("", 0), 1},       // a pod that starts
		{report(keyThere, 2), 5},
		{report(keyThere, 2), 5},
	} {
		reported(g, p, step.report, noon.Add(time.Duration(hour)*time.Hour+time.Millisecond))
		if step.since < 0 != (g.KeySince == nil) || g.KeySince != nil && !g.KeySince.Time.Equal(noon.Add(time.Duration(step.since)*time.Hour)) {
			t.Errorf("hour %d: since %v, want hour %d", hour, g.KeySince, step.since)
		}
	}
}
