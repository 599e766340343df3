package controller_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/test/fakekube"
)

// leadWithoutNodes starts a controller of a cluster without node helpers.
func (f *fixture) leadWithoutNodes() (stop func()) {
	return f.start(f.cluster.Admin(), "default", "first", func(o *controller.Options) { o.Gateways.WithoutNodes = true })
}

// joinedWithoutNodes is a cluster a without node helpers, and a Peering b with two gateways,
// whose pods have the addresses 10.0.0.100 and 10.0.0.101 and whose links are up.
func (f *fixture) joinedWithoutNodes() {
	f.Helper()
	f.node("node-1", "192.0.2.21", "10.0.0.0/16")
	f.network(`{"clusterID": "a", "podCIDRs": ["10.0.0.0/16"], "serviceCIDRs": ["10.96.0.0/16"]}`)
	f.namespace("shop")
	f.peer("b", 2, "10.0.0.0/16=10.71.0.0/16")
	f.untilSeen("b", "10.0.0.0/16>10.71.0.0/16 NoConflict")
	for i := range 2 {
		f.carry(fmt.Sprintf("b-%d", i), fmt.Sprintf("10.0.0.%d", 100+i))
	}
}

// carry runs a gateway with an address, and its link comes up.
func (f *fixture) carry(gateway string, addresses ...string) {
	f.Helper()
	f.runGateway(gateway, corev1.ConditionTrue)
	f.kubelet(gateway, func(pod *corev1.Pod) {
		pod.Status.PodIPs = nil
		for _, a := range addresses {
			pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: a})
		}
	})
	f.say(gateway, v1alpha1.GatewayReportStatus{Links: []v1alpha1.LinkStatus{{Remote: "a-0", Up: true}}})
}

// gatewayPorts is the ports of gateways that stand for a Service of b, like "web 20000/TCP",
// by their names.
func (f *fixture) gatewayPorts(service string) (all map[string]int32) {
	f.Helper()
	r, err := f.ReceivedServices(gateways).Get(f.Context(), service+".shop.b", metav1.GetOptions{})
	must(f.T, err)
	all = make(map[string]int32)
	for _, p := range r.Status.Ports {
		if p.Port < 20000 || p.Port > 29999 {
			f.Errorf("port %s of Service %s is %d of the gateways", p.ServicePort, service, p.Port)
		}
		all[p.ServicePort] = p.Port
	}
	return all
}

// carriedBy is the EndpointSlices of an import, like "b web/TCP 10.0.0.100 10.0.0.101 ready",
// without the numbers of ports, which have to be those of the gateways.
func (f *fixture) carriedBy(service string, ports map[string]int32) string {
	f.Helper()
	all, _ := f.importedObjects(service)
	var texts []string
	for _, s := range all {
		text := s.Labels[mcsv1beta1.LabelSourceCluster]
		for _, p := range s.Ports {
			text += fmt.Sprintf(" %s/%s", *p.Name, *p.Protocol)
			if *p.Port != ports[*p.Name] {
				text += fmt.Sprintf(" at %d instead of %d", *p.Port, ports[*p.Name])
			}
		}
		for _, e := range s.Endpoints {
			text += " " + e.Addresses[0]
			switch {
			case *e.Conditions.Ready:
				text += " ready"
			case *e.Conditions.Serving && *e.Conditions.Terminating:
				text += " ending"
			}
		}
		texts = append(texts, text)
	}
	return strings.Join(sorted(texts), ", ")
}

func (f *fixture) untilCarriedBy(service, want string) {
	f.Helper()
	f.until("the endpoints of "+service, func() string {
		if got := f.carriedBy(service, f.gatewayPorts(service)); got != want {
			return fmt.Sprintf("%q, want %q", got, want)
		}
		return ""
	})
}

// multiport is a record with TCP, UDP and SCTP ports.
func multiport(name string, addresses ...string) v1alpha1.ServiceRecord {
	r := record(name, addresses...)
	r.Ports = append(r.Ports, v1alpha1.ServiceRecordPort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}, v1alpha1.ServiceRecordPort{Name: "sig", Protocol: corev1.ProtocolSCTP, Port: 7})
	for i := range r.Endpoints {
		r.Endpoints[i].Ports = append(r.Endpoints[i].Ports, v1alpha1.ServiceRecordPort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 5353}, v1alpha1.ServiceRecordPort{Name: "sig", Protocol: corev1.ProtocolSCTP, Port: 7})
	}
	return r
}

