package controller

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// follow wakes the controller when an object comes or goes or is not the same any more.
// Kubelets and gateways write often what no pass looks at.
func (c *controller) follow(informer cache.SharedIndexInformer, same func(was, is any) bool) error {
	wake := func() {
		select {
		case c.wake <- struct{}{}:
		default: // it will wake up anyway
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake() },
		DeleteFunc: func(any) { wake() },
		UpdateFunc: func(was, is any) {
			if was.(metav1.Object).GetUID() != is.(metav1.Object).GetUID() || !same(was, is) {
				wake()
			}
		},
	})
	return err
}

// nodeEssentials is a transform that keeps of a node what passes look at.
func nodeEssentials(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil // the mark of one that was deleted unseen
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
		Spec:       corev1.NodeSpec{PodCIDRs: node.Spec.PodCIDRs},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses},
	}, nil
}

func sameNode(was, is any) bool {
	a, b := was.(*corev1.Node), is.(*corev1.Node)
	return slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) && slices.Equal(a.Status.Addresses, b.Status.Addresses)
}

func samePeering(was, is any) bool {
	a, b := was.(*v1alpha1.Peering), is.(*v1alpha1.Peering)
	return a.Generation == b.Generation && reflect.DeepEqual(ownStatus(a), ownStatus(b))
}

func sameClaim(was, is any) bool {
	return was.(*v1alpha1.AddressClaim).Status == is.(*v1alpha1.AddressClaim).Status
}

// sameSpec is for objects whose status nobody writes that passes look at.
func sameSpec(was, is any) bool {
	return was.(metav1.Object).GetGeneration() == is.(metav1.Object).GetGeneration()
}

// samePod is for what is looked at of a gateway's pod: whether it runs, and where.
func samePod(was, is any) bool {
	a, b := was.(*corev1.Pod), is.(*corev1.Pod)
	return podReady(a) == podReady(b) && a.Spec.NodeName == b.Spec.NodeName
}

// podReady reports whether a pod runs, is ready, and is not about to end.
func podReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func sameService(was, is any) bool {
	a, b := was.(*corev1.Service), is.(*corev1.Service)
	return reflect.DeepEqual(a.Spec, b.Spec) && reflect.DeepEqual(a.Status.LoadBalancer, b.Status.LoadBalancer)
}
