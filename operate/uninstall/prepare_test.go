package uninstall

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/fakekube"
)

// fixture is a cluster with Strait's objects, without controllers that act on them.
type fixture struct {
	*testing.T
	*client.Client
	cluster *fakekube.Server
	options Options // with the rights of package rbac, and no more
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	cluster := fakekube.New(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strait-gateways"}})
	limited, err := client.New(cluster.ServiceAccount(t, "strait-system", "strait-uninstall", rbac.Uninstall))
	must(t, err)
	return &fixture{t, cluster.Client(t), cluster, Options{Client: limited, Gateways: "strait-gateways", For: time.Minute}}
}

// install makes what an installation with one peering and one node has.
func (w *fixture) install() {
	w.Helper()
	ctx := w.Context()
	_, err := w.ClusterNetworks().Apply(ctx, &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: v1alpha1.ClusterNetworkSpec{ExternalCIDRs: []v1alpha1.CIDR{}, RemapPools: []v1alpha1.CIDR{}}}, "test")
	must(w.T, err)
	_, err = w.Peerings().Apply(ctx, &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{ClusterID: "b"}}, "test")
	must(w.T, err)
	_, err = w.AddressMappings().Create(ctx, &v1alpha1.AddressMapping{ObjectMeta: metav1.ObjectMeta{Name: "database"},
		Spec: v1alpha1.AddressMappingSpec{External: "10.70.1.9", Target: "192.0.2.77"}}, metav1.CreateOptions{})
	must(w.T, err)
	labels := map[string]string{peering.Label: "b"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "gateway", Image: "strait"}}}}
	_, err = w.StatefulSets("strait-gateways").Create(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: labels},
		Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}, metav1.CreateOptions{})
	must(w.T, err)
	w.node("node-1", corev1.ConditionTrue)
}

// node makes a node that Strait works on.
func (w *fixture) node(name string, ready corev1.ConditionStatus) {
	w.Helper()
	made, err := w.Client.Nodes().Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(w.T, err)
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	_, err = w.Client.Nodes().UpdateStatus(w.Context(), made, metav1.UpdateOptions{})
	must(w.T, err)
	index := int32(1 + len(name))
	_, err = w.NodeAttachments().Create(w.Context(), &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeAttachmentSpec{
		Index: index, UnderlayAddresses: []v1alpha1.IP{"192.0.2.21"}, InternalAddresses: []v1alpha1.IP{"10.80.0.11"},
	}}, metav1.CreateOptions{})
	must(w.T, err)
	w.says(name, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "GatewaysReachable"})
}

// says is what the node helper writes.
func (w *fixture) says(name string, c metav1.Condition) {
	w.Helper()
	c.LastTransitionTime = metav1.Now()
	_, err := w.NodeAttachments().ApplyStatus(w.Context(), &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1alpha1.NodeAttachmentStatus{Conditions: []metav1.Condition{c}}}, "strait-node")
	must(w.T, err)
}

// prepare runs Prepare beside the test, which tells what is waited for.
func (w *fixture) prepare(o Options) (said <-chan string, ended func() (*Prepared, error)) {
	lines := make(chan string, 1000)
	o.Say = func(line string) { lines <- line }
	done := make(chan struct{})
	var p *Prepared
	var err error
	go func() {
		defer close(done)
		defer close(lines)
		p, err = Prepare(w.Context(), o)
	}()
	return lines, func() (*Prepared, error) { <-done; return p, err }
}

// until waits for a line that begins so.
func (w *fixture) until(said <-chan string, prefix string) {
	w.Helper()
	for line := range said {
		if strings.HasPrefix(line, "waiting for "+prefix) {
			return
		}
	}
	w.Fatalf("%s was never waited for", prefix)
}

func (w *fixture) asked() bool {
	n, err := w.ClusterNetworks().Get(w.Context(), "default", metav1.GetOptions{})
	must(w.T, err)
	_, asked := n.Annotations[v1alpha1.UninstallAnnotation]
	return asked
}

