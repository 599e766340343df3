//go:build apiserver

package controller_test

import (
	"context"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/logbuffer"
)

func TestMain(m *testing.M) { os.Exit(kube.Main(m)) }

// process is a real API server.
type process struct{ *kube.Cluster }

func (p process) Account(t testing.TB, namespace, name string, rules []byte) *rest.Config {
	t.Helper()
	account := p.ServiceAccount(t, namespace, name)
	p.Grant(t, rules, namespace, name)
	return account
}

// newFixture is a fixture with a real API server, whose objects are gone after the test.
func newFixture(t *testing.T, cluster *kube.Cluster) *fixture {
	t.Helper()
	cluster.InstallCRDs(t, crds.Files)
	c, err := client.New(cluster.Admin())
	must(t, err)
	must(t, cluster.Namespace(t.Context(), gateways))
	f := &fixture{T: t, Client: c, cluster: process{cluster}, log: new(logbuffer.Buffer), served: map[string]string{}, wait: kube.Until, pause: time.Sleep}
	t.Cleanup(f.clear)
	return f
}

func (f *fixture) clear() {
	ctx, all := context.Background(), metav1.ListOptions{}
	must(f.T, f.Peerings().DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(f.T, f.NodeAttachments().DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(f.T, f.AddressMappings().DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(f.T, f.AddressClaims().DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(f.T, f.ClusterNetworks().DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(f.T, f.cluster.Kubernetes().CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	// Nothing deletes objects whose owner is gone here.
	must(f.T, f.StatefulSets(gateways).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(f.T, f.Services(gateways).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(f.T, f.NetworkPolicies(gateways).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(f.T, f.PodDisruptionBudgets(gateways).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(f.T, f.GatewayReports(gateways).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	must(f.T, f.Secrets(gateways).DeleteCollection(ctx, metav1.DeleteOptions{}, all))
}

// get returns what a controller answers, or why it does not.
func (f *fixture) get(identity, path string) string { return get(f.served[identity], path) }
