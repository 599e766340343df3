//go:build apiserver

package kube

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
)

const notItsPeering = "is not the Peering of this gateway: the name of a gateway is that of its Peering with a number"

// A GatewayReport has no spec, and its status is not a subresource: one request writes it.
func TestAGatewayReportIsWrittenAtOnceAndBelongsToItsPeering(t *testing.T) {
	c := Shared(t)
	c.InstallCRDs(t, crds.Files)
	must(t, c.Namespace(t.Context(), "reports"))
	client, err := dynamic.NewForConfig(c.Admin())
	must(t, err)
	reports := client.Resource(v1alpha1.GroupVersion.WithResource("gatewayreports")).Namespace("reports")
	report := func(name, peering string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: parse(t, `
status:
  peering: `+peering+`
  publicKey: hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=
  keyGeneration: 1
  mtu: 1370
  links: [{remote: a-0, up: true, pathMTU: 1370, rtt: 1.5ms, lastHandshake: "2030-01-01T00:00:00Z", endpoint: "gw-a.example:51840"},
    {remote: `+strings.Repeat("a", 63)+`.18, up: false}]
  summary: {linksUp: 1/1, rtt: 1.5ms, endpoint: "gw-a.example:51840"}
`)}
		u.SetAPIVersion(v1alpha1.GroupVersion.String())
		u.SetKind("GatewayReport")
		u.SetName(name)
		return u
	}
	created, err := reports.Create(t.Context(), report("prod-b-0", "prod-b"), metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, reports.Delete(context.Background(), "prod-b-0", metav1.DeleteOptions{})) })
	if mtu, _, _ := unstructured.NestedInt64(created.Object, "status", "mtu"); mtu != 1370 {
		t.Errorf("created without its status: %v", created.Object)
	}
	if got, want := table(t, "gatewayreports"), "prod-b-0|prod-b|1/1|gw-a.example:51840|1.5ms|-|1370|AGE"; got != want {
		t.Errorf("kubectl get gatewayreports prints\n%s\nwant\n%s", got, want)
	}
	for name, peering := range map[string]string{"b-0": "c", "b-0-0": "b", "c": "c", "b-100": "b"} {
		_, err := reports.Create(t.Context(), report(name, peering), metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "status.peering: Invalid value: ") || !strings.Contains(err.Error(), notItsPeering) {
			t.Errorf("gateway %s reports for Peering %s: %v", name, peering, err)
		}
	}
}
