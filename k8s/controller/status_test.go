package controller_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"strait.dev/strait/k8s/api/v1alpha1"
)

const keyThere v1alpha1.PublicKey = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="

// runGateway makes the pod of a gateway, which no kubelet runs, and says whether it is
// ready.
func (f *fixture) runGateway(name string, ready corev1.ConditionStatus) *corev1.Pod {
	f.Helper()
	return f.kubelet(name, func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.PodIPs = corev1.PodRunning, []corev1.PodIP{{IP: "10.0.0.9"}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	})
}

// kubelet changes the status of a gateway's pod, whose conditions the controller writes too.
func (f *fixture) kubelet(name string, change func(*corev1.Pod)) (pod *corev1.Pod) {
	f.Helper()
	must(f.T, retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		pod = f.gatewayPod(name)
		change(pod)
		pod, err = f.Pods(gateways).UpdateStatus(f.Context(), pod, metav1.UpdateOptions{})
		return err
	}))
	return pod
}

// gatewayPod is the pod of a gateway. It is made if there is none, as soon as its
// StatefulSet exists.
func (f *fixture) gatewayPod(name string) *corev1.Pod {
	f.Helper()
	f.cluster.Account(f.T, gateways, "default", nil)
	pods, no, now := f.Pods(gateways), false, int64(0)
	pod, err := pods.Get(f.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		must(f.T, err)
		return pod
	}
	peering := name[:strings.LastIndexByte(name, '-')]
	var set *appsv1.StatefulSet
	f.until("the StatefulSet of "+name, func() string {
		if set, err = f.StatefulSets(gateways).Get(f.Context(), peering, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	pod, err = pods.Create(f.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"strait.dev/peering": peering},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec: corev1.PodSpec{
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "strait.dev/LinksUp"}},
			NodeName:       "node-1", AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "gateway", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	must(f.T, err)
	f.Cleanup(func() {
		err := pods.Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if err != nil && !apierrors.IsNotFound(err) {
			f.Error(err)
		}
	})
	return pod
}

// say writes the report of a gateway.
func (f *fixture) say(gateway string, s v1alpha1.GatewayReportStatus) {
	f.Helper()
	pod := f.gatewayPod(gateway)
	s.Peering = gateway[:strings.LastIndex(gateway, "-")]
	_, err := f.GatewayReports(gateways).Apply(f.Context(), reportOf(pod, s), "strait-gateway")
	must(f.T, err)
}

// reportOf is the report of the gateway in a pod.
func reportOf(pod *corev1.Pod, s v1alpha1.GatewayReportStatus) *v1alpha1.GatewayReport {
	return &v1alpha1.GatewayReport{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}},
		Status:     s,
	}
}

// announces is what a remote cluster with these ranges says of itself.
func announces(cluster v1alpha1.ClusterID, ranges ...v1alpha1.CIDR) v1alpha1.GatewayReportStatus {
	now := metav1.NowMicro()
	return v1alpha1.GatewayReportStatus{Announcement: &v1alpha1.Announcement{
		Revision: now.UnixMicro(), HeardAt: &now, ClusterID: cluster, Prefixes: ranges,
		Gateways: []v1alpha1.AnnouncedGateway{{Name: "a-0", PublicKeys: []v1alpha1.PublicKey{keyThere}}},
	}}
}

// accept applies a peering with one gateway that names no range of the remote cluster.
func (f *fixture) accept(name string, within ...v1alpha1.AcceptedCIDR) {
	f.Helper()
	_, err := f.Peerings().Apply(f.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PeeringSpec{
		AcceptPrefixes: within, Peers: []v1alpha1.Peer{{Name: "a-0", PublicKey: keyThere, Endpoint: "gw.example:51840"}},
		Gateway: v1alpha1.GatewaySpec{Replicas: 1},
	}}, "admin")
	must(f.T, err)
}

func (f *fixture) peering(name string) *v1alpha1.Peering {
	f.Helper()
	is, err := f.Peerings().Get(f.Context(), name, metav1.GetOptions{})
	must(f.T, err)
	return is
}

