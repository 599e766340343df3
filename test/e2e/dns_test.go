//go:build e2e || nightly

package e2e

import (
	"strings"
	"testing"
)

// configureDNS lets CoreDNS of all clusters serve the names of imported Services. The
// function that it returns reverts that.
func (w *world) configureDNS(t *testing.T) (revert func(*testing.T)) {
	t.Helper()
	before := make(map[string]string)
	for _, cluster := range w.names {
		before[cluster] = w.corefile(t, cluster)
	}
	if out, err := w.try(t, "", "strait", "dns", "check", "--context=a"); err == nil || !strings.Contains(err.Error(), "does not serve clusterset.local") {
		t.Errorf("before it is configured, strait dns check ends with %v:\n%s", err, out)
	}
	if out := w.do(t, "", "strait", "dns", "configure", "--context=a", "--dry-run"); !strings.Contains(out, "+       multicluster clusterset.local\n") || w.corefile(t, "a") != before["a"] {
		t.Errorf("strait dns configure --dry-run:\n%s", out)
	}
	for cluster := range before {
		w.do(t, "", "strait", "dns", "configure", "--context="+cluster, "--yes")
		w.restartDNS(t, cluster)
	}
	if out := w.do(t, "", "strait", "dns", "configure", "--context=a", "--yes"); !strings.Contains(out, "nothing to change") {
		t.Errorf("strait dns configure, a second time:\n%s", out)
	}
	w.do(t, "", "strait", "dns", "check", "--context=a", "--wait")
	return func(t *testing.T) {
		for cluster, corefile := range before {
			w.do(t, "", "strait", "dns", "remove", "--context="+cluster, "--yes")
			if is := w.corefile(t, cluster); is != corefile {
				t.Errorf("after strait dns remove, the Corefile of %s is\n%s\nwant:\n%s", cluster, is, corefile)
			}
		}
	}
}

// corefile returns the Corefile of a cluster.
func (w *world) corefile(t *testing.T, cluster string) string {
	t.Helper()
	return w.do(t, "", "kubectl", "--context="+cluster, "--namespace=kube-system", "get", "configmap", "coredns", "--output=jsonpath={.data.Corefile}")
}

// restartDNS restarts CoreDNS: a kubelet and the plugin reload need up to 3 minutes until a
// changed Corefile is read.
func (w *world) restartDNS(t *testing.T, cluster string) {
	t.Helper()
	w.do(t, "", "kubectl", "--context="+cluster, "--namespace=kube-system", "delete", "pod", "--selector=k8s-app=kube-dns")
	w.do(t, "", "kubectl", "--context="+cluster, "--namespace=kube-system", "rollout", "status", "deployment/coredns", "--timeout=10m")
}
