package preflight

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"strait.dev/strait/test/fakekube"
)

var podSecurity = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "node-0",
	errors.New(`violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`))

func TestRefusalsOfAdmissionAreNotMissingPermissions(t *testing.T) {
	for text, want := range map[string]bool{
		podSecurity.Error(): true,
		`admission webhook "warden-validating.common-webhooks.networking.gke.io" denied the request: GKE Warden rejected the request`:                 true,
		`namespaces "x" is forbidden: ValidatingAdmissionPolicy 'restricted' with binding 'restricted' denied request: every namespace is restricted`: true,
		`pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "x"`:                                              false,
		`exceeded quota`: false,
	} {
		if Refused(errors.New(text)) != want {
			t.Errorf("%s: refused is %v", text, !want)
		}
	}
	if Refused(nil) {
		t.Error("nil is a refusal")
	}
}

func TestAClusterThatRefusesPrivilegedPodsIsInstalledWithoutNodeHelpers(t *testing.T) {
	t.Parallel()
	node := linux("n1")
	cluster := fakekube.New(&node)
	cluster.DeleteCRDs()
	cluster.Fail(func(q fakekube.Request) error {
		if q.Verb == "create" && q.Resource == "pods" {
			return podSecurity
		}
		return nil
	})
	c := clusterOf(t, "a", cluster.Config())
	all, err := Run(t.Context(), Options{Local: c})
	must(t, err)
	for _, want := range []string{
		"error STRAIT-C015 the cluster refuses a pod with the privileges of the node helper: agent node-0: pods \"node-0\" is forbidden: violates PodSecurity",
		"install with node.enabled=false; then pods reach Services of remote clusters by name",
		"skipped STRAIT-N011 nodes were not inspected: no node helper runs on them",
	} {
		if got := text(all); !strings.Contains(got, want) {
			t.Errorf("%slacks %q", got, want)
		}
	}
	all, err = Run(t.Context(), Options{Local: c, WithoutNodes: true})
	must(t, err)
	if got := text(all); !strings.Contains(got, "info STRAIT-C015 without node helpers") || strings.Contains(got, "error STRAIT-C015") {
		t.Errorf("with WithoutNodes:\n%s", got)
	}
}

func TestNodesThatForbidHelpersAreNotInspected(t *testing.T) {
	t.Parallel()
	node := linux("n1")
	node.Labels = map[string]string{"type": "virtual-kubelet"}
	cluster := fakekube.New(&node)
	c := clusterOf(t, "a", cluster.Config())
	if reports, missing, err := InspectNodes(t.Context(), c, "uninstall", "image", func(string) {}); len(reports) > 0 || missing > 0 || err != nil {
		t.Errorf("%v, %d missing, %v", reports, missing, err)
	}
	if f := (&facts{nodes: []corev1.Node{node, linux("n2")}}); !f.inspects() || canInspect(&f.nodes[0]) || !canInspect(&f.nodes[1]) {
		t.Error("the other node is not inspected")
	}
}
