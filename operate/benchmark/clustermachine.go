package benchmark

import (
	"context"
	"fmt"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/operate/operator"
)

// Machine describes the nodes of the gateways, from the API servers. Where they differ,
// both values are listed.
func Machine(ctx context.Context, a, b *operator.Side, version string) (result.Machine, error) {
	near, err := gatewayNode(ctx, a)
	if err != nil {
		return result.Machine{}, err
	}
	far, err := gatewayNode(ctx, b)
	if err != nil {
		return result.Machine{}, err
	}
	both := func(of func(*corev1.Node) string) string {
		if of(near) == of(far) {
			return of(near)
		}
		return of(near) + " and " + of(far)
	}
	cores := near.Status.Capacity.Cpu().Value()
	return result.Machine{
		Kernel: both(func(n *corev1.Node) string { return n.Status.NodeInfo.KernelVersion }),
		CPU:    both(instance),
		Cores:  int(cores), GOMAXPROCS: int(cores),
		Memory: uint64(max(near.Status.Capacity.Memory().Value(), 0)),
		OS:     both(func(n *corev1.Node) string { return n.Status.NodeInfo.OperatingSystem }),
		Arch:   both(func(n *corev1.Node) string { return n.Status.NodeInfo.Architecture }),
		Go:     runtime.Version(), Strait: version,
	}, nil
}

// instance returns the instance type of a node, which identifies its CPU.
func instance(n *corev1.Node) string {
	if t := n.Labels[corev1.LabelInstanceTypeStable]; t != "" {
		return t
	}
	return fmt.Sprintf("node %s", n.Name)
}

func gatewayNode(ctx context.Context, s *operator.Side) (*corev1.Node, error) {
	name := s.Gateway()
	if name == "" {
		return nil, fmt.Errorf("%s: no gateway of Peering %s runs; run strait status %[2]s", s.Name, s.Peering.Name)
	}
	n, err := s.Client.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return n, nil
}
