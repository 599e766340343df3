package kube

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ServiceAccount returns the configuration of a client that acts as a service account, with
// a token issued by the API server. Missing namespaces and service accounts are created.
// The account has the permissions granted by RBAC: initially only those of every
// authenticated client.
func (c *Cluster) ServiceAccount(t testing.TB, namespace, name string) *rest.Config {
	t.Helper()
	accounts, named := c.client.CoreV1().ServiceAccounts(namespace), metav1.ObjectMeta{Name: name}
	must(t, c.Namespace(t.Context(), namespace))
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: named}, metav1.CreateOptions{})
	must(t, unlessExists(err))
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	config := c.anonymous()
	config.BearerToken = token.Status.Token
	return config
}

func unlessExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
