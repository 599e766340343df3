//go:build apiserver

package kube

import (
	"context"
	"errors"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestClustersAreIndependent(t *testing.T) {
	a, b := Start(t), Start(t)
	createNamespace(t, a, "only-in-a")
	if _, err := b.client.CoreV1().Namespaces().Get(t.Context(), "only-in-a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace of A in B: %v, want not found", err)
	}
	crossed := b.Admin()
	crossed.Host = a.Admin().Host
	crossed.CAData = a.ca
	_, err := clientOf(t, crossed).CoreV1().Namespaces().Get(t.Context(), "only-in-a", metav1.GetOptions{})
	if !apierrors.IsUnauthorized(err) {
		t.Errorf("B's administrator at A: %v, want unauthorized", err)
	}
}

func TestClientsAreLimitedToTheirGrants(t *testing.T) {
	c := Shared(t)
	if _, err := clientOf(t, c.anonymous()).Discovery().ServerVersion(); !apierrors.IsUnauthorized(err) {
		t.Errorf("a client without credentials: %v, want unauthorized", err)
	}

	helper := clientOf(t, c.ServiceAccount(t, "strait-access", "helper"))
	_, err := helper.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a service account without grants: %v, want forbidden", err)
	}
	allowToListNodes(t, c, "strait-access", "helper")
	until(t, c.server, "the service account lists nodes", func(ctx context.Context) error {
		_, err := helper.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
}

func TestStoppedServerRefusesAndRestartsWithItsObjects(t *testing.T) {
	c := Start(t)
	createNamespace(t, c, "kept")
	c.StopServer(t)
	if _, err := c.client.Discovery().ServerVersion(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("while the server is stopped: %v, want connection refused", err)
	}
	c.StartServer(t)
	if _, err := c.client.CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

func TestPausedServerDoesNotAnswer(t *testing.T) {
	c := Start(t)
	c.PauseServer(t)
	config := c.Admin()
	config.Timeout = 200 * time.Millisecond
	_, err := clientOf(t, config).Discovery().ServerVersion()
	var failed *url.Error
	if !errors.As(err, &failed) || !failed.Timeout() {
		t.Errorf("while the server is paused: %v, want a timeout", err)
	}
	c.ResumeServer(t)
	if _, err := c.client.Discovery().ServerVersion(); err != nil {
		t.Errorf("after it was resumed: %v", err)
	}
}

func TestRestoreUndoesWritesAfterTheSnapshot(t *testing.T) {
	c := Start(t)
	createNamespace(t, c, "before")
	snapshot := c.Snapshot(t)
	late := createNamespace(t, c, "after")
	c.Restore(t, snapshot)
	if _, err := c.client.CoreV1().Namespaces().Get(t.Context(), "before", metav1.GetOptions{}); err != nil {
		t.Errorf("an object from before the snapshot: %v", err)
	}
	if _, err := c.client.CoreV1().Namespaces().Get(t.Context(), "after", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an object from after the snapshot: %v, want not found", err)
	}
	again := createNamespace(t, c, "after")
	if again.UID == late.UID {
		t.Error("an object created again has the UID of the lost one")
	}
}

func TestEverythingEndsWithTheTest(t *testing.T) {
	var c *Cluster
	var parts []*process
	t.Run("inner", func(t *testing.T) {
		c = Start(t)
		parts = []*process{c.etcd, c.server}
		c.PauseServer(t)
	})
	if c == nil {
		t.Skip("the cluster could not be started; the inner test states the reason")
	}
	for _, p := range parts {
		if err := syscall.Kill(p.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s still runs: %v", p.cmd.Path, err)
		}
	}
	if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
		t.Errorf("the cluster's directory was left: %v", err)
	}
}

// allowToListNodes grants a service account to list nodes.
func allowToListNodes(t *testing.T, c *Cluster, namespace, account string) {
	t.Helper()
	rbac, name := c.client.RbacV1(), metav1.ObjectMeta{Name: "lists-nodes"}
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: name,
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}, metav1.CreateOptions{})
	must(t, err)
}

func clientOf(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

func createNamespace(t *testing.T, c *Cluster, name string) *corev1.Namespace {
	t.Helper()
	created, err := c.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	return created
}
