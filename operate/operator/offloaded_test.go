package operator

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/fakekube"
)

func TestStatusHasTheOffloadedPods(t *testing.T) {
	t.Parallel()
	pod := func(namespace, name, node string, labels map[string]string, status corev1.PodStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Status: status,
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}}}}},
		}
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110")}
	of := map[string]string{"strait.dev/peering": "b"}
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	s := fakekube.New(
		&v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{
			Borrow: &v1alpha1.PeeringBorrow{}, Lend: &v1alpha1.PeeringLend{Namespaces: []string{"jobs"}}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "strait-b"}, Status: corev1.NodeStatus{Allocatable: capacity, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "jobs"}},
		pod("shop", "web-0", "strait-b", nil, running),
		pod("shop", "web-1", "strait-b", nil, corev1.PodStatus{Phase: corev1.PodPending, Reason: "ObjectMissing"}),
		pod("shop", "done", "strait-b", nil, corev1.PodStatus{Phase: corev1.PodSucceeded}),
		pod("shop", "local", "node-1", nil, running),
		pod("jobs", "twin", "node-1", of, running),
		pod("jobs", "own", "node-1", nil, running),
	)
	r := &Report{Peerings: []PeeringReport{{Name: "b"}, {Name: "c"}}}
	must(t, r.readOffload(t.Context(), Cluster{Name: "a", Client: s.Client(t)}))
	if r.Peerings[1].Offload != nil {
		t.Errorf("a Peering that is gone has %+v", r.Peerings[1].Offload)
	}
	var b strings.Builder
	r.Peerings[0].Offload.table(&b)
	want := `
  virtual node strait-b: ready Unknown, cpu 1 of 4, memory 2Gi of 8Gi, pods 2 of 110
  its pods: 1 Pending, 1 Running, 1 Succeeded
  waiting: 1 ObjectMissing; look at the events of these pods
  lent: jobs; pods of the remote cluster: 1 Running
`
	if b.String() != want {
		t.Errorf("got  %s\nwant %s", b.String(), want)
	}
	must(t, s.Client(t).Nodes().Delete(t.Context(), "strait-b", metav1.DeleteOptions{}))
	must(t, r.readOffload(t.Context(), Cluster{Name: "a", Client: s.Client(t)}))
	if is := r.Peerings[0].Offload; is.Ready != "Missing" || len(is.Offered) > 0 {
		t.Errorf("without its node: %+v", is)
	}
}

func TestStatusHasTheOffloadedPodsAlsoAfterAWait(t *testing.T) {
	t.Parallel()
	s := fakekube.New(
		&v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}, Status: v1alpha1.ClusterNetworkStatus{ClusterID: "a"}},
		&v1alpha1.Peering{
			ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{Borrow: &v1alpha1.PeeringBorrow{}},
			Status: v1alpha1.PeeringStatus{Gateways: []v1alpha1.GatewayStatus{{Name: "b-0"}}},
		},
		&v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
			Status: v1alpha1.NodeAttachmentStatus{Gateways: []v1alpha1.NodeGateway{{Name: "b-0", State: "Forwarding", InUse: true}}}},
	)
	r, err := Await(t.Context(), Cluster{Name: "a", Client: s.Client(t)}, nil, Waiting{For: time.Millisecond})
	var late *TimeoutError
	if !errors.As(err, &late) || r == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	if is := r.Peerings[0]; is.Offload == nil || is.Offload.Ready != "Missing" || is.Spread[0].Nodes != 1 || is.Spread[0].InUse != 1 {
		t.Errorf("after a timeout: %+v, %+v", is.Offload, is.Spread)
	}
}