func TestWithoutNodeHelpersTheEndpointsOfAnImportAreGatewaysWithALink(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.leadWithoutNodes()
		f.joinedWithoutNodes()
		f.receive("b", multiport("web", "10.0.0.5", "10.0.3.6"))
		const both = "b web/TCP dns/UDP 10.0.0.100 ready 10.0.0.101 ready"
		f.untilCarriedBy("web", both)
		f.untilSummary("b", "1 imported, 0 refused: shop/web: without node helpers, SCTP is not carried: port sig")
		if ports := f.gatewayPorts("web"); len(ports) != 2 || ports["web"] == ports["dns"] {
			t.Errorf("the ports of the gateways are %v", ports)
		}

		ended := f.gatewayPod("b-1")
		begun := time.Now()
		now := int64(0)
		must(t, f.Pods(gateways).Delete(t.Context(), ended.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		f.untilCarriedBy("web", "b web/TCP dns/UDP 10.0.0.100 ready")
		if took := since(begun); took > time.Second {
			t.Errorf("a gateway that is gone was an endpoint for %v", took)
		}
		f.carry("b-1", "10.0.0.201")
		f.untilCarriedBy("web", "b web/TCP dns/UDP 10.0.0.100 ready 10.0.0.201 ready")
		f.link("b-0", false)
		f.untilCarriedBy("web", "b web/TCP dns/UDP 10.0.0.201 ready")
		f.link("b-1", false)
		f.untilCarriedBy("web", "")
		f.carry("b-0", "10.0.0.100")
		f.carry("b-1", "10.0.0.101")
		f.untilCarriedBy("web", both)

		f.serve("web", web())
		f.endpoints("web", "10.0.0.5")
		f.export("web", mcsv1beta1.ServiceExportSpec{})
		f.until("endpoints of both clusters", func() string {
			return differ(f.carriedBy("web", map[string]int32{"web": 8080}), "a web/TCP 10.0.0.5 ready", "b ")
		})
	})
}

// differ says how a text differs from one that has all parts.
func differ(got string, parts ...string) string {
	for _, part := range parts {
		if !strings.Contains(got, part) {
			return fmt.Sprintf("%q has no %q", got, part)
		}
	}
	return ""
}

func TestWithoutNodeHelpersGatewaysAreAsReadyAsTheEndpointsOfEachPort(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.leadWithoutNodes()
		f.joinedWithoutNodes()
		r := multiport("web", "10.0.0.5", "10.0.3.6")
		r.Endpoints[0].Endpoints[0].Ready = false
		f.receive("b", r)
		f.untilCarriedBy("web", "b web/TCP dns/UDP 10.0.0.100 ready 10.0.0.101 ready")
		for i := range 2 {
			r.Endpoints[0].Endpoints[i] = v1alpha1.ServiceRecordEndpoint{Address: fmt.Sprintf("10.0.0.%d", 5+i), Serving: true, Terminating: true}
		}
		f.receive("b", r)
		f.untilCarriedBy("web", "b web/TCP dns/UDP 10.0.0.100 ending 10.0.0.101 ending")
		r.Endpoints[0].Ports = r.Endpoints[0].Ports[:1]
		f.receive("b", r)
		f.untilCarriedBy("web", "b dns/UDP 10.0.0.100 10.0.0.101, b web/TCP 10.0.0.100 ending 10.0.0.101 ending")
		r.Endpoints = nil
		f.receive("b", r)
		f.untilCarriedBy("web", "b web/TCP dns/UDP 10.0.0.100 10.0.0.101")
	})
}

func TestWithoutNodeHelpersGatewaysHaveEndpointsInEachIPFamilyOfTheService(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		f.leadWithoutNodes()
		f.joinedWithoutNodes()
		f.carry("b-0", "10.0.0.100", "fd00:10::100")
		r := record("web", "10.0.0.5")
		f.receive("b", r)
		f.untilCarriedBy("web", "b web/TCP 10.0.0.100 ready 10.0.0.101 ready")
		f.network(`{"clusterID": "a", "podCIDRs": ["10.0.0.0/16", "fd00:10::/64"], "serviceCIDRs": ["10.96.0.0/16", "fd00:96::/112"]}`)
		r.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		f.receive("b", r)
		f.untilCarriedBy("web", "b web/TCP 10.0.0.100 ready 10.0.0.101 ready, b web/TCP fd00:10::100 ready")
	})
}

