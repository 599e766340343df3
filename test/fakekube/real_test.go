//go:build apiserver

package fakekube_test

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/test/kube"
)

func TestMain(m *testing.M) { os.Exit(kube.Main(m)) }

func TestRealServerFulfilsTheContract(t *testing.T) {
	c := kube.Shared(t)
	c.InstallCRDs(t, crds.Files)
	runContract(t, c.Admin(), func(name string) {
		must(t, c.Namespace(t.Context(), name))
		account := &corev1.ServiceAccount{ObjectMeta: named(name, "default")} // required to create pods
		_, err := c.Kubernetes().CoreV1().ServiceAccounts(name).Create(t.Context(), account, metav1.CreateOptions{})
		must(t, err)
	})
}