var gone = metav1.Condition{Type: v1alpha1.ConditionReleased, Status: metav1.ConditionTrue, Reason: "NothingLeft"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAPreparationTakesWhatOneClusterHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.install()
		w.node("away", corev1.ConditionUnknown)
		said, ended := w.prepare(w.options)
		w.until(said, "StatefulSet b, node node-1: the node helper has not responded")
		if !w.asked() {
			t.Error("the nodes were not asked")
		}
		must(t, w.StatefulSets("strait-gateways").Delete(t.Context(), "b", metav1.DeleteOptions{})) // as the garbage collector does
		w.says("node-1", metav1.Condition{Type: v1alpha1.ConditionReleased, Status: metav1.ConditionFalse, Reason: "KernelRefuses", Message: "busy"})
		w.until(said, "node node-1: busy")
		w.says("node-1", gone)
		p, err := ended()
		must(t, err)
		if got, want := fmt.Sprint(p.Removed, p.Released, len(p.Lost)), "[Peering b AddressMapping database] [node-1] 1"; got != want || p.Lost[0].Name != "away" {
			t.Errorf("%s, lost %v; want %s", got, p.Lost, want)
		}
		again, err := Prepare(t.Context(), w.options) // as Helm does after it failed later on
		must(t, err)
		if len(again.Removed) > 0 || !slices.Equal(again.Released, p.Released) {
			t.Errorf("a second time: %+v", again)
		}
	})
}

func TestAPreparationIsDoneWithoutStrait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.cluster.DeleteCRDs()
		if _, err := Prepare(t.Context(), w.options); err != nil {
			t.Errorf("without Strait's CRDs: %v", err)
		}
		w.cluster.InstallCRDs()
		if _, err := Prepare(t.Context(), w.options); err != nil {
			t.Errorf("without objects: %v", err)
		}
	})
}

func TestAPreparationThatIsTooLateSaysWhatIsMissingAndHowToGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.install()
		o := w.options
		o.For = 2 * pollInterval
		_, err := Prepare(t.Context(), o)
		for _, want := range []string{"StatefulSet b", "node node-1: the node helper has not responded", "--no-hooks", "strait.dev/uninstall-"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nlacks %q", err, want)
			}
		}
		if !w.asked() {
			t.Error("the nodes are not asked any more, though Helm may ask again")
		}
	})
}

func TestAPreparationInsists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.install()
		said, ended := w.prepare(w.options)
		w.until(said, "StatefulSet b, node node-1")
		// Both are applied again, as Argo CD does.
		_, err := w.ClusterNetworks().Patch(t.Context(), "default", types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.UninstallAnnotation), metav1.PatchOptions{})
		must(t, err)
		_, err = w.Peerings().Apply(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{ClusterID: "b"}}, "test")
		must(t, err)
		w.until(said, "Peering b")
		w.until(said, "StatefulSet b")
		must(t, w.StatefulSets("strait-gateways").Delete(t.Context(), "b", metav1.DeleteOptions{}))
		w.says("node-1", gone)
		if _, err := ended(); err != nil || !w.asked() {
			t.Errorf("%v, the nodes are asked: %v", err, w.asked())
		}
	})
}

// Otherwise the pods would stay on a node that is lost, and their twins in the other cluster.
func TestAPreparationDetachesNoClusterWhosePodsAreOffloaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.install()
		p, err := w.Peerings().Get(t.Context(), "b", metav1.GetOptions{})
		must(t, err)
		p.Spec.Borrow = &v1alpha1.PeeringBorrow{NodeName: "strait-b"}
		_, err = w.Peerings().Update(t.Context(), p, metav1.UpdateOptions{})
		must(t, err)
		began := time.Now()
		_, err = Prepare(t.Context(), w.options)
		if err == nil || !strings.Contains(err.Error(), "first run: strait unborrow --from b") {
			t.Errorf("says %v", err)
		}
		if w.asked() || time.Since(began) > pollInterval {
			t.Error("the nodes were asked, or it waited")
		}
	})
}

func TestAPreparationWithoutRightsSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.install()
		o := w.options
		var err error
		o.Client, err = client.New(w.cluster.ServiceAccount(t, "strait-system", "nobody"))
		must(t, err)
		if _, err := Prepare(t.Context(), o); err == nil || !strings.Contains(err.Error(), "k8s/rbac/uninstall.yaml") {
			t.Errorf("%v", err)
		}
	})
}
