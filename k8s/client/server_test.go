//go:build apiserver

package client_test

import (
	"os"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/wait"
)

func TestMain(m *testing.M) { os.Exit(kube.Main(m)) }

func clientOf(t *testing.T, c *kube.Cluster) *client.Client {
	t.Helper()
	made, err := client.New(c.Admin())
	must(t, err)
	return made
}

func TestEveryKindIsCreatedReadAndDeletedOnARealServer(t *testing.T) {
	cluster := kube.Shared(t)
	cluster.InstallCRDs(t, crds.Files)
	everyKind(t, clientOf(t, cluster))
}

func TestEachManagerAppliesItsOwnFieldsOnARealServer(t *testing.T) {
	cluster := kube.Shared(t)
	cluster.InstallCRDs(t, crds.Files)
	ownFields(t, clientOf(t, cluster))
}

func TestACacheFollowsARealServerAndStaysWhileThatIsAway(t *testing.T) {
	cluster := kube.Start(t)
	cluster.InstallCRDs(t, crds.Files)
	c := clientOf(t, cluster)
	ctx := t.Context()
	all, one, changes := follow(t, c)
	for _, name := range []string{"c", "b"} {
		_, err := c.Peerings().Create(ctx, peering(name), metav1.CreateOptions{})
		must(t, err)
	}
	wait.Until(t, "both are in the cache, by name", func() bool { return slices.Equal(names(all), []string{"b", "c"}) })
	wait.Until(t, "one is in the other", func() bool { return slices.Equal(names(one), []string{"b"}) })
	<-changes

	cluster.StopServer(t)
	b, ok := all.Get("b")
	if !ok || b.Spec.ClusterID != "b" || b.ManagedFields != nil {
		t.Errorf("while the API server is away: %+v", b)
	}
	cluster.StartServer(t)
	must(t, c.Peerings().Delete(ctx, "b", metav1.DeleteOptions{}))
	wait.Until(t, "it is gone", func() bool { _, ok := all.Get("b"); return !ok && len(names(one)) == 0 })
	<-changes
}
