package network

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// Detected returns the ClusterNetwork that a controller would create, with its status: with
// the spec of an existing one, or else an empty spec. It only reads; Strait need not be
// installed.
func Detected(ctx context.Context, c *client.Client) (*v1alpha1.ClusterNetwork, error) {
	log := slog.New(slog.DiscardHandler)
	list, err := c.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	object := &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}, Spec: defaults()}
	is, err := c.ClusterNetworks().Get(ctx, v1alpha1.ClusterNetworkName, metav1.GetOptions{})
	if err := unlessMissing(err, "ClusterNetwork "+v1alpha1.ClusterNetworkName, log); err != nil {
		return nil, err
	}
	if is != nil && is.UID != "" {
		object.Spec, object.Status = is.Spec, is.Status
	}
	f, err := Gather(ctx, c, object, log)
	if err != nil {
		return nil, fmt.Errorf("detect the CIDRs of the cluster: %w", err)
	}
	object.Status = New(object.Spec, Detect(object.Spec, f, nodes)).Status(object)
	return object, nil
}

// defaults returns the spec that the API server makes of an empty one.
func defaults() v1alpha1.ClusterNetworkSpec {
	return v1alpha1.ClusterNetworkSpec{
		InternalCIDRs: []v1alpha1.CIDR{"10.80.0.0/16", "fd73:7472:80::/64"},
		ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/16"},
		RemapPools:    []v1alpha1.CIDR{"10.64.0.0/10", "fd73:7472::/32"},
	}
}
