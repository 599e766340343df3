package borrower

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/lease"
	"strait.dev/strait/offload/loop"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// RemoteTaint keeps pods off virtual nodes that do not tolerate it. Its value is the Peering. It
// has the effect NoSchedule: a pod that loses its toleration keeps running.
const RemoteTaint = "strait.dev/remote"

const (
	leaseFor     = 40 * time.Second // as kubelets
	renewEvery   = 10 * time.Second
	reportEvery  = 5 * time.Minute // a node status without a change
	defaultPods  = 110
	leaseSpace   = "kube-node-lease"
	reasonReady  = "LenderAnswers"
	reasonAbsent = "NoSuchResource"
)

// NodeName returns the name of a Peering's virtual node.
func NodeName(peering, chosen string) string { return cmp.Or(chosen, "strait-"+peering) }

func node(peering string, n translate.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name,
			Labels: map[string]string{
				translate.PeeringLabel: peering,
				"type":                 "virtual-kubelet", // DaemonSets of networks and clouds exclude it
				corev1.LabelHostname:   n.Name,
				"node.kubernetes.io/exclude-from-external-load-balancers": "",
				// Its loss says nothing about the other nodes of its zone.
				"node.kubernetes.io/exclude-disruption": "",
			},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: RemoteTaint, Value: peering, Effect: corev1.TaintEffectNoSchedule}}},
	}
}

// nodeStatus returns the status of the virtual node: ready, with the resources that both
// clusters agree on.
func nodeStatus(was corev1.NodeStatus, n translate.Node, port int32, version string, lent, borrowed corev1.ResourceList, now metav1.Time) corev1.NodeStatus {
	is := *was.DeepCopy()
	is.Capacity = capacity(lent, borrowed)
	is.Allocatable = is.Capacity
	is.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.Name}}
	for _, a := range n.Addresses {
		is.Addresses = append(is.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	is.DaemonEndpoints.KubeletEndpoint.Port = port
	is.NodeInfo.KubeletVersion = version // of this cluster: kubeadm compares it
	set := func(t corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) {
		c := corev1.NodeCondition{Type: t, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now}
		i := slices.IndexFunc(is.Conditions, func(c corev1.NodeCondition) bool { return c.Type == t })
		if i < 0 {
			is.Conditions = append(is.Conditions, c)
			return
		}
		if old := is.Conditions[i]; old.Status == status {
			c.LastTransitionTime = old.LastTransitionTime
			if old.Reason == reason && now.Sub(old.LastHeartbeatTime.Time) < reportEvery {
				return
			}
		}
		is.Conditions[i] = c
	}
	set(corev1.NodeReady, corev1.ConditionTrue, reasonReady, "the other cluster answers")
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		set(pressure, corev1.ConditionFalse, reasonAbsent, "the other cluster places its pods")
	}
	return is
}

// capacity returns what both clusters agree on: of each resource the lesser quantity. A resource
// that only one of them limits has that limit.
func capacity(lent, borrowed corev1.ResourceList) corev1.ResourceList {
	least := make(corev1.ResourceList)
	for _, list := range []corev1.ResourceList{lent, borrowed, {corev1.ResourcePods: *resource.NewQuantity(protocol.MaxPods, resource.DecimalSI)}} {
		for name, q := range list {
			if is, ok := least[name]; !ok || q.Cmp(is) < 0 {
				least[name] = q
			}
		}
	}
	_, lentPods := lent[corev1.ResourcePods]
	if _, borrowedPods := borrowed[corev1.ResourcePods]; !lentPods && !borrowedPods {
		least[corev1.ResourcePods] = *resource.NewQuantity(defaultPods, resource.DecimalSI)
	}
	return least
}

// beat renews the node while pods are read, apart from the loop: what the loop sends may take longer
// than a lease lasts. It ends the run if a later one has taken its Lease.
func (b *borrower) beat(ctx context.Context, stop context.CancelCauseFunc) {
	var renewed, kept time.Time // the lease; the node, while the lender is silent
	ticker := time.NewTicker(loop.Retry)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		hello := b.link.latest(now)
		last := &kept
		if hello != nil {
			last = &renewed
		}
		if !b.pods.HasSynced() || now.Sub(*last) < renewEvery {
			continue
		}
		switch err := b.renew(ctx, hello, now); {
		case err == nil:
			*last = now
		case errors.Is(err, lease.ErrLost):
			stop(err)
			return
		case ctx.Err() == nil:
			b.log.Warn("cannot renew the node; retrying", "error", err)
		}
	}
}

// renew shows the control plane that the node is alive, unless the lender is silent and hello nil. In
// both cases it keeps the object of the node: controllers of clouds delete a node that is not ready if
// they know no machine of that name, and the control plane then removes the pods of the node.
func (b *borrower) renew(ctx context.Context, hello *protocol.Hello, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.lease.Held(ctx); err != nil {
		return err
	}
	p, ok := b.peerings.Get(b.Peering)
	if !ok || p.Spec.Borrow == nil {
		return nil // a cluster that borrows nothing has no node to keep
	}
	nodes := b.asNode.Nodes()
	is, err := nodes.Get(ctx, b.node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		is, err = nodes.Create(ctx, node(b.Peering, b.node), metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("keep node %s: %w", b.node.Name, err)
	}
	if hello == nil {
		return nil
	}
	want := nodeStatus(is.Status, b.node, b.port(), b.version, hello.Resources, p.Spec.Borrow.Resources, metav1.NewTime(now.Truncate(time.Second)))
	if !apiequality.Semantic.DeepEqual(is.Status, want) {
		is.Status = want
		if _, err := nodes.UpdateStatus(ctx, is, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update the status of node %s: %w", b.node.Name, err)
		}
	}
	if err := b.renewLease(ctx, is, now); err != nil {
		return fmt.Errorf("renew the lease of node %s: %w", b.node.Name, err)
	}
	return nil
}

func (b *borrower) renewLease(ctx context.Context, of *corev1.Node, now time.Time) error {
	leases, seconds := b.asNode.Leases(leaseSpace), int32(leaseFor/time.Second)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &b.node.Name, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: now}}
	is, err := leases.Get(ctx, b.node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: b.node.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: of.Name, UID: of.UID}}},
			Spec:       spec,
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	is.Spec = spec
	_, err = leases.Update(ctx, is, metav1.UpdateOptions{})
	return err
}
