//go:build apiserver

package gateway

import (
	"testing"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/kube"
)

// cluster is a world with a real API server.
type cluster struct {
	*kube.Cluster
	*fixture
}

func newCluster(t *testing.T, c *kube.Cluster) *cluster {
	t.Helper()
	c.InstallCRDs(t, crds.Files)
	account := c.ServiceAccount(t, "strait", "gateway")
	c.Grant(t, rbac.Gateway, "strait", "gateway")
	return &cluster{c, newFixture(t, c.Admin(), account)}
}
