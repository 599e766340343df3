package controller_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/controller/values"
)

func TestNodesWithoutHelpersAreNotAttached(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		template, err := values.ParseTemplate([]byte("spec: {nodeSelector: {kubernetes.io/os: linux}, tolerations: [{operator: Exists}], affinity: {nodeAffinity: " +
			"{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: type, operator: NotIn, values: [virtual-kubelet]}]}]}}}}"))
		must(t, err)
		label := func(name, labels string) {
			_, err := f.cluster.Kubernetes().CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{})
			must(t, err)
		}
		f.node("aci", "192.0.2.20", "10.0.0.0/24")
		f.node("node-1", "192.0.2.21", "10.0.1.0/24")
		f.node("windows", "192.0.2.22", "10.0.2.0/24")
		label("node-1", `{"kubernetes.io/os":"linux"}`)
		label("windows", `{"kubernetes.io/os":"windows"}`)
		label("aci", `{"kubernetes.io/os":"linux"}`)
		f.start(f.cluster.Admin(), "default", "first", func(o *controller.Options) { o.Helpers = template })
		f.untilAttached("aci 1 [10.80.0.1] [10.70.0.1]", "node-1 2 [10.80.0.2] [10.70.0.2]")
		// A node that turns out to be virtual is detached, and its addresses are released.
		label("aci", `{"type":"virtual-kubelet"}`)
		f.untilAttached("node-1 2 [10.80.0.2] [10.70.0.2]")
		f.untilClaims("10.80.0.2-32", "10.70.0.2-32")
		label("windows", `{"kubernetes.io/os":"linux"}`)
		f.until("the other node is attached", func() string {
			if got := f.attached(); len(got) != 2 {
				return got[0]
			}
			return ""
		})
		if f.logged("the pass failed") {
			t.Error("a pass failed")
		}
	})
}

func TestNodePortEndpointsAreOfNodesThatForward(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		template, err := values.ParseTemplate([]byte("spec: {nodeSelector: {kubernetes.io/os: linux}}"))
		must(t, err)
		f.start(f.cluster.Admin(), "default", "first", func(o *controller.Options) { o.Helpers = template })
		for name, labels := range map[string]string{
			"node-1": `{"kubernetes.io/os":"linux"}`, "windows": `{"kubernetes.io/os":"windows"}`,
			"control-plane": `{"kubernetes.io/os":"linux","node.kubernetes.io/exclude-from-external-load-balancers":""}`,
		} {
			f.node(name, map[string]string{"node-1": "192.0.2.21", "windows": "192.0.2.22", "control-plane": "192.0.2.23"}[name], "")
			_, err := f.cluster.Kubernetes().CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{})
			must(t, err)
		}
		f.network(`{"podCIDRs": ["10.0.0.0/16"], "serviceCIDRs": ["10.96.0.0/16"]}`)
		f.peer("b", 1, "10.0.0.0/16=10.71.0.0/16")
		_, err = f.Peerings().Patch(t.Context(), "b", types.MergePatchType, []byte(`{"spec":{"gateway":{"service":{"type":"NodePort"}}}}`), metav1.PatchOptions{FieldManager: "admin"})
		must(t, err)
		f.link("b-0", true)
		f.until("the endpoints", func() string {
			all := f.peering("b").Status.Gateways[0].Endpoints
			if len(all) != 1 || !strings.HasPrefix(string(all[0]), "192.0.2.21:") {
				return fmt.Sprintf("%q, want one at 192.0.2.21", all)
			}
			return ""
		})
	})
}
