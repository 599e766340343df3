package kube

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
)

// Kubernetes returns a client for built-in resources with all permissions.
func (c *Cluster) Kubernetes() kubernetes.Interface { return c.client }

// Grant creates the ClusterRoles and Roles of YAML documents and binds them to a service
// account. A Role without a namespace applies to the namespace of the account. Existing
// objects are kept.
func (c *Cluster) Grant(t testing.TB, documents []byte, namespace, account string) {
	t.Helper()
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}
	for from := yaml.NewYAMLToJSONDecoder(bytes.NewReader(documents)); ; {
		var rules rbacv1.ClusterRole // a Role has the same fields
		err := from.Decode(&rules)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = c.grant(t, rules, namespace, subjects)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (c *Cluster) grant(t testing.TB, rules rbacv1.ClusterRole, namespace string, subjects []rbacv1.Subject) error {
	rbac, ctx := c.client.RbacV1(), t.Context()
	name := metav1.ObjectMeta{Name: rules.Name}
	to := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: rules.Kind, Name: rules.Name}
	if rules.Kind == "ClusterRole" {
		_, err := rbac.ClusterRoles().Create(ctx, &rules, metav1.CreateOptions{})
		_, bindErr := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: name, Subjects: subjects, RoleRef: to}, metav1.CreateOptions{})
		return errors.Join(unlessExists(err), unlessExists(bindErr))
	}
	if rules.Namespace != "" {
		namespace = rules.Namespace
	}
	if err := c.Namespace(ctx, namespace); err != nil {
		return err
	}
	_, err := rbac.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: name, Rules: rules.Rules}, metav1.CreateOptions{})
	_, bindErr := rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: name, Subjects: subjects, RoleRef: to}, metav1.CreateOptions{})
	return errors.Join(unlessExists(err), unlessExists(bindErr))
}

// Namespace creates a namespace unless it exists.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	_, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return unlessExists(err)
}