// untilCondition waits for a condition that begins like "True LinkUp".
func (f *fixture) untilCondition(peering, kind, want string) {
	f.Helper()
	f.until(kind+" of Peering "+peering, func() string {
		is := f.peering(peering)
		c := meta.FindStatusCondition(is.Status.Conditions, kind)
		if c == nil {
			return "missing"
		}
		if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); !strings.HasPrefix(got, want) || c.ObservedGeneration != is.Generation {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	})
}

// T7: a remote cluster does not choose which of this cluster's destinations it takes over,
// also where this cluster does not use them.
func TestT7_AnnouncedRangesCaptureNothing(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.accept("b", "10.0.0.0/8", "172.16.0.0/12")
		f.untilSeen("b", "NoConflict")
		f.untilCondition("b", "Announced", "Unknown NotAnnounced")
		f.untilCondition("b", "Routed", "False NoRanges")

		f.say("b-0", announces("cluster-b", "10.0.0.0/16", "172.20.0.0/16"))
		const first = "10.0.0.0/16>10.64.0.0/16 172.20.0.0/16>10.65.0.0/16 Remapped"
		f.untilSeen("b", first)
		f.untilCondition("b", "Announced", "True Granted")
		if got := f.peering("b").Status.ClusterID; got != "cluster-b" {
			t.Errorf("the cluster ID is %q", got)
		}
		f.say("b-0", announces("cluster-b", "10.9.0.0/16", "10.0.0.0/16")) // what stays is seen where it was
		f.untilSeen("b", "10.9.0.0/16>10.66.0.0/16 10.0.0.0/16>10.64.0.0/16 Remapped")
		f.untilClaims("10.66.0.0-16", "10.64.0.0-16", "10.80.0.1-32", "10.70.0.1-32", "10.80.255.1-32", "10.70.0.2-32")

		f.say("b-0", announces("cluster-b", "172.16.0.0/12"))
		f.untilSeen("b", "172.16.0.0/12>10.112.0.0/12 Remapped")
		if got, want := f.conflict("b").Message, "172.16.0.0/12 is mapped to 10.112.0.0/12: 172.16.0.0/12 was announced by the remote cluster, and is not listed in the Peering"; got != want {
			t.Errorf("the condition says %s, want %s", got, want)
		}

		f.say("b-0", announces("cluster-c", "10.9.0.0/16")) // another cluster cannot take its place
		f.untilCondition("b", "Announced", "False Refused the announcement of the remote cluster is no longer granted: it is from cluster cluster-c, but Peering b is with cluster cluster-b, which announced itself first")
		f.untilSeen("b", "172.16.0.0/12>10.112.0.0/12 Remapped")
	})
}

func TestT7_AnnouncedExternalAndPublicRangesAreMappedAlsoIfAllAreAccepted(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.accept("b", "8.0.0.0/8", "172.16.0.0/12")
		report := announces("cluster-b", "8.8.8.0/24")
		report.Announcement.ExternalPrefixes = []v1alpha1.CIDR{"172.20.0.0/16", "8.9.0.0/16"}
		f.say("b-0", report)
		f.untilSeen("b", "8.8.8.0/24>10.66.0.0/24 Remapped")
		if got, want := fmt.Sprint(f.peering("b").Status.ExternalPrefixes), "[{172.20.0.0/16 10.65.0.0/16} {8.9.0.0/16 10.64.0.0/16}]"; got != want {
			t.Errorf("the external prefixes are %s, want %s", got, want)
		}
	})
}

