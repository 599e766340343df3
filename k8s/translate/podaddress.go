package translate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod is what matters here of a pod that has addresses of its own.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	Node            string
	Addresses       []string
	Created         time.Time
	Terminating     bool // it was asked to end, and may still run
}

// PodOf is what matters of a pod. It is false for pods that have no address of their
// own, or have none any more: those on the network of their node, those that have
// ended, and those that no node has taken up yet. A pod has its address from the
// moment that its network is there, which is before it counts as running: its init
// containers use it.
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

// name is how a Problem names the pod.
func (p *Pod) name() string { return "Pod " + p.Namespace + "/" + p.Name }

// byClaim sorts pods so that of several that claim one address, the one that has it
// comes last: one that shall run before one that is to end, the newer before the older.
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
