//go:build apiserver

package kube

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// statuses are a status for each sample.
var statuses = map[string]string{
	"clusternetworks": `
clusterID: a
podCIDRs: [10.0.0.0/16, "fd00:10::/56"]
serviceCIDRs: [10.96.0.0/16]
nodeCIDRs: [192.0.2.21/32]
sources: {clusterID: given, podCIDRs: nodes, serviceCIDRs: kubeadm, nodeCIDRs: nodes}
`,
	"peerings": `
clusterID: b
prefixes:
- {cidr: 10.0.0.0/16, seenAs: 10.71.0.0/16}
- {cidr: "fd00:10::/56", seenAs: "fd00:71::/56"}
externalPrefixes:
- {cidr: 10.70.0.0/16, seenAs: 10.73.0.0/16}
gateways:
- name: strait-gateway-b-0
  number: 1
  publicKey: hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=
  keyGeneration: 1
  nextPublicKey: XcgfvMDKZ8buZIUrAIcmJHgDDB7mGcu7LXzJIdBYdGU=
  endpoints: ["192.0.2.21:31840"]
  internalAddresses: [10.80.0.1]
  externalAddresses: [10.70.0.1]
  podAddresses: [10.0.1.9]
  node: node-1
  mtu: 1370
  linkUp: true
announcement:
  revision: 7
  heardAt: "2030-01-01T00:00:00.000000Z"
  clusterID: b
  prefixes: [10.0.0.0/16]
  externalPrefixes: [10.70.0.0/16]
  gateways:
  - {name: b-0, publicKeys: [3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=], endpoints: ["gw-b.example:51840"]}
summary:
  endpoint: gw-b.example:51840
  remoteCIDRs: "10.0.0.0/16,fd00:10::/56"
  seenAs: "10.71.0.0/16,fd00:71::/56"
mtu: 1370
`,
	"nodeattachments": `
gateways:
- {name: strait-gateway-b-0, vni: 65537, ready: true, encapsulation: vxlan, message: this kernel has no Geneve}
encapsulations: [vxlan]
`,
	"addressclaims":   `{bound: true}`,
	"addressmappings": `{observedGeneration: 1}`,
}

// ready is the condition of every resource type with conditions.
const ready = `{type: Ready, status: "True", reason: Configured, message: packets pass, lastTransitionTime: "2030-01-01T00:00:00Z"}`

// withStatus creates the sample of a resource and sets its status.
func withStatus(t *testing.T, resource string) *unstructured.Unstructured {
	t.Helper()
	client := ours(t)(resource)
	object, err := create(t, client, sample(t, resource))
	must(t, err)
	status := parse(t, statuses[resource])
	if resource != "addressclaims" {
		status["conditions"] = []any{parse(t, ready)}
	}
	object.Object["status"] = status
	object, err = client.UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
	must(t, err)
	return object
}

func TestPrinterColumns(t *testing.T) {
	for resource, want := range map[string]string{
		"clusternetworks": `default|a|True|["10.0.0.0/16","fd00:10::/56"]|["10.96.0.0/16"]|AGE`,
		"peerings":        `b|True|gw-b.example:51840|10.0.0.0/16,fd00:10::/56|10.71.0.0/16,fd00:71::/56|1370|AGE`,
		"nodeattachments": `node-1|True|["10.80.0.11","fd00:80::11"]|["10.70.0.11"]|["192.0.2.21"]|["vxlan"]|AGE`,
		"addressclaims":   `10.71.0.0-16|10.71.0.0/16|remap|true|Peering|b|10.0.0.0/16|AGE`,
		"addressmappings": `database|True|10.70.1.9|192.0.2.77|AGE`,
	} {
		t.Run(resource, func(t *testing.T) {
			withStatus(t, resource)
			if got := table(t, resource); got != want {
				t.Errorf("kubectl get %s prints\n%s\nwant\n%s", resource, got, want)
			}
		})
	}
}

