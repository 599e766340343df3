//go:build apiserver

package chart

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"

	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

func TestWithoutServicesTheControllerMayNotTouchThem(t *testing.T) {
	t.Parallel()
	for _, object := range render(t, "--set", "services.enabled=false") {
		switch {
		case strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy"): // limits what gateways may write, in any case
		case strings.HasSuffix(object.GetName(), "-services"), strings.HasSuffix(object.GetName(), "multicluster.x-k8s.io"):
			t.Errorf("%s %s is rendered", object.GetKind(), object.GetName())
		case object.GetKind() == "Deployment" && !strings.Contains(asYAML(t, object.Object), "--services=false"):
			t.Error("the controller exports and imports Services")
		}
	}
}

// Several products install the CRDs of the Multi-Cluster Services API: those of others, and
// newer ones, are left as they are.
func TestTheCRDsOfTheMultiClusterServicesAPIAreNotDowngraded(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t)
	access := []string{"KUBECONFIG=" + program.Kubeconfig(t, t.TempDir(), "admin", cluster.Admin())}
	run := func(args ...string) {
		t.Helper()
		if out, err := helm(t, access, append(args, "--namespace", release)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cluster.AwaitCRDs(t)
	}
	client, err := dynamic.NewForConfig(cluster.Admin())
	must(t, err)
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const exports, imports, label = "serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io", "multicluster.x-k8s.io/release-version"
	is := func(name, version string) {
		t.Helper()
		d, err := definitions.Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		if got := d.GetLabels()[label]; got != version {
			t.Errorf("%s has version %s, want %s", name, got, version)
		}
	}

	older := bytes.ReplaceAll(mcscrds.ServiceExportCRD, []byte(`"v0.5.2"`), []byte(`"v0.5.0"`))
	cluster.InstallCRDs(t, fstest.MapFS{"exports.yaml": {Data: older}}) // of another product
	run("install", "strait", folder, "--create-namespace")
	is(exports, "v0.5.0")
	is(imports, "v0.5.2")

	run("upgrade", "strait", folder, "--set", "controller.replicas=1")
	is(imports, "v0.5.2")
	_, err = definitions.Patch(t.Context(), imports, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+label+`":"v1.0.0"}}}`), metav1.PatchOptions{})
	must(t, err)
	run("upgrade", "strait", folder)
	is(imports, "v1.0.0")
	run("uninstall", "strait", "--no-hooks")
	is(exports, "v0.5.0")
	is(imports, "v1.0.0")
}
