package workload

import (
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Provider is what a LoadBalancer Service with a UDP port needs at a provider. The zero
// Provider needs nothing.
type Provider struct {
	Scheme      string            // of the nodes' providerID
	own         []string          // prefixes of the provider's annotations
	annotations map[string]string // with which UDP works
	healthAt    string            // the annotation for the TCP port that health checks need in the same Service; empty: they need none
}

const aws, digitalOcean = "service.beta.kubernetes.io/aws-load-balancer-", "service.beta.kubernetes.io/do-loadbalancer-"

// providers are those whose documentation asks for something. Azure's and Linode's does not.
var providers = []Provider{
	{
		Scheme: "aws", own: []string{aws},
		annotations: map[string]string{
			aws + "type":                 "external", // AWS Load Balancer Controller: the one in Kubernetes has no UDP
			aws + "scheme":               "internet-facing",
			aws + "nlb-target-type":      "ip",
			aws + "healthcheck-protocol": "http", // the default, TCP to the port of WireGuard, always fails
			aws + "healthcheck-port":     strconv.Itoa(healthPort),
			aws + "healthcheck-path":     "/healthz",
		},
	},
	{
		Scheme: "digitalocean", own: []string{digitalOcean}, healthAt: digitalOcean + "healthcheck-port",
		annotations: map[string]string{
			digitalOcean + "healthcheck-protocol": "http",
			digitalOcean + "healthcheck-path":     "/healthz",
		},
	},
	{
		Scheme: "gce", own: []string{"cloud.google.com/", "networking.gke.io/"},
		annotations: map[string]string{"cloud.google.com/l4-rbs": "enabled"},
	},
}

// ProviderOf returns the provider of all nodes, the zero provider if it is not known or they
// have several.
func ProviderOf(nodes []*corev1.Node) (p Provider) {
	for i, node := range nodes {
		scheme, _, _ := strings.Cut(node.Spec.ProviderID, "://")
		if i > 0 && scheme != p.Scheme {
			return Provider{}
		}
		p.Scheme = scheme
	}
	for _, known := range providers {
		if known.Scheme == p.Scheme {
			return known
		}
	}
	return Provider{}
}

// Serves reports whether the provider's annotations are added to a Service: only if the
// Peering has none of them and selects no other provider. They could contradict its own, and
// make a load balancer public that is meant to be internal.
func (p Provider) Serves(of v1alpha1.GatewayService) bool {
	return len(p.annotations) > 0 && of.Type == corev1.ServiceTypeLoadBalancer && of.LoadBalancerClass == nil && !p.owns(of.Annotations)
}

// preset returns the annotations of a Service, and its TCP port for health checks, 0 for
// none.
func (p Provider) preset(of v1alpha1.GatewayService) (annotations map[string]string, health int32) {
	annotations, health = maps.Clone(of.Annotations), ptr.Deref(of.HealthPort, 0)
	if !p.Serves(of) {
		return annotations, health
	}
	if annotations == nil {
		annotations = make(map[string]string)
	}
	maps.Copy(annotations, p.annotations)
	if p.healthAt != "" {
		if health == 0 {
			health = healthPort
		}
		annotations[p.healthAt] = strconv.Itoa(int(health))
	}
	return annotations, health
}

func (p Provider) owns(annotations map[string]string) bool {
	for name := range annotations {
		for _, own := range p.own {
			if strings.HasPrefix(name, own) {
				return true
			}
		}
	}
	return false
}
