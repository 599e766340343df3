package offload_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/operate/offload"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/fakekube"
)

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// More of one resource is lent: the limit of the other one stays, and does not become all that the
// cluster has.
func TestALimitThatIsNotGivenStaysAsItIs(t *testing.T) {
	t.Parallel()
	c := operator.Cluster{Name: "b", Client: fakekube.New(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine"}, Status: corev1.NodeStatus{Allocatable: resources("64", "512Gi")}},
		&v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.PeeringSpec{Lend: &v1alpha1.PeeringLend{Resources: resources("8", "16Gi")}}},
	).Client(t)}
	plan, err := offload.PlanLend(t.Context(), c, offload.LendOptions{Peering: "a", Namespaces: []string{"shop"}, Level: "restricted",
		Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("12")}})
	if err != nil {
		t.Fatal(err)
	}
	if text := plan.YAML(); !strings.Contains(text, `requests.cpu: "12"`) || !strings.Contains(text, `requests.memory: "16Gi"`) {
		t.Errorf("the plan is\n%s", text)
	}
}

// The borrower would write the status of a machine, and remove the pods that it runs.
func TestTheNodeOfAMachineIsNotBorrowed(t *testing.T) {
	t.Parallel()
	c := operator.Cluster{Name: "a", Client: fakekube.New(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "virtual", Labels: map[string]string{"strait.dev/peering": "b"}}},
		&v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
	).Client(t)}
	for name, want := range map[string]string{"": "", "virtual": "", "machine": "choose another name: --node-name"} {
		_, err := offload.PlanBorrow(t.Context(), c, offload.BorrowOptions{Peering: "b", NodeName: name})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("node %q: %v", name, err)
		}
	}
}

// A Peering written by hand may name a machine, which would be drained and deleted.
func TestTheNodeOfAMachineIsNotRemoved(t *testing.T) {
	t.Parallel()
	c := operator.Cluster{Name: "a", Client: fakekube.New(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine"}},
		&v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{Borrow: &v1alpha1.PeeringBorrow{NodeName: "machine"}}},
	).Client(t)}
	if _, err := offload.Unborrow(t.Context(), c, offload.UnborrowOptions{Peering: "b"}); err == nil || !strings.Contains(err.Error(), "remove spec.borrow") {
		t.Error(err)
	}
	is, err := c.Client.Nodes().Get(t.Context(), "machine", metav1.GetOptions{})
	if err != nil || is.Spec.Unschedulable {
		t.Errorf("the machine is %+v, %v", is, err)
	}
}
