package operator

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// reachableServiceType returns a Service type with which the gateways of a cluster can be
// reached: LoadBalancer if another Service has an address from a load balancer, otherwise
// NodePort, even if Services may not be read.
func (c Cluster) reachableServiceType(ctx context.Context) corev1.ServiceType {
	ctx, cancel := c.within(ctx)
	defer cancel()
	services, err := c.Client.Services("").List(ctx, metav1.ListOptions{})
	if err == nil && slices.ContainsFunc(services.Items, func(s corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) > 0
	}) {
		return corev1.ServiceTypeLoadBalancer
	}
	return corev1.ServiceTypeNodePort
}

// acceptsConnections reports whether the gateways of a Peering accept connections from the
// remote cluster.
func acceptsConnections(p *v1alpha1.Peering) bool {
	t := p.Spec.Gateway.Service.Type
	return t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer
}

// readyGateways returns the gateways of a Peering that have keys and what is missing: keys
// or, if they accept connections, endpoints. Gateways without a node are not waited for if
// there are others: the remote cluster learns them through the tunnel when they run.
func readyGateways(p *v1alpha1.Peering) (gateways []v1alpha1.GatewayStatus, missing string) {
	noEndpoint := ""
	for ordinal := range max(p.Spec.Gateway.Replicas, 1) {
		name := peering.GatewayName(p, ordinal)
		i := slices.IndexFunc(p.Status.Gateways, func(g v1alpha1.GatewayStatus) bool { return g.Name == name })
		switch {
		case i < 0 || p.Status.Gateways[i].PublicKey == "":
			missing = fmt.Sprintf("gateway %s has not reported its public key; check that its pod runs: kubectl get pods -A -l %s=%s", name, peering.Label, p.Name)
			continue
		case acceptsConnections(p) && len(p.Status.Gateways[i].Endpoints) == 0:
			noEndpoint = fmt.Sprintf("gateway %s has no endpoint yet; check that its Service of type %s has an address, or set spec.gateway.replicas to the number of addresses that there are", name, p.Spec.Gateway.Service.Type)
			if p.Status.LoadBalancer != "" {
				noEndpoint += "; a load balancer controller of " + p.Status.LoadBalancer + " must run, whose annotations for UDP the Service has"
			}
			missing = noEndpoint
		}
		gateways = append(gateways, p.Status.Gateways[i])
	}
	if c := condition(p, v1alpha1.ConditionGatewaysUp); c != nil && c.Reason == v1alpha1.ReasonUnschedulable && len(gateways) > 0 {
		return gateways, noEndpoint
	}
	return gateways, missing
}

func haveEndpoint(gateways []v1alpha1.GatewayStatus) bool {
	return slices.ContainsFunc(gateways, func(g v1alpha1.GatewayStatus) bool { return len(g.Endpoints) > 0 })
}
