package uninstall

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/node"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/operate/preflight"
	"strait.dev/strait/test/fakekube"
)

// printed is findings in short.
func printed(all []findings.Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s %s %s\n", f.Severity, f.Code, f.Message)
	}
	return b.String()
}

func ignore(string) {}

func TestObjectsThatAreLeftAreFound(t *testing.T) {
	t.Parallel()
	cluster := fakekube.New()
	cluster.DeleteCRDs()
	admin := cluster.Client(t)
	c := operator.Cluster{Name: "a", Client: admin}
	clean, err := Check(t.Context(), c, "", 0, ignore)
	must(t, err)
	if findings.Worst(clean) != findings.Skipped || strings.Count(printed(clean), "no leftovers") != 4 {
		t.Errorf("of a cluster that never had Strait:\n%s", printed(clean))
	}

	cluster.InstallCRDs()
	controller := metav1.ObjectMeta{Name: "strait-controller"}
	cluster.Add(&rbacv1.ClusterRole{ObjectMeta: controller}, &rbacv1.ClusterRoleBinding{ObjectMeta: controller},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strait-gateways"}})
	_, err = admin.Secrets("strait-gateways").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "b-0-key-1", Labels: map[string]string{install.NameLabel: install.Name}, Finalizers: []string{"example.com/slow"}}, Data: map[string][]byte{"key": []byte("hidden")},
	}, metav1.CreateOptions{})
	must(t, err)
	all, err := Check(t.Context(), c, "", 0, ignore)
	must(t, err)
	for _, want := range []string{
		"error STRAIT-L001 found CustomResourceDefinition addressclaims.strait.dev, ",
		"error STRAIT-L002 found ClusterRole strait-controller, ClusterRoleBinding strait-controller\n",
		"error STRAIT-L003 found Namespace strait-gateways\n",
		"error STRAIT-L004 found Secret strait-gateways/b-0-key-1\n",
	} {
		if !strings.Contains(printed(all), want) {
			t.Errorf("%slacks %q", printed(all), want)
		}
	}
	if strings.Contains(printed(all), "hidden") {
		t.Error("a key is told")
	}

	must(t, admin.Secrets("strait-gateways").Delete(t.Context(), "b-0-key-1", metav1.DeleteOptions{}))
	all, err = Check(t.Context(), c, "", 0, ignore)
	must(t, err)
	if want := "found Secret strait-gateways/b-0-key-1 (being deleted)\n"; !strings.Contains(printed(all), want) {
		t.Errorf("%slacks %q", printed(all), want)
	}

	limited, err := client.New(cluster.ServiceAccount(t, "default", "nobody"))
	must(t, err)
	refused, err := Check(t.Context(), operator.Cluster{Name: "a", Client: limited}, "", 0, ignore)
	must(t, err)
	if strings.Contains(printed(refused), "no leftovers") || !strings.Contains(printed(refused), "skipped STRAIT-L004 not checked for lack of permissions: nodes, ") {
		t.Errorf("for an account without permissions it prints\n%s", printed(refused))
	}
}

