//go:build apiserver

package controller_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/test/kube"
)

// pair are two clusters, a and b, that are joined. The test carries what gateways do.
type pair struct {
	*testing.T
	a, b *fixture
}

// exchange carries the exports of each cluster to the other.
func (p *pair) exchange() {
	p.carry(p.a, p.b, "a")
	p.carry(p.b, p.a, "b")
}

// carry makes the ReceivedServices of a Peering those that the other cluster exports.
func (p *pair) carry(from, to *fixture, peering string) {
	exported, err := from.ExportedServices(gateways).List(p.Context(), metav1.ListOptions{})
	must(p.T, err)
	left := make(map[string]bool)
	for _, e := range exported.Items {
		left[e.Name+"."+peering] = true
		to.receive(peering, e.Spec)
	}
	received, err := to.ReceivedServices(gateways).List(p.Context(), metav1.ListOptions{})
	must(p.T, err)
	for _, r := range received.Items {
		if !left[r.Name] {
			must(p.T, to.ReceivedServices(gateways).Delete(p.Context(), r.Name, metav1.DeleteOptions{}))
		}
	}
}

// imports waits until an import is the same in both clusters.
func (p *pair) imports(name, inA, inB string) {
	p.Helper()
	p.a.until("the import of "+name, func() string {
		p.exchange()
		if got := p.a.imported(name) + "\n" + p.b.imported(name); got != inA+"\n"+inB {
			return fmt.Sprintf("%s\nwant\n%s\n%s", got, inA, inB)
		}
		return ""
	})
}

