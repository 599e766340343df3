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

// reachableServiceType is the type of Service with which gateways of a cluster can be called:
// LoadBalancer where another Service got an address as such, and NodePort elsewhere,
// also where Services may not be read.
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

// acceptsConnections reports whether the remote cluster is to call the gateways of a Peering.
func acceptsConnections(p *v1alpha1.Peering) bool {
	t := p.Spec.Gateway.Service.Type
	return t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer
}

// readyGateways are the gateways that are to run for a Peering, with a sentence about what is
// missing: their keys and, where they are to be called, endpoints.
func readyGateways(p *v1alpha1.Peering) (gateways []v1alpha1.GatewayStatus, missing string) {
	for ordinal := range max(p.Spec.Gateway.Replicas, 1) {
		name := peering.GatewayName(p, ordinal)
		i := slices.IndexFunc(p.Status.Gateways, func(g v1alpha1.GatewayStatus) bool { return g.Name == name })
		switch {
		case i < 0 || p.Status.Gateways[i].PublicKey == "":
			missing = fmt.Sprintf("gateway %s has not said what its public key is; see whether its pod runs, with kubectl get pods -A -l %s=%s", name, peering.Label, p.Name)
			continue
		case acceptsConnections(p) && len(p.Status.Gateways[i].Endpoints) == 0:
			missing = fmt.Sprintf("gateway %s has no endpoint yet; see whether its Service of type %s has got an address", name, p.Spec.Gateway.Service.Type)
		}
		gateways = append(gateways, p.Status.Gateways[i])
	}
	return gateways, missing
}

func haveEndpoint(gateways []v1alpha1.GatewayStatus) bool {
	return slices.ContainsFunc(gateways, func(g v1alpha1.GatewayStatus) bool { return len(g.Endpoints) > 0 })
}