func TestCRDsThatHelmKeepsAreNoLeftovers(t *testing.T) {
	t.Parallel()
	cluster := fakekube.New()
	admin := cluster.Client(t)
	all, err := Check(t.Context(), operator.Cluster{Name: "a", Client: admin}, "", 0, ignore)
	must(t, err)
	if got := printed(all); !strings.Contains(got, "error STRAIT-L001 found CustomResourceDefinition ") {
		t.Errorf("of CRDs without annotation it prints\n%s", got)
	}
	definitions := dynamic.NewForConfigOrDie(cluster.Config()).Resource(resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"))
	list, err := definitions.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, one := range list.Items {
		_, err := definitions.Patch(t.Context(), one.GetName(), types.MergePatchType, []byte(`{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`), metav1.PatchOptions{})
		must(t, err)
	}
	all, err = Check(t.Context(), operator.Cluster{Name: "a", Client: admin}, "", 0, ignore)
	must(t, err)
	if got := printed(all); findings.Worst(all) != findings.Info || !strings.Contains(got, "info STRAIT-L001 Helm kept CustomResourceDefinition addressclaims.strait.dev, ") {
		t.Errorf("of kept CRDs it prints\n%s", got)
	}
}

func TestNodesOfAClusterThatRefusesNodeHelpersAreSkipped(t *testing.T) {
	t.Parallel()
	cluster := fakekube.New(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{OperatingSystem: "linux"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}})
	cluster.DeleteCRDs()
	cluster.Fail(func(q fakekube.Request) error {
		if q.Verb == "create" && q.Resource == "pods" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, q.Name, errors.New(`violates PodSecurity "restricted:latest"`))
		}
		return nil
	})
	all, err := Check(t.Context(), operator.Cluster{Name: "a", Client: cluster.Client(t)}, "image", 0, ignore)
	must(t, err)
	if got := printed(all); findings.Worst(all) != findings.Skipped || !strings.Contains(got, "skipped STRAIT-L005 nodes were not checked: the cluster refuses pods with the privileges of a node helper") {
		t.Errorf("it prints\n%s", got)
	}
}

// Helm returns while the API server still deletes namespaces.
func TestObjectsThatAreBeingDeletedAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := fakekube.New()
		cluster.DeleteCRDs()
		admin := cluster.Client(t)
		slow := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strait-gateways", Finalizers: []string{"example.com/slow"}}}
		cluster.Add(slow)
		must(t, admin.Namespaces().Delete(t.Context(), slow.Name, metav1.DeleteOptions{}))
		check := func(wait time.Duration, say func(string)) string {
			all, err := Check(t.Context(), operator.Cluster{Name: "a", Client: admin}, "", wait, say)
			must(t, err)
			return printed(all)
		}
		if got := check(time.Minute, ignore); !strings.Contains(got, "found Namespace strait-gateways (being deleted)") {
			t.Errorf("after a minute it prints\n%s", got)
		}
		waits := 0
		got := check(time.Minute, func(line string) {
			if !strings.HasPrefix(line, "waiting until") {
				return
			}
			if waits++; line != "waiting until the API server has deleted Namespace strait-gateways" {
				t.Errorf("progress %q", line)
			}
			if waits == 3 {
				n, err := admin.Namespaces().Get(t.Context(), slow.Name, metav1.GetOptions{})
				must(t, err)
				n.Finalizers = nil
				_, err = admin.Namespaces().Update(t.Context(), n, metav1.UpdateOptions{})
				must(t, err)
			}
		})
		if waits != 3 || strings.Count(got, "no leftovers") != 4 {
			t.Errorf("after %d waits it prints\n%s", waits, got)
		}
	})
}

func TestWhatIsLeftOnANodeIsFound(t *testing.T) {
	for _, c := range []struct {
		name string
		saw  preflight.NodeReport
		want string
	}{
		{"nothing", preflight.NodeReport{}, "ok STRAIT-L005 no link named cni-strait*\nok STRAIT-L006 no route, rule or nexthop of protocol 91\nok STRAIT-L007 no nftables table strait\n"},
		{"all", preflight.NodeReport{Is: node.Inspection{Ours: node.Ours{Links: []string{"cni-strait00000"}, Routes: []string{"blackhole 10.71.0.0/16 metric 10000"}, Rules: []string{"IPv4 rule 105: lookup 6091"}, Nexthops: []string{"1376529666 group [1342177537]"}, Table: true}}},
			"error STRAIT-L005 found cni-strait00000\nerror STRAIT-L006 found blackhole 10.71.0.0/16 metric 10000, IPv4 rule 105: lookup 6091, 1376529666 group [1342177537]\nerror STRAIT-L007 found inet strait\n"},
		{"not seen", preflight.NodeReport{Err: errors.New("exit code 1")}, "error STRAIT-N011 exit code 1\n"},
	} {
		if got := printed(nodeFindings("a", c.saw)); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.name, got, c.want)
		}
	}
}