// spec is the spec of an import, once it is the same in both clusters apart from addresses.
func (p *pair) spec(name string) (spec mcsv1beta1.ServiceImportSpec) {
	p.Helper()
	p.a.until("the import of "+name, func() string {
		p.exchange()
		var both [2]mcsv1beta1.ServiceImportSpec
		for i, f := range []*fixture{p.a, p.b} {
			is, err := f.ServiceImports("shop").Get(p.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if is.Spec.Type == mcsv1beta1.ClusterSetIP && len(is.Spec.IPs) == 0 {
				return "it has no address"
			}
			both[i] = is.Spec
			spec, both[i].IPs = is.Spec, nil
		}
		if !reflect.DeepEqual(both[0], both[1]) {
			return fmt.Sprintf("%+v", both)
		}
		return ""
	})
	return spec
}

// conflict waits until both exports have a conflict for a reason.
func (p *pair) conflict(name, reason string) {
	p.Helper()
	p.exchange()
	for _, f := range []*fixture{p.a, p.b} {
		f.untilExport(name, mcsv1beta1.ServiceExportConditionConflict, "True "+reason)
	}
}

// export exports a Service with a spec in one cluster.
func (p *pair) export(in *fixture, name string, spec corev1.ServiceSpec) {
	p.Helper()
	in.serve(name, spec)
	in.export(name, mcsv1beta1.ServiceExportSpec{})
}

// The behaviours that the Multi-Cluster Services API requires.
func TestTheMultiClusterServicesAPIIsImplemented(t *testing.T) {
	p := &pair{T: t}
	for own, other := range map[string]string{"a": "b", "b": "a"} {
		cluster := kube.Start(t)
		cluster.InstallCRDs(t, fstest.MapFS{"exports.yaml": {Data: mcscrds.ServiceExportCRD}, "imports.yaml": {Data: mcscrds.ServiceImportCRD}})
		f := newFixture(t, cluster)
		f.lead()
		f.joinedAs(own, other)
		if own == "a" {
			p.a = f
		} else {
			p.b = f
		}
	}
	run := func(name string, test func(p *pair)) {
		t.Run(name, func(t *testing.T) {
			a, b := *p.a, *p.b
			a.T, b.T = t, t
			test(&pair{T: t, a: &a, b: &b})
		})
	}

	run("R1_AnImportExistsWhileAClusterExportsIt", func(p *pair) {
		p.export(p.a, "r1", web())
		p.imports("r1", "ClusterSetIP web 80/TCP from a: ", "ClusterSetIP web 80/TCP from a: ")
		p.export(p.b, "r1", web())
		p.imports("r1", "ClusterSetIP web 80/TCP from a,b: ", "ClusterSetIP web 80/TCP from a,b: ")
		p.a.unexport("r1")
		p.imports("r1", "ClusterSetIP web 80/TCP from b: ", "ClusterSetIP web 80/TCP from b: ")
		p.b.unexport("r1")
		p.imports("r1", "none", "none")
	})
	run("R2_AClusterIPServiceIsImportedAsClusterSetIPInEveryCluster", func(p *pair) {
		p.export(p.a, "r2", web())
		p.a.endpoints("r2", "10.0.0.5")
		p.a.untilExport("r2", mcsv1beta1.ServiceExportConditionValid, "True Valid ")
		p.imports("r2", "ClusterSetIP web 80/TCP from a: a 10.0.0.5", "ClusterSetIP web 80/TCP from a: a 10.71.0.5")
		slices, _ := p.b.importedObjects("r2")
		if got := slices[0].Labels[discoveryv1.LabelManagedBy]; got == "" || got == "endpointslice-controller.k8s.io" {
			p.Errorf("the EndpointSlice is managed by %q", got)
		}
		p.a.unexport("r2")
		p.imports("r2", "none", "none")
	})
	run("R3_SessionAffinityIsThatOfTheService", func(p *pair) {
		spec := web()
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(123))}}
		p.export(p.a, "r3", spec)
		if is := p.spec("r3"); is.SessionAffinity != spec.SessionAffinity || !reflect.DeepEqual(is.SessionAffinityConfig, spec.SessionAffinityConfig) {
			p.Errorf("%+v", is)
		}
	})
	run("R4_InternalTrafficPolicyIsThatOfTheService", func(p *pair) {
		spec := web()
		spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
		p.export(p.a, "r4", spec)
		if is := p.spec("r4"); is.InternalTrafficPolicy == nil || *is.InternalTrafficPolicy != *spec.InternalTrafficPolicy {
			p.Errorf("%+v", is)
		}
	})
	run("R5_TrafficDistributionIsThatOfTheService", func(p *pair) {
		spec := web()
		spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferClose)
		p.export(p.a, "r5", spec)
		p.a.endpoints("r5", "10.0.0.5")
		if is := p.spec("r5"); is.TrafficDistribution == nil || *is.TrafficDistribution != *spec.TrafficDistribution {
			p.Errorf("%+v", is)
		}
		p.imports("r5", "ClusterSetIP web 80/TCP from a: a 10.0.0.5", "ClusterSetIP web 80/TCP from a: a 10.71.0.5")
		for _, f := range []*fixture{p.a, p.b} {
			slices, _ := f.importedObjects("r5")
			if h := slices[0].Endpoints[0].Hints; h == nil || h.ForZones[0].Name != "zone-1" {
				p.Errorf("hints of the endpoint: %+v", h)
			}
		}
	})
	run("R6_ThereIsOneAddressPerIPFamily", func(p *pair) {
		p.export(p.a, "r6", web())
		is := p.spec("r6")
		if len(is.IPs) != len(is.IPFamilies) || len(is.IPs) == 0 {
			p.Fatalf("addresses %v for %v", is.IPs, is.IPFamilies)
		}
		for i, ip := range is.IPs {
			if netip.MustParseAddr(ip).Is4() != (is.IPFamilies[i] == corev1.IPv4Protocol) {
				p.Errorf("addresses %v for %v", is.IPs, is.IPFamilies)
			}
		}
	})
	run("R7_PortsAreThoseOfTheService", func(p *pair) {
		spec := web()
		spec.Ports = append(spec.Ports, corev1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, AppProtocol: new("example.com/dns")})
		p.export(p.a, "r7", spec)
		want := []mcsv1beta1.ServicePort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80}, {Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, AppProtocol: new("example.com/dns")}}
		if is := p.spec("r7"); !reflect.DeepEqual(is.Ports, want) {
			p.Errorf("%+v", is.Ports)
		}
	})
	run("R8_PortsAreTheUnionOfAllPorts", func(p *pair) {
		spec := web()
		p.export(p.a, "r8", spec)
		p.imports("r8", "ClusterSetIP web 80/TCP from a: ", "ClusterSetIP web 80/TCP from a: ")
		spec.Ports = append(spec.Ports, corev1.ServicePort{Name: "sctp", Protocol: corev1.ProtocolSCTP, Port: 142})
		p.export(p.b, "r8", spec)
		p.imports("r8", "ClusterSetIP web 80/TCP sctp 142/SCTP from a,b: ", "ClusterSetIP web 80/TCP sctp 142/SCTP from a,b: ")
		p.conflict("r8", "PortConflict")
	})
	run("R9_OfPortsWithTheSameNameTheOldestExportWins", func(p *pair) {
		spec := web()
		p.export(p.a, "r9", spec)
		p.imports("r9", "ClusterSetIP web 80/TCP from a: ", "ClusterSetIP web 80/TCP from a: ")
		spec.Ports[0].Port = 81
		p.export(p.b, "r9", spec)
		p.imports("r9", "ClusterSetIP web 80/TCP from a,b: ", "ClusterSetIP web 80/TCP from a,b: ")
		p.conflict("r9", "PortConflict port web: 80/TCP of cluster a applies, the oldest export that has it; 1 of 2 clusters differs: b")
	})
	run("R10_AHeadlessServiceIsImportedAsHeadless", func(p *pair) {
		spec := web()
		spec.ClusterIP = corev1.ClusterIPNone
		p.export(p.a, "r10", spec)
		p.a.endpoints("r10", "10.0.0.5")
		p.imports("r10", "Headless web 80/TCP from a: a 10.0.0.5", "Headless web 80/TCP from a: a 10.71.0.5")
		p.a.unexport("r10")
		p.imports("r10", "none", "none")
	})
	run("R11_AHeadlessImportHasNoAddress", func(p *pair) {
		spec := web()
		spec.ClusterIP = corev1.ClusterIPNone
		p.export(p.a, "r11", spec)
		p.imports("r11", "Headless web 80/TCP from a: ", "Headless web 80/TCP from a: ")
		if is := p.spec("r11"); len(is.IPs) > 0 {
			p.Errorf("it has the addresses %v", is.IPs)
		}
	})
	run("R12_AnExternalNameServiceCannotBeExported", func(p *pair) {
		p.export(p.a, "r12", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"})
		p.a.untilExport("r12", mcsv1beta1.ServiceExportConditionValid, "False InvalidServiceType ")
		p.a.untilExport("r12", mcsv1beta1.ServiceExportConditionReady, "False Pending ")
		p.imports("r12", "none", "none")
	})
	run("R13_OfTypesTheOldestExportWins", func(p *pair) {
		spec := web()
		p.export(p.a, "r13", spec)
		p.imports("r13", "ClusterSetIP web 80/TCP from a: ", "ClusterSetIP web 80/TCP from a: ")
		spec.ClusterIP = corev1.ClusterIPNone
		p.export(p.b, "r13", spec)
		p.imports("r13", "ClusterSetIP web 80/TCP from a,b: ", "ClusterSetIP web 80/TCP from a,b: ")
		p.conflict("r13", "TypeConflict")
		p.a.unexport("r13") // the derived Service is replaced
		p.imports("r13", "Headless web 80/TCP from b: ", "Headless web 80/TCP from b: ")
	})
	run("R14_AServiceThatIsNotExportedIsNotImported", func(p *pair) {
		p.a.serve("r14", web())
		p.a.endpoints("r14", "10.0.0.5")
		p.export(p.a, "marker", web())
		p.imports("marker", "ClusterSetIP web 80/TCP from a: ", "ClusterSetIP web 80/TCP from a: ")
		p.imports("r14", "none", "none")
		if _, err := p.a.ExportedServices(gateways).Get(p.Context(), "r14.shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			p.Errorf("it is exported: %v", err)
		}
	})
}
