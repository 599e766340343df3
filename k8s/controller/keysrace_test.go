//go:build apiserver

package controller

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/test/kube"
)

// Controllers that do not know of each other, and try at the same moment.
func TestOfManyAttemptsAtOnceOneKeyComes(t *testing.T) {
	cluster, ctx := kube.Shared(t), t.Context()
	const namespace, rounds, writers = "strait-keys", 20, 6
	if err := cluster.Namespace(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	changes, err := c.Secrets(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	var trying sync.WaitGroup
	failures := make(chan error, rounds*writers)
	for round := range rounds {
		gateway := fmt.Sprintf("b-%d", round)
		for range writers {
			trying.Go(func() {
				one := &controller{client: c, gateways: workload.Gateways{Namespace: namespace}, made: map[keyID]time.Time{}}
				peering := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "11111111-2222-3333-4444-555555555555"}}
				if err := one.makeKey(ctx, peering, keyID{peering.UID, gateway, 1}); err != nil {
					failures <- err
				}
			})
		}
	}
	trying.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	mark := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "last", Namespace: namespace}}
	if _, err := c.Secrets(namespace).Create(ctx, mark, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]string) // by the Secret that had it first
	for change := range changes.ResultChan() {
		secret, ok := change.Object.(*corev1.Secret)
		if !ok {
			t.Fatalf("the watch ended with %v", change.Object)
		}
		if secret.Name == mark.Name {
			break
		}
		key, has := secret.Data["1.key"]
		if was, had := keys[secret.Name]; had && was != string(key) {
			t.Fatalf("the key in Secret %s has changed", secret.Name)
		}
		if has {
			keys[secret.Name] = string(key)
		}
	}
	if len(keys) != rounds {
		t.Errorf("of %d gateways, %d have a key", rounds, len(keys))
	}
	if err := c.Secrets(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
