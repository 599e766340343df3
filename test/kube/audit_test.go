//go:build apiserver

package kube

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestOnlyRequestsOfServiceAccountsAreCounted(t *testing.T) {
	c := StartAudited(t)
	client, err := kubernetes.NewForConfig(c.ServiceAccount(t, "default", "asker"))
	must(t, err)
	before := len(c.Requests(t))
	for range 3 {
		_, _ = client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}) // rejected, but counted
	}
	_, err = c.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	all := c.Requests(t)
	if n := all[Request{"system:serviceaccount:default:asker", "list", "pods"}]; n != 3 || len(all) != before+1 {
		t.Errorf("3 lists of pods are counted as %d, among %v", n, all)
	}
}
