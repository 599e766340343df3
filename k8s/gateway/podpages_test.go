//go:build apiserver

package gateway

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/translate"
	"strait.dev/strait/test/kube"
)

func TestAllPagesOfPodsAreRead(t *testing.T) {
	w := newCluster(t, kube.Shared(t))
	for i := range 5 {
		w.pod(t, fmt.Sprintf("page-%d", i), "node-9", fmt.Sprintf("10.0.9.%d", i+1))
	}
	p := newPods(w.admin.Pods(""), func(string) []v1alpha1.CIDR { return []v1alpha1.CIDR{"10.0.9.2/32"} }, func() {})
	p.nodeDeleted(&v1alpha1.NodeAttachment{})
	all, err := p.listPages(t.Context(), metav1.ListOptions{Limit: 2})
	must(t, err)
	if len(all.Items) != 4 || all.ResourceVersion == "" || len(p.gone) != 0 {
		t.Errorf("%d pods at version %q, want 4; %d nodes remembered", len(all.Items), all.ResourceVersion, len(p.gone))
	}
	for i := range all.Items {
		if _, ok := translate.PodOf(&all.Items[i]); !ok {
			t.Errorf("%s does not matter", all.Items[i].Name)
		}
	}
}
