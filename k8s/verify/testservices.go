package verify

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/internal/endpoint"
)

// createServices creates a Service in this cluster for each pod of the other one, as users
// do to give a remote address a name: without a selector, and with an EndpointSlice that
// contains the pod's mapped address. They are deleted with the agents' namespace.
func (s *site) createServices(ctx context.Context, other *site) map[string]map[family]service {
	all := map[string]map[family]service{}
	for _, p := range other.locations {
		if p.host || p.agent == "" {
			continue
		}
		all[p.agent] = map[family]service{}
		for f, at := range p.seen {
			address, err := s.serviceFor(ctx, p.agent, f, at)
			if err != nil {
				all[p.agent][f] = service{why: fmt.Sprintf("cluster %s: cannot create a Service for %s: %v", s.id, f, err)}
				continue
			}
			all[p.agent][f] = service{address: address}
		}
	}
	return all
}

func (s *site) serviceFor(ctx context.Context, agent string, f family, at netip.Addr) (netip.Addr, error) {
	namespace := s.namespace()
	name := "to-" + agent + "-" + strings.ToLower(string(f))
	var ports []corev1.ServicePort
	var endpoints []discoveryv1.EndpointPort
	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		named := strings.ToLower(string(protocol))
		ports = append(ports, corev1.ServicePort{Name: named, Protocol: protocol, Port: endpoint.Port})
		endpoints = append(endpoints, discoveryv1.EndpointPort{Name: &named, Protocol: &protocol, Port: new(int32(endpoint.Port))})
	}
	made, err := s.Client.Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Ports: ports, IPFamilies: []corev1.IPFamily{corev1.IPFamily(f)}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return netip.Addr{}, err
	}
	_, err = s.Client.EndpointSlices(namespace).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: "strait-verify",
		}},
		AddressType: discoveryv1.AddressType(f),
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{at.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:       endpoints,
	}, metav1.CreateOptions{})
	if err != nil {
		return netip.Addr{}, err
	}
	return netip.ParseAddr(made.Spec.ClusterIP)
}

// namespace returns the namespace of the agents without host network.
func (s *site) namespace() string {
	for _, p := range s.locations {
		if !p.host && p.agent != "" {
			return s.pods.Pod(p.agent).Namespace
		}
	}
	return ""
}
