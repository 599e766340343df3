package controller_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/rbac"
)

// installation is what the ClusterNetwork says: of which installation it is, and whether it is asked
// to end.
func (f *fixture) installation() (id string, asked bool) {
	f.Helper()
	n, err := f.ClusterNetworks().Get(f.Context(), "default", metav1.GetOptions{})
	if err != nil {
		return err.Error(), false
	}
	_, asked = n.Annotations[v1alpha1.UninstallAnnotation]
	return n.Annotations[v1alpha1.InstallationAnnotation], asked
}

// installed is a service account as a new installation makes it, and its UID.
func (f *fixture) installed(namespace string) (*rest.Config, string) {
	f.Helper()
	config := f.cluster.Account(f.T, namespace, "strait-controller", rbac.Controller)
	account, err := f.cluster.Kubernetes().CoreV1().ServiceAccounts(namespace).Get(f.Context(), "strait-controller", metav1.GetOptions{})
	must(f.T, err)
	return config, string(account.UID)
}

func (f *fixture) untilInstallation(what, id string, asked bool) {
	f.Helper()
	f.until(what, func() string {
		if i, a := f.installation(); i != id || a != asked {
			return fmt.Sprintf("installation %q, asked to end: %v; want %q, %v", i, a, id, asked)
		}
		return ""
	})
}

func TestOnlyANewInstallationTakesBackThatItIsUninstalled(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		config, id := f.installed("strait-system")
		stop := f.start(config, "strait-system", "first")
		f.untilInstallation("the first installation", id, false)

		ask := func() {
			body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.UninstallAnnotation)
			_, err := f.ClusterNetworks().Patch(t.Context(), "default", types.MergePatchType, body, metav1.PatchOptions{})
			must(t, err)
		}
		ask()
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]") // it made a pass
		f.untilInstallation("while it leads", id, true)

		stop() // its node is drained, say, while nodes detach
		stop = f.start(config, "strait-system", "second")
		f.node("node-2", "192.0.2.22", "10.0.1.0/24")
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]", "node-2 2 [10.80.0.2] [10.70.0.2]")
		f.untilInstallation("a controller that starts in the middle", id, true)
		stop()

		// Helm removes the account, keeps the CRDs, and installs again.
		must(t, f.cluster.Kubernetes().CoreV1().ServiceAccounts("strait-system").Delete(t.Context(), "strait-controller", metav1.DeleteOptions{}))
		config, again := f.installed("strait-system")
		stop = f.start(config, "strait-system", "third")
		f.untilInstallation("the second installation", again, false)
		ask()
		f.deleteNode("node-2")
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]")
		f.untilInstallation("the second installation is uninstalled", again, true)
		stop()

		must(t, f.ClusterNetworks().Delete(t.Context(), "default", metav1.DeleteOptions{}))
		f.start(config, "strait-system", "fourth")
		f.untilInstallation("the object is made anew", again, false)
	})
}