func TestPortsOfGatewaysSurviveARestartOfTheController(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		stop := f.leadWithoutNodes()
		f.joinedWithoutNodes()
		const services = 20
		name := func(i int) string { return fmt.Sprintf("web-%d", i) }
		planned := func() map[string]int32 {
			all := make(map[string]int32)
			for i := range services {
				for port, number := range f.gatewayPorts(name(i)) {
					all[name(i)+"/"+port] = number
				}
			}
			return all
		}
		writes := f.writesOf()
		for i := range services {
			f.receive("b", multiport(name(i), "10.0.0.5"))
		}
		for i := range services {
			f.untilCarriedBy(name(i), "b web/TCP dns/UDP 10.0.0.100 ready 10.0.0.101 ready")
		}
		if n := writes()["receivedservices"]; n != services {
			t.Errorf("%d writes of ports for %d Services", n, services)
		}
		before := planned()
		if numbers := slices.Compact(slices.Sorted(maps.Values(before))); len(numbers) != 2*services {
			t.Errorf("%d Services with two ports have %d ports of gateways: %v", services, len(numbers), before)
		}

		stop()
		f.leadWithoutNodes()
		f.receive("b", record("later", "10.0.0.5"))
		f.untilCarriedBy("later", "b web/TCP 10.0.0.100 ready 10.0.0.101 ready")
		f.pause(time.Minute)
		if after := planned(); !maps.Equal(before, after) {
			t.Errorf("after a restart, the ports are %v, before %v", after, before)
		}
		if n := writes(); n["receivedservices"] != 1 || n["endpointslices"] != 1 {
			t.Errorf("a restart and a new Service caused writes %v", n)
		}

		// A Service that is exported again, and one whose ports change, get the same ports.
		f.unreceive("b", name(0))
		f.untilImported(name(0), "none")
		f.receive("b", record(name(0), "10.0.0.5"))
		f.untilCarriedBy(name(0), "b web/TCP 10.0.0.100 ready 10.0.0.101 ready")
		f.receive("b", multiport(name(0), "10.0.0.5"))
		f.untilCarriedBy(name(0), "b web/TCP dns/UDP 10.0.0.100 ready 10.0.0.101 ready")
		if after := planned(); !maps.Equal(before, after) {
			t.Errorf("after another export, the ports are %v, before %v", after, before)
		}
	})
}

func TestPortsOfGatewaysThatCannotBeWrittenChangeNoEndpoints(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.leadWithoutNodes()
		f.joinedWithoutNodes()
		f.receive("b", record("web", "10.0.0.5"))
		const one = "b web/TCP 10.0.0.100 ready 10.0.0.101 ready"
		f.untilCarriedBy("web", one)
		var refused atomic.Int64
		permit := f.cluster.(memory).Fail(func(q fakekube.Request) error {
			if q.Resource == "receivedservices" && q.Subresource == "status" {
				refused.Add(1)
				return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource(q.Resource).GroupResource(), q.Name, errors.New("it has changed"))
			}
			return nil
		})
		f.receive("b", multiport("web", "10.0.0.5"))
		f.until("writes are refused", func() string {
			if refused.Load() < 3 {
				return "not yet"
			}
			return ""
		})
		if got := f.carriedBy("web", f.gatewayPorts("web")); got != one {
			t.Errorf("meanwhile the endpoints are %q, want %q", got, one)
		}
		permit()
		f.untilCarriedBy("web", "b web/TCP dns/UDP 10.0.0.100 ready 10.0.0.101 ready")
	})
}

