package offload_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/protocol"
)

// value returns the value of the ConfigMap settings in the provider, empty if there is none.
func (j *joined) value(t *testing.T) string {
	is, err := j.b.Client(t).ConfigMaps("shop").Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return is.Data["value"]
}

// runPod adds a pod that needs the ConfigMap settings.
//
//strait:virtualtime
func (j *joined) runPod(t *testing.T) {
	j.a.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"strait.dev/offload": "b"}}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"}, Status: corev1.PodStatus{Phase: corev1.PodPending},
			Spec: corev1.PodSpec{NodeName: "strait-b", Containers: []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}}}},
		})
}

func (j *joined) set(value string) {
	j.a.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}, Data: map[string]string{"value": value}})
}

// A ConfigMap that appears, changes and disappears does so in the provider, within the time that a
// kubelet may take.
func TestAConfigMapOfAPodIsCopied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.runPod(t)
		time.Sleep(time.Minute)
		pod, err := j.a.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || pod.Status.Reason != "ObjectMissing" {
			t.Errorf("without its ConfigMap, the pod has the reason %q, %v", pod.Status.Reason, err)
		}
		if _, err := j.b.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{}); err == nil {
			t.Error("it has a twin")
		}
		j.set("1")
		time.Sleep(20 * time.Second)
		if _, err := j.b.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || j.value(t) != "1" {
			t.Errorf("20 s later, the value is %q, and of the twin: %v", j.value(t), err)
		}
		j.set("2")
		time.Sleep(70 * time.Second)
		if j.value(t) != "2" {
			t.Errorf("70 s after a change, the value is %q", j.value(t))
		}
		j.cable.set(true)
		j.set("3")
		time.Sleep(10 * time.Minute)
		if j.value(t) != "2" {
			t.Errorf("while the link is cut, the value is %q", j.value(t))
		}
		j.cable.set(false)
		time.Sleep(70 * time.Second)
		if j.value(t) != "3" {
			t.Errorf("after that, the value is %q", j.value(t))
		}
		if err := j.a.Client(t).Pods("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // the provider has no kubelet: its pod is removed at once
		if j.value(t) != "" {
			t.Error("a copy stays that no pod needs")
		}
	})
}

// One that is not the Peering's stays as it is, and no pod reads it.
func TestAnObjectOfTheProviderIsNotOverwritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.b.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}, Data: map[string]string{"value": "provider"}})
		j.set("consumer")
		j.runPod(t)
		time.Sleep(time.Minute)
		pod, err := j.a.Client(t).Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || pod.Status.Reason != "NameTaken" || j.value(t) != "provider" {
			t.Errorf("the value is %q, the pod is %+v, %v", j.value(t), pod.Status, err)
		}
		if err := j.b.Client(t).ConfigMaps("shop").Delete(t.Context(), "settings", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute)
		if j.value(t) != "consumer" {
			t.Errorf("after its deletion, the value is %q", j.value(t))
		}
	})
}

func TestContentsThatAreTooLongAreNotSent(t *testing.T) {
	t.Parallel()
	long := &protocol.Content{ConfigMap: &protocol.ConfigMap{BinaryData: map[string][]byte{"k": make([]byte, protocol.MaxContent)}}}
	if _, _, err := protocol.EncodeContent(long); err == nil {
		t.Error("it is encoded")
	}
}
