package controller_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// nodeIs sets the condition Ready of a node.
func (f *fixture) nodeIs(name string, ready corev1.ConditionStatus) {
	f.Helper()
	node, err := f.Nodes().Get(f.Context(), name, metav1.GetOptions{})
	must(f.T, err)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	_, err = f.cluster.Kubernetes().CoreV1().Nodes().UpdateStatus(f.Context(), node, metav1.UpdateOptions{})
	must(f.T, err)
}

// forcing returns the configuration of a client whose deletions of pods do not wait for the
// kubelet, as those with a grace period of 0 on a real API server.
func (f *fixture) forcing() *rest.Config {
	config := f.cluster.Admin()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return client.RoundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil && r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/pods/") {
				name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
				_, _ = f.Pods(gateways).Patch(context.Background(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			}
			return answer, err
		})
	})
	return config
}

// stopwatch returns a function that returns the time since.
//
//strait:virtualtime
func stopwatch() (took func() time.Duration) {
	begun := time.Now()
	return func() time.Duration { return time.Since(begun) }
}

// placedOn waits until the pod of a gateway is another one than before, on a node.
func (f *fixture) placedOn(name, node string, before types.UID) {
	f.Helper()
	f.until("another pod "+name, func() string {
		pod, err := f.Pods(gateways).Get(f.Context(), name, metav1.GetOptions{})
		if err != nil || pod.UID == before || pod.Spec.NodeName != node {
			return fmt.Sprintf("%v on %q, %v", pod.UID, pod.Spec.NodeName, err)
		}
		return ""
	})
}

func TestF8_AGatewayOfALostNodeStartsElsewhere(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s := f.simulate()
		f.start(f.forcing(), "default", "first")
		f.asks("b", v1alpha1.GatewaySpec{Replicas: 1})
		f.untilRunning("b-0 v1 ready")
		pod := f.gatewayPod("b-0")
		stays := func(why string) {
			t.Helper()
			f.pause(time.Minute)
			if is := f.gatewayPod("b-0"); is.UID != pod.UID {
				t.Fatalf("%s: the pod was deleted", why)
			}
		}
		f.confirm("node-2", true)
		s.set(func() { s.lost["node-1"] = true })
		f.nodeIs("node-1", corev1.ConditionUnknown)
		stays("the node is not ready, but nothing has evicted the pod")
		must(t, f.Pods(gateways).Delete(t.Context(), "b-0", metav1.DeleteOptions{}))
		stays("another node reaches the gateway")
		f.nodeIs("node-1", corev1.ConditionTrue)
		f.confirm("node-2", false)
		stays("the node is ready")

		took := stopwatch()
		f.nodeIs("node-1", corev1.ConditionUnknown)
		f.placedOn("b-0", "node-2", pod.UID)
		f.untilRunning("b-0 v1 ready")
		if took := took(); took > 10*time.Second {
			t.Errorf("the gateway is back after %v", took)
		}
	})
}

func TestF8_AGatewayOfADeletedNodeStartsElsewhere(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s := f.simulate()
		f.start(f.forcing(), "default", "first")
		f.asks("b", v1alpha1.GatewaySpec{Replicas: 1})
		f.untilRunning("b-0 v1 ready")
		pod := f.gatewayPod("b-0")
		s.set(func() {
			s.lost["node-1"] = true
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}} // Kubernetes writes it
			_, err := f.Pods(gateways).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
			must(t, err)
		})
		f.deleteNode("node-1")
		f.placedOn("b-0", "node-2", pod.UID)
		f.untilRunning("b-0 v1 ready")
	})
}
