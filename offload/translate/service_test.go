package translate_test

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// A client that prefers a family in which only twins have addresses never calls the consumer.
func TestACopyHasTheFamiliesOfItsService(t *testing.T) {
	t.Parallel()
	v4 := merge.Mapping{CIDR: netip.MustParsePrefix("10.0.0.0/16"), SeenAs: netip.MustParsePrefix("10.71.0.0/16")}
	v6 := merge.Mapping{CIDR: netip.MustParsePrefix("fd00::/64"), SeenAs: netip.MustParsePrefix("fd71::/64")}
	const four, six = corev1.IPv4Protocol, corev1.IPv6Protocol
	for name, c := range map[string]struct {
		families []corev1.IPFamily
		granted  []merge.Mapping
		want     string
	}{
		"one of two":                 {[]corev1.IPFamily{four}, []merge.Mapping{v4, v6}, "SingleStack [IPv4]"},
		"the other one of two":       {[]corev1.IPFamily{six}, []merge.Mapping{v4, v6}, "SingleStack [IPv6]"},
		"both":                       {[]corev1.IPFamily{six, four}, []merge.Mapping{v4, v6}, "PreferDualStack [IPv6]"}, // the API server adds the second one
		"both, and one path":         {[]corev1.IPFamily{six, four}, []merge.Mapping{v4}, "SingleStack [IPv4]"},
		"a family without a path":    {[]corev1.IPFamily{six}, []merge.Mapping{v4}, "unset []"},
		"nothing is granted for now": {[]corev1.IPFamily{four}, nil, "unset []"},
		"no family is known":         {nil, []merge.Mapping{v4}, "unset []"},
	} {
		content := &protocol.Service{Record: v1alpha1.ServiceRecord{Type: v1alpha1.ServiceRecordClusterSetIP, IPFamilies: c.families}}
		describe := func(s *corev1.Service) string {
			if s.Spec.IPFamilyPolicy == nil {
				return fmt.Sprint("unset ", s.Spec.IPFamilies)
			}
			return fmt.Sprint(*s.Spec.IPFamilyPolicy, " ", s.Spec.IPFamilies)
		}
		made := translate.Service("a", "shop", "web", content, c.granted, nil)
		if got := describe(made); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		// What the API server makes of it stays.
		made.Spec.ClusterIP, made.Spec.ClusterIPs = "10.96.0.7", []string{"10.96.0.7"}
		if len(made.Spec.IPFamilies) == 1 && *made.Spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack {
			made.Spec.IPFamilies, made.Spec.ClusterIPs = c.families, []string{"fd96::7", "10.96.0.7"}
		}
		if again := translate.Service("a", "shop", "web", content, c.granted, made); !translate.SameService(made, again) {
			t.Errorf("%s: %+v is changed again to %+v", name, made.Spec, again.Spec)
		}
	}
	dual := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7", "fd96::7"}, IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack), IPFamilies: []corev1.IPFamily{four, six}}}
	single := translate.Service("a", "shop", "web", &protocol.Service{Record: v1alpha1.ServiceRecord{Type: v1alpha1.ServiceRecordClusterSetIP, IPFamilies: []corev1.IPFamily{four}}}, []merge.Mapping{v4, v6}, dual)
	if got := fmt.Sprint(single.Spec.ClusterIPs, single.Spec.IPFamilies, *single.Spec.IPFamilyPolicy); got != "[10.96.0.7] [IPv4]SingleStack" {
		t.Errorf("a Service that loses a family has %s", got)
	}
}

// A consumer that speaks the protocol itself gets no Service that this cluster would not make.
func TestServicesThatTheProviderMayNotHaveAreRefused(t *testing.T) {
	t.Parallel()
	valid := func() *protocol.Content {
		return &protocol.Content{Service: &protocol.Service{
			TargetPorts: []intstr.IntOrString{intstr.FromString("web")}, Selector: map[string]string{"app": "web"},
			Record: v1alpha1.ServiceRecord{Namespace: "shop", Name: "web", Type: v1alpha1.ServiceRecordClusterSetIP, Ports: []v1alpha1.ServiceRecordPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}},
		}}
	}
	if err := translate.JudgeContent(protocol.KindService, valid()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(s *protocol.Service){
		"another type":               func(s *protocol.Service) { s.Record.Type = "LoadBalancer" },
		"a port that is none":        func(s *protocol.Service) { s.Record.Ports[0].Port = 0 },
		"no target port":             func(s *protocol.Service) { s.TargetPorts = nil },
		"a target port out of range": func(s *protocol.Service) { s.TargetPorts[0] = intstr.FromInt32(70000) },
		"a target port of no name":   func(s *protocol.Service) { s.TargetPorts[0] = intstr.FromString("-") },
		"endpoints of names": func(s *protocol.Service) {
			s.Record.Endpoints = []v1alpha1.ServiceRecordEndpoints{{AddressType: "FQDN"}}
		},
		"a selector without end": func(s *protocol.Service) {
			for i := range 100 {
				s.Selector[fmt.Sprint("k", i)] = "v"
			}
		},
		"endpoints without end": func(s *protocol.Service) {
			s.Record.Endpoints = []v1alpha1.ServiceRecordEndpoints{{AddressType: "IPv4", Endpoints: make([]v1alpha1.ServiceRecordEndpoint, 5001)}}
		},
	} {
		c := valid()
		change(c.Service)
		if err := translate.JudgeContent(protocol.KindService, c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
