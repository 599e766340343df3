//go:build apiserver

package controller_test

import (
	"reflect"
	"testing"
	"testing/fstest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/cilium"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/kube"
)

// ciliumCRD has the fields of Cilium's policies that Strait writes. An unknown field is
// removed.
const ciliumCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ciliumnetworkpolicies.cilium.io}
spec:
  group: cilium.io
  scope: Namespaced
  names: {kind: CiliumNetworkPolicy, plural: ciliumnetworkpolicies, listKind: CiliumNetworkPolicyList}
  versions:
  - name: v2
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              endpointSelector: {type: object, properties: {matchLabels: {type: object, additionalProperties: {type: string}}}}
              ingress:
                type: array
                items:
                  type: object
                  properties:
                    fromEntities: {type: array, items: {type: string, enum: [all, world, cluster, host, remote-node]}}
                    toPorts:
                      type: array
                      items:
                        type: object
                        properties:
                          ports:
                            type: array
                            items:
                              type: object
                              required: [port]
                              properties: {port: {type: string, pattern: '^[0-9]+$'}, protocol: {type: string, enum: [TCP, UDP]}}
`

// A policy of Cilium allows overlay packets of nodes where Cilium runs, with the rights of
// the chart, and is removed when policies are disabled.
func TestCiliumAdmitsNodesByWhatTheyAre(t *testing.T) {
	cluster := kube.Start(t)
	f := newFixture(t, cluster)
	cluster.InstallCRDs(t, fstest.MapFS{"policies.yaml": {Data: []byte(ciliumCRD)}})
	account := f.cluster.Account(t, "strait-system", "strait-controller", rbac.Controller)
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	stop := f.start(account, "strait-system", "first")
	f.asks("b", v1alpha1.GatewaySpec{})
	var policy *cilium.CiliumNetworkPolicy
	f.until("the policy of Cilium", func() string {
		var err error
		if policy, err = f.CiliumNetworkPolicies(gateways).Get(t.Context(), "b", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	labels := map[string]string{"app.kubernetes.io/name": "strait", "app.kubernetes.io/component": "gateway", "strait.dev/peering": "b"}
	if got := policy.Spec.EndpointSelector.MatchLabels; !reflect.DeepEqual(got, labels) {
		t.Errorf("it selects %v, want %v", got, labels)
	}
	want := []cilium.Ingress{{FromEntities: []string{"host", "remote-node"}, ToPorts: []cilium.Ports{{Ports: []cilium.Port{
		{Port: "8080", Protocol: "TCP"}, {Port: "6091", Protocol: "UDP"}, {Port: "6092", Protocol: "UDP"},
	}}}}}
	if !reflect.DeepEqual(policy.Spec.Ingress, want) {
		t.Errorf("it allows %+v, want %+v", policy.Spec.Ingress, want)
	}
	if owners := policy.OwnerReferences; len(owners) != 1 || owners[0].Kind != "Peering" || owners[0].Name != "b" {
		t.Errorf("its owners are %v", owners)
	}
	stop()

	f.start(account, "strait-system", "second", func(o *controller.Options) { o.Gateways.NoPolicies = true })
	f.until("the policy is removed", func() string {
		if _, err := f.CiliumNetworkPolicies(gateways).Get(t.Context(), "b", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "it still exists"
		}
		return ""
	})
}
