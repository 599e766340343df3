package dns

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
)

// kube-dns, the DNS server of GKE, cannot serve the zone. It forwards zones to the name servers
// that its ConfigMap names as their stub domains.
const (
	kubeDNS        = "kube-dns"
	stubDomainsKey = "stubDomains"
)

// otherServer is the error for a DNS server that is not CoreDNS.
type otherServer struct {
	deployment  string              // as namespace/name
	stubDomains map[string][]string // of kube-dns
}

func (e *otherServer) Error() string {
	wanted := map[string][]string{Zone: {"CLUSTER-IP"}}
	for zone, servers := range e.stubDomains {
		wanted[zone] = servers
	}
	text, _ := json.Marshal(wanted) // strings can be encoded as JSON
	return fmt.Sprintf("the DNS server of the cluster, Deployment %s, is not CoreDNS, and cannot serve %s; run a CoreDNS for this zone and forward the zone to it, "+
		"with kube-dns by setting %s: '%s' in ConfigMap %s: see docs/how-to/services-dns.md", e.deployment, Zone, stubDomainsKey, text, kubeDNS)
}

// forwards returns the name servers to which the DNS server forwards the zone.
func (e *otherServer) forwards() string { return strings.Join(e.stubDomains[Zone], ", ") }

// findStubDomains returns the error for a DNS server that is not CoreDNS.
func findStubDomains(ctx context.Context, c *client.Client, namespace, deployment string) error {
	is := &otherServer{deployment: namespace + "/" + deployment}
	m, err := c.ConfigMaps(namespace).Get(ctx, kubeDNS, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return is
		}
		return fmt.Errorf("read ConfigMap %s/%s: %w", namespace, kubeDNS, err)
	}
	if is.stubDomains, err = stubDomains(m); err != nil {
		return fmt.Errorf("ConfigMap %s/%s: %w", namespace, kubeDNS, err)
	}
	return is
}

// stubDomains returns the name servers by zone of a ConfigMap like that of kube-dns.
func stubDomains(m *corev1.ConfigMap) (all map[string][]string, err error) {
	text := m.Data[stubDomainsKey]
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("%s is not a JSON object of lists: %w; correct it", stubDomainsKey, err)
	}
	return all, nil
}
