package workload

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func nodesOf(providerIDs ...string) (nodes []*corev1.Node) {
	for _, id := range providerIDs {
		nodes = append(nodes, &corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}})
	}
	return nodes
}

func TestLoadBalancersGetWhatUDPNeedsAtTheProvider(t *testing.T) {
	t.Parallel()
	balanced := v1alpha1.GatewayService{Type: corev1.ServiceTypeLoadBalancer, Port: 51840}
	with := func(change func(*v1alpha1.GatewayService)) v1alpha1.GatewayService {
		of := balanced
		change(&of)
		return of
	}
	for _, c := range []struct {
		name    string
		nodes   []*corev1.Node
		service v1alpha1.GatewayService
		want    string // values of the annotations by the last part of their names; then the ports
	}{
		{"AWS", nodesOf("aws:///eu-central-1a/i-0abc", "aws:///eu-central-1b/i-0def"), balanced,
			"healthcheck-path=/healthz healthcheck-port=8081 healthcheck-protocol=http nlb-target-type=ip scheme=internet-facing type=external; UDP 51840"},
		{"DigitalOcean", nodesOf("digitalocean://1"), balanced,
			"healthcheck-path=/healthz healthcheck-port=8081 healthcheck-protocol=http; UDP 51840 TCP 8081>8081"},
		{"DigitalOcean with another health port", nodesOf("digitalocean://1"), with(func(of *v1alpha1.GatewayService) { of.HealthPort = new(int32(9000)) }),
			"healthcheck-path=/healthz healthcheck-port=9000 healthcheck-protocol=http; UDP 51840 TCP 9000>8081"},
		{"Google", nodesOf("gce://project/zone/node"), balanced, "l4-rbs=enabled; UDP 51840"},
		{"Azure", nodesOf("azure:///subscriptions/1"), balanced, "; UDP 51840"},
		{"a bare cluster", nodesOf(""), balanced, "; UDP 51840"},
		{"no nodes", nil, balanced, "; UDP 51840"},
		{"nodes of two providers", nodesOf("aws:///a/i-1", "gce://p/z/n"), balanced, "; UDP 51840"},
		{"a node without a provider among others", nodesOf("aws:///a/i-1", ""), balanced, "; UDP 51840"},
		{"an annotation of the provider in the Peering", nodesOf("aws:///a/i-1"),
			with(func(of *v1alpha1.GatewayService) { of.Annotations = map[string]string{aws + "type": "external"} }), "type=external; UDP 51840"},
		{"another annotation in the Peering", nodesOf("gce://p/z/n"),
			with(func(of *v1alpha1.GatewayService) { of.Annotations = map[string]string{"example.com/team": "net"} }), "l4-rbs=enabled team=net; UDP 51840"},
		{"another class", nodesOf("aws:///a/i-1"),
			with(func(of *v1alpha1.GatewayService) { of.LoadBalancerClass = new("example.com/lb") }), "; UDP 51840"},
		{"no load balancer", nodesOf("aws:///a/i-1"), v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort, Port: 51840}, "; UDP 51840"},
		{"a health port", nodesOf(""), with(func(of *v1alpha1.GatewayService) { of.HealthPort = new(int32(443)) }), "; UDP 51840 TCP 443>8081"},
	} {
		peering := plainPeering()
		peering.Spec.Gateway.Service = c.service
		given := maps.Clone(c.service.Annotations)
		is := Service(inGateways(nil), peering, 0, ProviderOf(c.nodes))
		var annotations []string
		for name, value := range is.Annotations {
			last := strings.TrimPrefix(strings.TrimPrefix(name[strings.Index(name, "/")+1:], "aws-load-balancer-"), "do-loadbalancer-")
			annotations = append(annotations, last+"="+value)
		}
		slices.Sort(annotations)
		got := strings.Join(annotations, " ") + ";"
		for _, p := range is.Spec.Ports {
			got += " " + string(p.Protocol) + " " + portText(p)
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if !maps.Equal(given, c.service.Annotations) {
			t.Errorf("%s: the Peering's annotations were changed to %v", c.name, c.service.Annotations)
		}
	}
}

func portText(p corev1.ServicePort) string {
	if p.Protocol == corev1.ProtocolUDP {
		return strconv.Itoa(int(p.Port))
	}
	return strconv.Itoa(int(p.Port)) + ">" + p.TargetPort.String()
}