// table returns what kubectl prints for the only object of a resource, without -o wide: the
// cells joined by |, with AGE for its age.
func table(t *testing.T, resource string) string {
	t.Helper()
	answer, err := Shared(t).client.RESTClient().Get().
		AbsPath("apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	must(t, err)
	var table metav1.Table
	must(t, json.Unmarshal(answer, &table))
	if len(table.Rows) != 1 {
		t.Fatalf("%d rows, want one", len(table.Rows))
	}
	var cells []string
	for i, column := range table.ColumnDefinitions {
		cell := table.Rows[0].Cells[i]
		switch {
		case column.Priority > 0:
		case column.Name == "AGE":
			cells = append(cells, "AGE")
		case cell == nil:
			cells = append(cells, "-")
		default:
			cells = append(cells, fmt.Sprint(cell))
		}
	}
	return strings.Join(cells, "|")
}

func TestAPeeringWithoutStatusStillPrints(t *testing.T) {
	_, err := create(t, ours(t)("peerings"), sample(t, "peerings"))
	must(t, err)
	if got, want := table(t, "peerings"), "b|-|-|-|-|-|AGE"; got != want {
		t.Errorf("kubectl get peerings prints\n%s\nwant\n%s", got, want)
	}
}

func TestSpecAndStatusAreWrittenSeparately(t *testing.T) {
	client := ours(t)
	for resource := range samples {
		t.Run(resource, func(t *testing.T) {
			object := sample(t, resource)
			object.Object["status"] = parse(t, statuses[resource])
			created, err := create(t, client(resource), object)
			must(t, err)
			if status := created.Object["status"]; status != nil {
				t.Errorf("created with a status: %v", status)
			}
			created.Object["status"] = parse(t, statuses[resource])
			wanted := created.Object["spec"]
			created.Object["spec"] = map[string]any{}
			updated, err := client(resource).UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
			must(t, err)
			if !reflect.DeepEqual(updated.Object["spec"], wanted) {
				t.Errorf("an update of the status changed the spec to %v", updated.Object["spec"])
			}
			if !reflect.DeepEqual(updated.Object["status"], parse(t, statuses[resource])) {
				t.Errorf("the status is %v", updated.Object["status"])
			}
		})
	}
}

const unbound = "status.bound: Invalid value: a bound claim is in use: delete it when nothing uses it"

func TestABoundClaimStaysBound(t *testing.T) {
	bound := withStatus(t, "addressclaims")
	for name, status := range map[string]any{"unbound": map[string]any{"bound": false}, "without status": nil} {
		bound.Object["status"] = status
		_, err := ours(t)("addressclaims").UpdateStatus(t.Context(), bound, metav1.UpdateOptions{})
		row := broken{resource: "addressclaims", says: unbound}
		t.Run(name, func(t *testing.T) { row.check(t, bound.GetName(), err) })
	}
}

func TestGatewayNumberFitsTheVNI(t *testing.T) {
	client := ours(t)("peerings")
	_, err := create(t, client, sample(t, "peerings"))
	must(t, err)
	for number, says := range map[int64]string{
		0:   `status.gateways[0].number: Invalid value: 0: gateways[0].number in body should be greater than or equal to 1`,
		1:   "",
		255: "",
		256: `status.gateways[0].number: Invalid value: 256: gateways[0].number in body should be less than or equal to 255`,
	} {
		part := sample(t, "peerings", edit{"spec", nil}, edit{"status", parse(t, fmt.Sprintf(`gateways: [{name: b-0, number: %d}]`, number))})
		_, err := client.ApplyStatus(t.Context(), "b", part, metav1.ApplyOptions{FieldManager: "test"})
		if row := (broken{resource: "peerings", says: says}); says != "" {
			row.check(t, "b", err)
		} else if err != nil {
			t.Errorf("%d: %v", number, err)
		}
	}
}
