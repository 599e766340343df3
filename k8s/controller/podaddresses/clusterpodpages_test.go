//go:build apiserver

package podaddresses

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/kube"
)

func TestAllPagesOfPodsAreRead(t *testing.T) {
	cluster := kube.Shared(t)
	cluster.ServiceAccount(t, "pages", "default")
	c, err := client.New(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	no, now := false, int64(0)
	for i := range 5 {
		name := fmt.Sprintf("page-%d", i)
		pod, err := c.Pods("pages").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			NodeName: "node-9", AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Pods("pages").Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		})
		pod.Status.Phase, pod.Status.PodIPs = corev1.PodRunning, []corev1.PodIP{{IP: fmt.Sprintf("10.0.9.%d", i+1)}}
		pod.Status.PodIP = pod.Status.PodIPs[0].IP
		if _, err := c.Pods("pages").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p := newClusterPods(c.Pods("pages"), func(string) []string { return []string{"10.0.9.2/32"} }, func() {})
	p.nodeDeleted(&corev1.Node{})
	all, err := p.listPages(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Items) != 4 || all.ResourceVersion == "" || len(p.gone) != 0 {
		t.Errorf("%d pods at version %q, want 4; %d nodes remembered", len(all.Items), all.ResourceVersion, len(p.gone))
	}
}
