package controller_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// An import has endpoints of its own IP families only: DNS would return others for headless
// Services, and no node has routes to them.
func TestImportsHaveEndpointsOfTheirIPFamiliesOnly(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.node("node-1", "192.0.2.21", "10.0.0.0/16")
		f.network(`{"clusterID": "a", "podCIDRs": ["10.0.0.0/16"], "serviceCIDRs": ["10.96.0.0/16"]}`)
		f.namespace("shop")
		f.peer("b", 1, "10.0.0.0/16=10.71.0.0/16", "fd00:b::/64")
		f.until("both CIDRs are mapped", func() string {
			if is := f.peering("b").Status.Prefixes; len(is) != 2 {
				return fmt.Sprint(is)
			}
			return ""
		})
		f.link("b-0", true)
		dual := func(name string, kind v1alpha1.ServiceRecordType, families ...corev1.IPFamily) v1alpha1.ServiceRecord {
			r := record(name, "10.0.0.5")
			r.Type, r.IPFamilies = kind, families
			r.Endpoints = append(r.Endpoints, v1alpha1.ServiceRecordEndpoints{AddressType: discoveryv1.AddressTypeIPv6, Ports: r.Endpoints[0].Ports,
				Endpoints: []v1alpha1.ServiceRecordEndpoint{{Address: "fd00:b::5", Ready: true, Serving: true}}})
			return r
		}
		f.receive("b", dual("headless", v1alpha1.ServiceRecordHeadless, corev1.IPv4Protocol, corev1.IPv6Protocol))
		f.receive("b", dual("six-first", v1alpha1.ServiceRecordHeadless, corev1.IPv6Protocol, corev1.IPv4Protocol))
		f.receive("b", dual("clusterip", v1alpha1.ServiceRecordClusterSetIP, corev1.IPv4Protocol, corev1.IPv6Protocol))
		f.receive("b", dual("one-family", v1alpha1.ServiceRecordHeadless, corev1.IPv4Protocol))
		for _, name := range []string{"headless", "six-first", "clusterip", "one-family"} {
			f.until(name, func() string {
				found, _ := f.importedObjects(name)
				if len(found) != 1 || found[0].AddressType != discoveryv1.AddressTypeIPv4 || !slices.Equal(found[0].Endpoints[0].Addresses, []string{"10.71.0.5"}) {
					return fmt.Sprintf("%d EndpointSlices: %v", len(found), found)
				}
				return ""
			})
		}
		f.pause(10 * time.Second)
		if found, _ := f.importedObjects("headless"); len(found) != 1 {
			t.Errorf("%d EndpointSlices", len(found))
		}
	})
}
