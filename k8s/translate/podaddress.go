package translate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod contains the relevant fields of a pod that has its own addresses.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Node            string
	Addresses       []string
	Created         time.Time
	Terminating     bool // it is being deleted, and may still run
}

// PodOf returns the relevant fields of a pod. It returns false for pods that have no
// address of their own: those with host network, those that have finished, and those that
// are not scheduled. A pod has its address as soon as its network is set up, which is
// before it counts as running: its init containers use it.
func PodOf(p *corev1.Pod) (Pod, bool) {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if p.Spec.HostNetwork || ended || p.Spec.NodeName == "" || len(p.Status.PodIPs) == 0 {
		return Pod{}, false
	}
	addresses := make([]string, len(p.Status.PodIPs))
	for i, a := range p.Status.PodIPs {
		addresses[i] = a.IP
	}
	return Pod{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Node: p.Spec.NodeName, Addresses: addresses,
		Created: p.CreationTimestamp.Time, Terminating: p.DeletionTimestamp != nil,
	}, true
}

// name returns the name of the pod for a Problem.
func (p *Pod) name() string { return "Pod " + p.Namespace + "/" + p.Name }

// byClaim sorts pods so that of several with the same address, the owner comes last:
// running ones after terminating ones, newer ones after older ones.
func byClaim(pods []Pod) []Pod {
	ending := func(p Pod) int {
		if p.Terminating {
			return 0
		}
		return 1
	}
	return slices.SortedFunc(slices.Values(pods), func(a, b Pod) int {
		return cmp.Or(cmp.Compare(ending(a), ending(b)), a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID))
	})
}
