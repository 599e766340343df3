//go:build apiserver

package gateway

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/kube"
)

// T5: a gateway faces the Internet, and pods have secrets in their environment.
func TestT5_TheTokenOfAGatewayReadsNoPodsAndSecrets(t *testing.T) {
	c := kube.Shared(t)
	c.InstallCRDs(t, crds.Files)
	account := c.ServiceAccount(t, "least", "gateway")
	c.Grant(t, rbac.Gateway, "least", "gateway")
	gateway, err := client.New(account)
	must(t, err)
	ctx, all := t.Context(), metav1.ListOptions{}
	kube.Until(t, "it can read what it needs", func() (complaint string) { // the API server learns of the grant a moment later
		if _, err := gateway.NodeAttachments().List(ctx, all); err != nil {
			return err.Error()
		}
		return ""
	})
	for _, namespace := range []string{"", "least", "kube-system"} {
		_, list := gateway.Pods(namespace).List(ctx, all)
		_, watch := gateway.Pods(namespace).Watch(ctx, all)
		_, secrets := gateway.Secrets(namespace).List(ctx, all)
		for what, err := range map[string]error{"list pods": list, "watch pods": watch, "list Secrets": secrets} {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s in namespace %q: %v", what, namespace, err)
			}
		}
	}
	_, err = gateway.Nodes().List(ctx, all)
	if !apierrors.IsForbidden(err) {
		t.Errorf("list nodes: %v", err)
	}
}
