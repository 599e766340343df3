package main

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/fakekube"
)

// withServices makes clusters a and b, joined, with Service shop/cart in a, the ones that
// commands find.
func withServices(t *testing.T) (a, b *fakekube.Server) {
	t.Helper()
	cart := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}}
	alias, derived := cart, cart
	alias.Name, alias.Spec.Type = "alias", corev1.ServiceTypeExternalName
	derived.Name = "derived"
	derived.OwnerReferences = []metav1.OwnerReference{{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: "ServiceImport", Name: "search"}}
	a, b = fakekube.New(&cart, &alias, &derived), fakekube.New()
	for _, s := range []*fakekube.Server{a, b} {
		madeOfAnotherVersion(t, s.Client(t))
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", kubeconfig(t, map[string]*rest.Config{"a": fakekube.Serve(t, a.Config()), "b": fakekube.Serve(t, b.Config())}))
	return a, b
}

// processed writes the conditions that the controller writes of an export in effect.
func processed(t *testing.T, c *client.Client) {
	t.Helper()
	e := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	for _, kind := range []mcsv1beta1.ServiceExportConditionType{mcsv1beta1.ServiceExportConditionValid, mcsv1beta1.ServiceExportConditionReady} {
		e.Status.Conditions = append(e.Status.Conditions, mcsv1beta1.NewServiceExportCondition(kind, metav1.ConditionTrue, "Exported", ""))
	}
	if _, err := c.ServiceExports("shop").ApplyStatus(t.Context(), e, "test"); err != nil {
		t.Fatal(err)
	}
}

func TestServicesAreExportedAndUnexportedAfterDryRuns(t *testing.T) {
	a, b := withServices(t)
	const pending = "the controller has not processed the ServiceExport yet; if this persists, check that the controller runs, and that the values of the chart do not disable Services"
	for _, c := range []struct {
		args, out string
		then      func()
	}{
		{args: "export shop/cart --dry-run", out: "context a: ServiceExport shop/cart would be created\n"},
		{args: "export cart --namespace shop --dry-run -o name", out: "shop/cart\n"},
		{args: "export shop/cart", out: "context a: ServiceExport shop/cart is created, and not ready: " + pending + ".\n" +
			"context a: it is not imported yet; strait services shop/cart says why.\nNo link to b is up; strait status shows why.\n",
			then: func() { processed(t, a.Client(t)) }},
		{args: "export shop/cart --dry-run", out: "nothing would be changed\n"},
		{args: "export shop/cart --remote-context b", out: "context a: Service shop/cart is exported as cart.shop.svc.clusterset.local.\n" +
			"context a: it is not imported yet; strait services shop/cart says why.\ncontext b: it is not imported yet; strait services shop/cart says why.\n" +
			"No link to b is up; strait status shows why.\n",
			then: func() {
				for ip, s := range map[string]*fakekube.Server{"10.96.4.4": a, "10.97.4.4": b} {
					s.Add(&mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"},
						Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, IPs: []string{ip}}})
				}
			}},
		{args: "export shop/cart --remote-context b --wait", out: "context a: Service shop/cart is exported as cart.shop.svc.clusterset.local.\n" +
			"context a: imported with the address 10.96.4.4.\ncontext b: imported with the address 10.97.4.4.\nNo link to b is up; strait status shows why.\n"},
		{args: "unexport shop/cart --dry-run", out: "context a: ServiceExport shop/cart would be deleted\n"},
		{args: "unexport shop/cart --yes", out: "context a: ServiceExport shop/cart is deleted; the Service stays.\n"},
	} {
		out, stderr, code := output("", append(strings.Fields(c.args), "--context=a")...)
		if code != exitOK || out != c.out {
			t.Errorf("strait %s ends with %d and prints\n%s%s\nwant\n%s", c.args, code, out, stderr, c.out)
		}
		if c.then != nil {
			c.then()
		}
	}
}

func TestAServiceThatCannotBeExportedIsRefusedWithARemedy(t *testing.T) {
	a, _ := withServices(t)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"export", exitUsage, "the name of the Service is missing"},
		{"export Shop/Cart", exitUsage, "write NAME or NAMESPACE/NAME, like cart or shop/cart"},
		{"export shop/cart --namespace other", exitUsage, "leave out one of the two"},
		{"export shop/cart --wait=0s", exitUsage, "--wait 0s"},
		{"export shop/cart -o wide", exitUsage, "choose table, json, yaml or name"},
		{"export cart", exitFailed, "there is no Service default/cart; create it, or name another one: kubectl get services --namespace default"},
		{"export shop/cart shop/alias", exitFailed, "Service shop/alias has type ExternalName"},
		{"export shop/derived", exitFailed, "belongs to a ServiceImport"},
		{"export shop/cart --wait=1ms", exitFailed, "ServiceExport shop/cart: the controller has not processed"},
		{"unexport shop/other --yes", exitFailed, "there is no ServiceExport shop/other; strait services lists"},
		{"services shop/other", exitFailed, "no cluster exports Service shop/other"},
		{"services -o xml", exitUsage, "choose table, json, yaml, wide or name"},
	} {
		_, stderr, code := output("", append(strings.Fields(c.args), "--context=a")...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("strait %s ends with %d, want %d, and says %q, want %q in it", c.args, code, c.code, stderr, c.says)
		}
	}
	a.DeleteCRDs(mcsv1beta1.GroupName)
	if _, stderr, code := output("", "export", "shop/cart", "--context=a"); code != exitFailed || !strings.Contains(stderr, "the cluster has no ServiceExports: ") {
		t.Errorf("without the CRDs it ends with %d and says %q", code, stderr)
	}
}

func TestServicesPrintsWhatWasAskedFor(t *testing.T) {
	a, _ := withServices(t)
	if out, _, code := output("", "services", "--context=a"); code != exitOK || !strings.Contains(out, "No Services are exported or imported; strait export exports one.") {
		t.Errorf("without Services it ends with %d and prints\n%s", code, out)
	}
	output("", "export", "shop/cart", "--context=a")
	processed(t, a.Client(t))
	out, stderr, code := output("", "services", "--context=a", "--remote-context=b", "-o", "json")
	var r operator.ServicesReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Schema != operator.ServicesSchema || len(r.Clusters) != 2 || len(r.Clusters[0].Services) != 1 ||
		code != exitFailed || !strings.Contains(stderr, "not all Services are ready: do what the table says") {
		t.Errorf("ends with %d, %v, and prints\n%s%s", code, err, out, stderr)
	}
	if out, _, _ := output("", "services", "--context=a", "-o", "name"); out != "shop/cart\n" {
		t.Errorf("the names are %q", out)
	}
	if out, _, _ := output("", "services", "--context=a", "-o", "wide"); !strings.Contains(out, "cart.shop.svc.clusterset.local") {
		t.Errorf("the wide table is\n%s", out)
	}
	for _, c := range []struct{ words, offered string }{
		{"export --context a shop/", "shop/alias shop/cart shop/derived"},
		{"unexport --context a --namespace shop c", "cart"},
	} {
		if got := strings.Join(completed(t, strings.Fields(c.words)...), " "); got != c.offered {
			t.Errorf("after strait %s there is offered %q, want %q", c.words, got, c.offered)
		}
	}
}
