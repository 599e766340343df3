//go:build apiserver

package chart

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"strait.dev/strait/test/kube"
)

// controllers are the controllers of Kubernetes that an installation needs.
var controllers = []string{
	"daemonset-controller", "deployment-controller", "replicaset-controller", "statefulset-controller", "job-controller", "resourcequota-controller",
}

// kubelets report the state of the pods on the nodes of a cluster whose scheduler and
// controllers are those of Kubernetes: pods run once they are scheduled, those of Jobs succeed,
// and those that are deleted end. Virtual nodes run no pods with the host network.
type kubelets struct {
	api     kubernetes.Interface
	virtual map[string]bool // nodes
	last    int             // pod address that was assigned last
}

// startKubelets starts Kubernetes' scheduler and controllers, and kubelets for all nodes, until
// the test ends.
func startKubelets(t *testing.T, cluster *kube.Cluster, virtual ...string) {
	t.Helper()
	cluster.StartControllerManager(t, controllers...)
	cluster.StartScheduler(t)
	k := &kubelets{api: cluster.Kubernetes(), virtual: make(map[string]bool)}
	for _, name := range virtual {
		k.virtual[name] = true
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := k.pass(ctx); err != nil && ctx.Err() == nil {
				t.Logf("kubelets: %v", err) // a pod that was changed meanwhile is in the next pass
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// pass reports the state of all pods.
func (k *kubelets) pass(ctx context.Context) error {
	pods, err := k.api.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		of := k.api.CoreV1().Pods(pod.Namespace)
		switch {
		case pod.DeletionTimestamp != nil:
			err = of.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		case pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending && !(pod.Spec.HostNetwork && k.virtual[pod.Spec.NodeName]):
			k.run(pod)
			_, err = of.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run sets the status of a pod that runs, or, of a Job, has succeeded.
func (k *kubelets) run(pod *corev1.Pod) {
	k.last++
	pod.Status.PodIP = fmt.Sprintf("10.0.200.%d", k.last)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.Phase = corev1.PodRunning
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		pod.Status.Phase = corev1.PodSucceeded
		return
	}
	for _, is := range append([]corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady}, gates(pod)...) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: is, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	}
}

func gates(pod *corev1.Pod) (all []corev1.PodConditionType) {
	for _, g := range pod.Spec.ReadinessGates {
		all = append(all, g.ConditionType)
	}
	return all
}

// addNode adds a node that is ready, with additional labels and taints.
func addNode(t *testing.T, cluster *kube.Cluster, number int, name string, labels map[string]string, taints ...corev1.Taint) {
	t.Helper()
	nodes := cluster.Kubernetes().CoreV1().Nodes()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux", corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{PodCIDR: fmt.Sprintf("10.0.%d.0/24", number), PodCIDRs: []string{fmt.Sprintf("10.0.%d.0/24", number)}},
	}
	for key, value := range labels {
		node.Labels[key] = value
	}
	node, err := nodes.Create(t.Context(), node, metav1.CreateOptions{})
	must(t, err)
	node.Spec.Taints = taints // without that of a node that is not ready
	node, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{})
	must(t, err)
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node.Status = corev1.NodeStatus{
		Capacity: room, Allocatable: room,
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", number)}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	_, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	must(t, err)
}
