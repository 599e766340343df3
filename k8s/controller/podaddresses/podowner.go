package podaddresses

import (
	"cmp"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

type clusterPod struct {
	namespace, name string
	uid             types.UID
	node            string
	addresses       []netip.Addr
	invalid         string // an address that cannot be parsed; empty: none
	created         time.Time
	terminating     bool // it is being deleted, and may still run
}

// clusterPodOf returns the relevant fields of a pod. It returns false for pods that have no
// address of their own: those with host network, those that have finished, and those that
// are not scheduled. A pod has its address as soon as its network is set up, which is
// before it counts as running: its init containers use it.
func clusterPodOf(p *corev1.Pod) (*clusterPod, bool) {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if p.Spec.HostNetwork || ended || p.Spec.NodeName == "" || len(p.Status.PodIPs) == 0 {
		return nil, false
	}
	is := &clusterPod{
		namespace: p.Namespace, name: p.Name, uid: p.UID, node: p.Spec.NodeName,
		created: p.CreationTimestamp.Time, terminating: p.DeletionTimestamp != nil,
	}
	for _, text := range p.Status.PodIPs {
		a, err := netip.ParseAddr(text.IP)
		if err != nil || a.Zone() != "" {
			is.invalid = text.IP
			continue
		}
		is.addresses = append(is.addresses, a)
	}
	return is, true
}

// owns reports whether of two pods with the same address, p is the owner and not other:
// running pods own it before terminating ones, pods of the node that has it, empty if none,
// before those of others, older ones before newer ones. So a kubelet that reports the address
// of another node's pod does not get it.
func (p *clusterPod) owns(other *clusterPod, holder string) bool {
	switch {
	case p.terminating != other.terminating:
		return other.terminating
	case (p.node == holder) != (other.node == holder):
		return p.node == holder
	}
	return cmp.Or(p.created.Compare(other.created), cmp.Compare(p.uid, other.uid)) < 0
}