// Before the first announcement, a Peering has the ranges that it lists. What it has got for
// them, it keeps.
func TestRangesOfAPeeringKeepTheirAddressesOnceTheyHaveThem(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.accept("b", "172.16.0.0/12")
		list := func(prefixes ...v1alpha1.RemotePrefix) {
			is := f.peering("b")
			is.Spec.Prefixes = prefixes
			_, err := f.Peerings().Update(t.Context(), is, metav1.UpdateOptions{})
			must(t, err)
		}
		list(v1alpha1.RemotePrefix{CIDR: "172.20.0.0/16"})
		f.untilSeen("b", "172.20.0.0/16>172.20.0.0/16 NoConflict")
		f.say("b-0", announces("cluster-b", "172.20.0.0/16", "172.21.0.0/16"))
		f.untilSeen("b", "172.20.0.0/16>172.20.0.0/16 172.21.0.0/16>10.64.0.0/16 Remapped")

		list() // neither moves without an order
		f.say("b-0", announces("cluster-b", "172.22.0.0/16", "172.20.0.0/16", "172.21.0.0/16"))
		f.untilSeen("b", "172.22.0.0/16>10.65.0.0/16 172.20.0.0/16>172.20.0.0/16 172.21.0.0/16>10.64.0.0/16 Remapped")
		list(v1alpha1.RemotePrefix{CIDR: "172.22.0.0/16"}, v1alpha1.RemotePrefix{CIDR: "172.21.0.0/16", SeenAs: "172.21.0.0/16"})
		f.untilSeen("b", "172.22.0.0/16>10.65.0.0/16 172.20.0.0/16>172.20.0.0/16 172.21.0.0/16>172.21.0.0/16 Remapped")
	})
}

func TestABadAnnouncementChangesNothingElse(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.peer("c", 1, "10.3.0.0/16")
		f.peer("b", 1, "10.1.0.0/16")
		f.untilSeen("c", "10.3.0.0/16>10.3.0.0/16 NoConflict")
		f.untilSeen("b", "10.1.0.0/16>10.1.0.0/16 NoConflict")
		f.untilCondition("c", "Ready", "False NoGatewayReady")
		f.untilCondition("b", "Ready", "False NoGatewayReady")
		b, c := f.peering("b"), f.peering("c")

		f.say("b-0", announces("b", "10.1.0.0/16", "10.3.0.0/16")) // what c sees
		f.untilCondition("b", "Announced", "False Refused the announcement of the remote cluster is no longer granted: pods: 10.3.0.0/16 is not granted")
		if now := f.peering("c"); now.ResourceVersion != c.ResourceVersion {
			t.Errorf("the other peering became %+v, was %+v", now.Status, c.Status)
		}
		now := f.peering("b")
		now.Status.Gateways[0].Node = "" // of the pod that reported
		if !reflect.DeepEqual(now.Status.Prefixes, b.Status.Prefixes) || !reflect.DeepEqual(now.Status.Gateways, b.Status.Gateways) || now.Status.ClusterID != "b" {
			t.Errorf("the peering became %+v, was %+v", now.Status, b.Status)
		}
		f.untilClaims("10.1.0.0-16", "10.3.0.0-16", "10.80.0.1-32", "10.70.0.1-32", "10.80.255.1-32", "10.70.0.2-32", "10.80.255.2-32", "10.70.0.3-32")
	})
}

// links is what a gateway says whose link is up.
func links(rtt time.Duration) v1alpha1.GatewayReportStatus {
	shaken := metav1.NewTime(time.Now().Add(-20 * time.Second).Truncate(time.Second))
	return v1alpha1.GatewayReportStatus{
		MTU: 1400,
		Links: []v1alpha1.LinkStatus{{Remote: "a-0", Up: true, PathMTU: 1400, Endpoint: "198.51.100.7:51840",
			RTT: &metav1.Duration{Duration: rtt}, LastHandshake: &shaken}},
	}
}

