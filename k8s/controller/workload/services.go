package workload

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// Service returns the Service that exposes one gateway to the remote cluster. Each gateway
// has its own endpoint, so that every packet of a tunnel reaches the gateway that has its
// key. lb is the provider of the cluster's load balancers.
func Service(g Gateways, p *v1alpha1.Peering, ordinal int32, lb Provider) *corev1.Service {
	name, of := peering.GatewayName(p, ordinal), p.Spec.Gateway.Service
	selected := selector(p)
	selected["statefulset.kubernetes.io/pod-name"] = name
	port := corev1.ServicePort{Name: "wireguard", Protocol: corev1.ProtocolUDP, Port: of.Port, TargetPort: intstr.FromInt32(wireGuardPort)}
	if of.NodePort != nil {
		port.NodePort = *of.NodePort + ordinal
	}
	service := &corev1.Service{
		ObjectMeta: ObjectMeta(g, p, name),
		Spec: corev1.ServiceSpec{
			Type: of.Type, LoadBalancerClass: of.LoadBalancerClass, Selector: selected, Ports: []corev1.ServicePort{port},
			PublishNotReadyAddresses: true, // a pod becomes ready when its link is up, for which the remote cluster has to reach it
			ExternalTrafficPolicy:    of.ExternalTrafficPolicy,
			IPFamilyPolicy:           of.IPFamilyPolicy, IPFamilies: of.IPFamilies,
		},
	}
	for _, source := range of.LoadBalancerSourceRanges {
		service.Spec.LoadBalancerSourceRanges = append(service.Spec.LoadBalancerSourceRanges, string(source))
	}
	annotations, health := lb.preset(of)
	service.Annotations = annotations
	if health != 0 {
		// After the port of WireGuard, which endpointsOf expects first.
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name: "health", Protocol: corev1.ProtocolTCP, Port: health, TargetPort: intstr.FromInt32(healthPort),
		})
	}
	return service
}

// DisruptionBudget limits drains to one gateway at a time, and keeps one: the only gateway is
// not evicted before a temporary one is ready.
func DisruptionBudget(g Gateways, peering *v1alpha1.Peering) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: ObjectMeta(g, peering, peering.Name),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable:               new(intstr.FromInt32(max(peering.Spec.Gateway.Replicas-1, 1))),
			Selector:                   &metav1.LabelSelector{MatchLabels: selector(peering)},
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow), // an unhealthy gateway is not worth protecting
		},
	}
}
