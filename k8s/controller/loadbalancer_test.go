package controller_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// A cloud sets the providerID of a node after the node was created.
func TestServicesGetTheAnnotationsOfTheProviderOfTheNodes(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.network(`{"podCIDRs": ["10.0.0.0/16"], "serviceCIDRs": ["10.96.0.0/16"]}`)
		f.lead()
		f.asks("b", v1alpha1.GatewaySpec{Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeLoadBalancer, Port: 51840}})
		scheme := func(want, provider string) {
			t.Helper()
			f.until("load balancer of provider "+provider, func() string {
				service, err := f.Services(gateways).Get(f.Context(), "b-0", metav1.GetOptions{})
				if err != nil {
					return err.Error()
				}
				peering, err := f.Peerings().Get(f.Context(), "b", metav1.GetOptions{})
				must(t, err)
				if got := service.Annotations["service.beta.kubernetes.io/aws-load-balancer-scheme"]; got != want || peering.Status.LoadBalancer != provider {
					return fmt.Sprintf("scheme %q, status %q", got, peering.Status.LoadBalancer)
				}
				return ""
			})
		}
		scheme("", "")

		node, err := f.Nodes().Get(f.Context(), "node-1", metav1.GetOptions{})
		must(t, err)
		node.Spec.ProviderID = "aws:///eu-central-1a/i-0abc"
		_, err = f.cluster.Kubernetes().CoreV1().Nodes().Update(f.Context(), node, metav1.UpdateOptions{})
		must(t, err)
		scheme("internet-facing", "aws")
	})
}
