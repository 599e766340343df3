package controller

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/network"
	"strait.dev/strait/k8s/controller/workload"
)

func (c *controller) gatewayAddresses() (all []netip.Addr) {
	for _, pod := range c.pods.List() {
		if pod.Labels[workload.PeeringLabel] == "" {
			continue
		}
		all = append(all, addressesOfPod(pod)...)
	}
	return all
}

// addressesOfPod returns the addresses that a pod has. Those of a pod that has ended may be another pod's.
func addressesOfPod(pod *corev1.Pod) []netip.Addr {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	var texts []string
	for _, ip := range pod.Status.PodIPs {
		texts = append(texts, ip.IP)
	}
	return cidrs.OrdinaryAddresses(texts)
}

// observe creates the ClusterNetwork if it is missing, updates its status, and returns the
// network.
func (c *controller) observe(ctx context.Context) (*network.Network, error) {
	object, ok := c.networks.Get(v1alpha1.ClusterNetworkName)
	if !ok {
		var err error
		// Applied, so that no manager owns the defaults, and an admin can apply other values.
		object, err = c.client.ClusterNetworks().Apply(ctx, &v1alpha1.ClusterNetwork{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName, Annotations: c.installation.annotations()},
		}, Manager)
		if err != nil {
			return nil, fmt.Errorf("ClusterNetwork %s: %w", v1alpha1.ClusterNetworkName, err)
		}
	}
	object, refused, err := c.install(ctx, object)
	if err != nil {
		return nil, err
	}
	f, err := network.Gather(ctx, c.client, object, c.log)
	if err != nil {
		return nil, fmt.Errorf("detect the CIDRs of the cluster: %w", err)
	}
	n := network.New(object.Spec, network.Detect(object.Spec, f, c.nodes.List()))
	n.WithoutNodes, n.GatewayPods = c.gateways.WithoutNodes, c.gatewayAddresses()
	if c.unattached != nil {
		n.Attached = new(nodesAttached(c.unattached))
	}
	if refused != "" {
		n.Problem = refused
	}
	status := n.Status(object)
	if !reflect.DeepEqual(status, object.Status) {
		if _, err := c.client.ClusterNetworks().ApplyStatus(ctx, &v1alpha1.ClusterNetwork{
			ObjectMeta: metav1.ObjectMeta{Name: object.Name}, Status: status,
		}, Manager); err != nil {
			return nil, fmt.Errorf("status of ClusterNetwork %s: %w", object.Name, err)
		}
		c.tell(time.Now(), "ClusterNetwork", object, object.Status.Conditions, status.Conditions, nil)
	}
	return n, nil
}

// podReservations returns the prefixes that no pod may have an address in.
func podReservations(n *network.Network, inForce []claims.Spec) []ipam.Reserved {
	all := n.AddressPools()
	for _, spec := range inForce {
		if spec.Pool == v1alpha1.PoolRemap {
			if p := claims.Grant(spec).Prefix; p.IsValid() {
				all = append(all, ipam.Reserved{Prefix: p, Use: "the mapped CIDR of " + spec.Owner.Kind + " " + spec.Owner.Name})
			}
		}
	}
	return all
}
