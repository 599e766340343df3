//go:build apiserver

package kube

import (
	"context"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// samples are a full, valid object of each type, by resource name.
var samples = map[string]string{
	"clusternetworks": `
metadata: {name: default}
spec:
  clusterID: a
  podCIDRs: [10.0.0.0/16, "fd00:10::/56"]
  serviceCIDRs: [10.96.0.0/16]
  nodeCIDRs: [192.0.2.0/24]
  internalCIDRs: [10.80.0.0/16, "fd00:80::/64"]
  externalCIDRs: [10.70.0.0/16]
  remapPools: [10.64.0.0/10]
  reservedCIDRs: [172.16.0.0/12]
  overlay: {mtu: 1400, encapsulation: vxlan}
`,
	"peerings": `
metadata: {name: b}
spec:
  clusterID: b
  prefixes:
  - {cidr: 10.0.0.0/16, seenAs: 10.71.0.0/16}
  - {cidr: "fd00:10::/56", seenAs: "fd00:71::/56"}
  externalPrefixes:
  - {cidr: 10.70.0.0/16, seenAs: 10.73.0.0/16}
  acceptPrefixes: [10.0.0.0/12, "fd00::/8"]
  peers:
  - {name: b-0, publicKey: 3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=, endpoint: "gw-b.example:51840", presharedKeySecretName: b-psk, persistentKeepalive: 25s}
  - {name: b-1, publicKey: hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=, endpoint: "[2001:db8::1]:51840", notAfter: "2030-01-01T00:00:00Z"}
  localPods: true
  localPrefixes: [10.0.0.0/16]
  inviteUntil: "2030-01-01T00:00:00Z"
  borrow: {nodeName: strait-b, resources: {cpu: "2"}, fingerprint: 0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f}
  gateway:
    replicas: 2
    keyGeneration: 2
    service: {type: LoadBalancer, port: 51840, nodePort: 31840, annotations: {provider.example/scheme: internal}, loadBalancerClass: provider.example/udp,
      healthPort: 8081, loadBalancerSourceRanges: [198.51.100.0/24], externalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6, IPv4]}
    nodeSelector: {example.com/edge: "true"}
    tolerations: [{key: example.com/edge, operator: Exists}]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 256Mi}}
`,
	"nodeattachments": `
metadata: {name: node-1}
spec:
  index: 1
  underlayAddresses: [192.0.2.21]
  internalAddresses: [10.80.0.11, "fd00:80::11"]
  externalAddresses: [10.70.0.11]
  podCIDRs: [10.0.1.0/24, 10.0.9.7/32]
`,
	"addressclaims": `
metadata: {name: 10.71.0.0-16}
spec:
  prefix: 10.71.0.0/16
  pool: remap
  owner: {kind: Peering, name: b}
  for: 10.0.0.0/16
`,
	"addressmappings": `
metadata: {name: database}
spec: {external: 10.70.1.9, target: 192.0.2.77}
`,
}

var kinds = map[string]string{
	"clusternetworks": "ClusterNetwork", "peerings": "Peering", "nodeattachments": "NodeAttachment",
	"addressclaims": "AddressClaim", "addressmappings": "AddressMapping",
}

// edit sets the value at a path like spec.peers.0.name; a nil value removes it.
type edit struct {
	path  string
	value any
}

// sample returns the sample of a resource with edits.
func sample(t *testing.T, resource string, edits ...edit) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: parse(t, samples[resource])}
	u.SetAPIVersion(v1alpha1.GroupVersion.String())
	u.SetKind(kinds[resource])
	for _, e := range edits {
		u.Object = e.in(t, u.Object, strings.Split(e.path, ".")).(map[string]any)
	}
	return u
}

// parse parses YAML into the types of unstructured objects.
func parse(t *testing.T, text string) (value map[string]any) {
	t.Helper()
	document, err := yaml.YAMLToJSONStrict([]byte(text))
	must(t, err)
	must(t, json.Unmarshal(document, &value)) // of apimachinery, which keeps integers
	return value
}

// in returns the value with the element at the end of a path replaced.
func (e edit) in(t *testing.T, value any, path []string) any {
	t.Helper()
	if len(path) == 0 {
		return e.value
	}
	switch value := value.(type) {
	case nil:
		return map[string]any{path[0]: e.in(t, nil, path[1:])}
	case map[string]any:
		if value[path[0]] = e.in(t, value[path[0]], path[1:]); value[path[0]] == nil {
			delete(value, path[0])
		}
		return value
	case []any:
		i, err := strconv.Atoi(path[0])
		must(t, err)
		value[i] = e.in(t, value[i], path[1:])
		return value
	}
	t.Fatalf("%s: not a settable path", e.path)
	return nil
}

// ours returns a function that returns clients for Strait's resources in the shared
// cluster.
func ours(t *testing.T) func(resource string) dynamic.ResourceInterface {
	t.Helper()
	c := Shared(t)
	c.InstallCRDs(t, crds.Files)
	client, err := dynamic.NewForConfig(c.Admin())
	must(t, err)
	return func(resource string) dynamic.ResourceInterface {
		return client.Resource(v1alpha1.GroupVersion.WithResource(resource))
	}
}

// create creates an object that is deleted after the test.
func create(t *testing.T, client dynamic.ResourceInterface, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	created, err := client.Create(t.Context(), u, metav1.CreateOptions{})
	if err == nil {
		t.Cleanup(func() { must(t, client.Delete(context.Background(), created.GetName(), metav1.DeleteOptions{})) })
	}
	return created, err
}