func TestARefusedServiceHasNoPortsOfGateways(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.leadWithoutNodes()
		f.joinedWithoutNodes()
		f.receive("b", record("web", "10.0.0.5"))
		f.untilCarriedBy("web", "b web/TCP 10.0.0.100 ready 10.0.0.101 ready")
		p := f.peering("b")
		p.Spec.Services.ImportFrom = v1alpha1.ImportListed
		p.Spec.Services.Namespaces = []string{"other"}
		_, err := f.Peerings().Update(t.Context(), p, metav1.UpdateOptions{})
		must(t, err)
		f.untilImported("web", "none")
		f.until("the ports are withdrawn", func() string {
			if ports := f.gatewayPorts("web"); len(ports) > 0 {
				return fmt.Sprint(ports)
			}
			return ""
		})
	})
}

func TestWithoutNodeHelpersHeadlessServicesOfRemoteClustersAreRefusedWithAReason(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.leadWithoutNodes()
		f.joinedWithoutNodes()
		r := record("db", "10.0.0.5")
		r.Type = v1alpha1.ServiceRecordHeadless
		f.receive("b", r)
		f.until("the condition of the import", func() string {
			is, err := f.ServiceImports("shop").Get(t.Context(), "db", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if c := meta.FindStatusCondition(is.Status.Conditions, "Ready"); c == nil || c.Reason != "HeadlessNotSupported" || !strings.HasPrefix(c.Message, "it is headless") {
				return fmt.Sprintf("%+v", c)
			}
			return ""
		})
		f.untilSummary("b", "0 imported, 1 refused: shop/db: it is headless, and this cluster has no node helpers: a gateway cannot stand for single endpoints; export a Service with a ClusterIP")
		if all, _ := f.importedObjects("db"); len(all) > 0 || len(f.gatewayPorts("db")) > 0 {
			t.Errorf("it has endpoints %v, and ports %v", all, f.gatewayPorts("db"))
		}

		// Endpoints of this cluster remain.
		headless := web()
		headless.ClusterIP = corev1.ClusterIPNone
		f.serve("db", headless)
		f.endpoints("db", "10.0.0.5")
		f.export("db", mcsv1beta1.ServiceExportSpec{})
		f.untilImported("db", "Headless web 80/TCP from a,b: a 10.0.0.5")
	})
}

func TestWithoutNodeHelpersNodesGetNothing(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		stop := f.lead() // node helpers ran before
		f.joined()
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]")
		f.receive("b", record("web", "10.0.0.5"))
		f.untilImported("web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		stop()
		f.leadWithoutNodes()
		f.untilAttached()
		f.untilCondition("b", v1alpha1.ConditionRouted, "True RoutedByGateways")
		f.untilCarriedBy("web", "b web/TCP 10.0.0.9 ready")
		f.until("no claims of nodes", func() string {
			all, err := f.AddressClaims().List(t.Context(), metav1.ListOptions{})
			must(t, err)
			for _, c := range all.Items {
				if c.Spec.Owner.Kind == "NodeAttachment" {
					return c.Name
				}
			}
			return ""
		})
		n, err := f.ClusterNetworks().Get(t.Context(), v1alpha1.ClusterNetworkName, metav1.GetOptions{})
		must(t, err)
		if !n.Status.WithoutNodes {
			t.Error("the ClusterNetwork does not say that there are no node helpers")
		}
	})
}

// Pods may have such addresses where the control plane or gateways are pods of the cluster.
func TestT3_WithoutNodeHelpersTheStatusNamesTheAPIServersAndGatewaysThatRemoteClustersDoNotReach(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		_, err := f.EndpointSlices("default").Apply(t.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.7.7"}}},
		}, "test")
		must(t, err)
		f.leadWithoutNodes()
		f.joinedWithoutNodes()
		f.peer("c", 1, "10.0.0.0/16=10.72.0.0/16")
		f.carry("c-0", "10.0.0.50", "fd00:10::50")
		until := func(want string) {
			t.Helper()
			f.until("the status of the ClusterNetwork", func() string {
				n, err := f.ClusterNetworks().Get(t.Context(), "default", metav1.GetOptions{})
				must(t, err)
				if got := fmt.Sprint(n.Status.APIServers, n.Status.Gateways); got != want {
					return fmt.Sprintf("%s, want %s", got, want)
				}
				return ""
			})
		}
		until("[10.0.7.7] [10.0.0.100 10.0.0.101 10.0.0.50 fd00:10::50]")
		f.carry("c-0", "10.0.0.51")
		until("[10.0.7.7] [10.0.0.100 10.0.0.101 10.0.0.51]")
	})
}
