package controller

import (
	"cmp"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// clusterPod contains the relevant fields of a pod that has its own addresses.
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

// precedes reports whether of two pods with the same address, p is not the owner: running
// pods own it before terminating ones, newer ones before older ones.
func (p *clusterPod) precedes(other *clusterPod) bool {
	if p.terminating != other.terminating {
		return p.terminating
	}
	return cmp.Or(p.created.Compare(other.created), cmp.Compare(p.uid, other.uid)) < 0
}
