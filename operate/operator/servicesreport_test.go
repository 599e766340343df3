package operator

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/fakekube"
)

// clusterOf returns an API server with the objects of a file, and a cluster that uses it.
func clusterOf(t *testing.T, file string) (*fakekube.Server, Cluster) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetesscheme.AddToScheme, v1alpha1.AddToScheme, mcsv1beta1.Install} {
		must(t, add(scheme))
	}
	text, err := os.ReadFile(file)
	must(t, err)
	var objects []runtime.Object
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		object, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(document, nil, nil)
		must(t, err)
		objects = append(objects, object)
	}
	server := fakekube.New(objects...)
	return server, Cluster{Name: "context a", Client: server.Client(t)}
}

const servicesFile = "testdata/services/a.yaml"

func TestServicesSayWhoExportsWhatAndWhyNot(t *testing.T) {
	t.Parallel()
	_, c := clusterOf(t, servicesFile)
	services, err := ReadServices(t.Context(), c, "", nil)
	must(t, err)
	r := &ServicesReport{Schema: ServicesSchema, Clusters: []ClusterServices{*services}}
	for file, wide := range map[string]bool{"testdata/services/a.golden.txt": false, "testdata/services/a.wide.golden.txt": true} {
		var table strings.Builder
		must(t, ServicesTable(&table, r, wide))
		golden(t, file, table.String())
	}
	text, err := json.MarshalIndent(r, "", "  ")
	must(t, err)
	golden(t, "testdata/services/a.golden.json", string(text)+"\n")
	if !r.Failed() {
		t.Error("a report with Services that are not ready is not a failure")
	}
}

func TestServicesOfANameOrANamespaceAreSelected(t *testing.T) {
	t.Parallel()
	_, c := clusterOf(t, servicesFile)
	cart := types.NamespacedName{Namespace: "shop", Name: "cart"}
	one, err := ReadServices(t.Context(), c, "", []types.NamespacedName{cart})
	must(t, err)
	if len(one.Services) != 1 || one.Services[0].Name != "cart" || (&ServicesReport{Clusters: []ClusterServices{*one}}).Failed() {
		t.Errorf("one Service: %+v", one.Services)
	}
	some, err := ReadServices(t.Context(), c, "billing", nil)
	must(t, err)
	if len(some.Services) != 1 || some.Services[0].Name != "api" || (&ServicesReport{Clusters: []ClusterServices{*some}}).Failed() {
		t.Errorf("one namespace: %+v", some.Services)
	}
	_, err = ReadServices(t.Context(), c, "", []types.NamespacedName{{Namespace: "shop", Name: "none"}})
	says(t, err, "context a: no cluster exports Service shop/none", "strait services without arguments lists")
}

// Without node helpers, the endpoints of imports are gateways; the remote cluster knows the
// real ones.
func TestServicesWithoutNodeHelpersSayHowManyGatewaysCarryThem(t *testing.T) {
	t.Parallel()
	_, c := clusterOf(t, servicesFile)
	n, err := c.Client.ClusterNetworks().Get(t.Context(), v1alpha1.ClusterNetworkName, metav1.GetOptions{})
	must(t, err)
	n.Status.WithoutNodes = true
	_, err = c.Client.ClusterNetworks().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
	must(t, err)
	services, err := ReadServices(t.Context(), c, "shop", []types.NamespacedName{{Namespace: "shop", Name: "cart"}})
	must(t, err)
	if got, want := services.Services[0].endpoints(), "a 1/1, b 1/2 through 1 gateway"; got != want || services.Services[0].State != ServiceReady {
		t.Errorf("%s, %s, want %s", got, services.Services[0].State, want)
	}
}

func TestServicesOfAClusterWithoutTheAPINameTheRemedy(t *testing.T) {
	t.Parallel()
	server, c := clusterOf(t, servicesFile)
	server.DeleteCRDs(mcsv1beta1.GroupName)
	_, err := ReadServices(t.Context(), c, "", nil)
	says(t, err, "context a: the cluster has no ServiceExports", "set services.enabled=true")
}