// Every node watches the status of Peerings. make scale measures the same on a real API
// server.
func TestF23_MeasurementsOfManyGatewaysCauseNoWriteThatNodesWatch(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		const gateways = 16
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.peer("b", gateways, "10.1.0.0/16")
		measured := func(round int) {
			t.Helper()
			for i := range gateways {
				s := v1alpha1.GatewayReportStatus{MTU: 1400}
				for j := range gateways {
					link := links(time.Duration(1+(round+i+j)%7) * time.Millisecond).Links[0]
					link.Remote, link.Endpoint = fmt.Sprint("a-", j), v1alpha1.Endpoint(fmt.Sprintf("198.51.100.7:%d", 50000+round))
					s.Links = append(s.Links, link)
				}
				f.say(fmt.Sprint("b-", i), s)
			}
		}
		for i := range gateways {
			f.runGateway(fmt.Sprint("b-", i), corev1.ConditionTrue)
		}
		measured(0)
		f.untilCondition("b", "TunnelUp", "True LinkUp 256 links are up")
		f.pause(time.Minute)
		before := f.peering("b")
		if g := before.Status.Gateways; len(g) != gateways || !g[0].LinkUp || g[0].Node != "node-1" || !slices.Equal(g[0].PodAddresses, []v1alpha1.IP{"10.0.0.9"}) || g[0].MTU != 1400 {
			t.Errorf("gateways %+v", g)
		}
		for round := range 6 {
			measured(1 + round)
			f.pause(10 * time.Second)
		}
		f.pause(time.Minute)
		if now := f.peering("b"); now.ResourceVersion != before.ResourceVersion {
			t.Errorf("the status became %+v, was %+v", now.Status, before.Status)
		}
		down := links(time.Millisecond)
		down.Links[0].Up = false
		f.say("b-0", down)
		f.until("the gateway has no link", func() string {
			if f.peering("b").Status.Gateways[0].LinkUp {
				return "it has"
			}
			return ""
		})
	})
}

// confirm reports for the node helper whether gateway b-0 answers.
func (f *fixture) confirm(node string, ready bool) {
	f.Helper()
	f.until("NodeAttachment "+node, func() string {
		message := ""
		if !ready {
			message = "no answer"
		}
		_, err := f.NodeAttachments().ApplyStatus(f.Context(), &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: node},
			Status: v1alpha1.NodeAttachmentStatus{Gateways: []v1alpha1.NodeGateway{{Name: "b-0", VNI: 257, Ready: ready, Message: message}}}}, "strait-node")
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// untilEvents waits for events about an object that begin like "Warning Lost".
func (f *fixture) untilEvents(kind string, about metav1.Object, want ...string) {
	f.Helper()
	uid := string(about.GetUID())
	f.until("events", func() string {
		list, err := f.Events("default").List(f.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + uid})
		must(f.T, err)
		var got []string
		for _, e := range list.Items {
			if e.ReportingController != "strait.dev/controller" || e.Action == "" || e.InvolvedObject.Kind != kind {
				f.Fatalf("%+v", e)
			}
			got = append(got, fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Message))
		}
		for _, one := range want {
			if !slices.ContainsFunc(got, func(text string) bool { return strings.HasPrefix(text, one) }) {
				return fmt.Sprintf("%q, want %q", got, one)
			}
		}
		return ""
	})
}

func TestEachChangeIsAnnouncedWithARevisionOfItsOwn(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.accept("b", "10.1.0.0/16")
		f.runGateway("b-0", corev1.ConditionTrue)
		until := func(revision int64, gateways int) {
			t.Helper()
			f.until(fmt.Sprint("revision ", revision), func() string {
				a := f.peering("b").Status.Announced
				if a == nil || a.Revision != revision || len(a.Gateways) != gateways {
					return fmt.Sprintf("%+v", a)
				}
				return ""
			})
		}
		f.pause(time.Minute)
		if a := f.peering("b").Status.Announced; a != nil {
			t.Errorf("without a key: %+v", a)
		}
		says := v1alpha1.GatewayReportStatus{PublicKey: publicKey, KeyGeneration: 1}
		f.say("b-0", says)
		until(1, 1)
		says.RevisionInEffect = 57 // the Peering was created again
		f.say("b-0", says)
		until(58, 1)
		f.pause(10 * time.Minute) // the report is not newer
		until(58, 1)
		says.RevisionInEffect = 0
		f.say("b-0", says)
		f.pause(10 * time.Minute)
		until(58, 1)
		must(t, func() error {
			_, err := f.Peerings().Patch(f.Context(), "b", types.MergePatchType, []byte(`{"spec":{"gateway":{"replicas":2}}}`), metav1.PatchOptions{})
			return err
		}())
		f.say("b-1", v1alpha1.GatewayReportStatus{PublicKey: publicKey2, KeyGeneration: 1})
		until(59, 2)
	})
}
