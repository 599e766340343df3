package kube

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// BoundAccount returns the configuration of a client that acts as a service account with a
// token that is bound to a pod, as a kubelet requests it. The pod is created on the node,
// which need not exist. It is deleted after the test.
func (c *Cluster) BoundAccount(t testing.TB, namespace, account, pod, node string) (config *rest.Config, uid types.UID) {
	t.Helper()
	c.ServiceAccount(t, namespace, account)
	pods, now := c.client.CoreV1().Pods(namespace), int64(0)
	created, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}, Spec: corev1.PodSpec{
		NodeName: node, ServiceAccountName: account, AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, pods.Delete(context.Background(), pod, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	})
	return c.BoundToken(t, created), created.UID
}

// BoundToken returns the configuration of a client that acts as the service account of a
// pod, with a token that is bound to it.
func (c *Cluster) BoundToken(t testing.TB, pod *corev1.Pod) *rest.Config {
	t.Helper()
	token, err := c.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(t.Context(), pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	must(t, err)
	config := c.anonymous()
	config.BearerToken = token.Status.Token
	return config
}
