package controller_test

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// joined is a cluster with the ID a, a Peering b with a gateway whose link is up, and the
// namespace shop. The pods of b, 10.0.0.0/16, are mapped to 10.71.0.0/16.
func (f *fixture) joined() {
	f.Helper()
	f.joinedAs("a", "b")
}

func (f *fixture) joinedAs(own, other string) {
	f.Helper()
	f.node("node-1", "192.0.2.21", "10.0.0.0/16")
	f.network(fmt.Sprintf(`{"clusterID": %q, "podCIDRs": ["10.0.0.0/16"], "serviceCIDRs": ["10.96.0.0/16"]}`, own))
	f.namespace("shop")
	f.peer(other, 1, "10.0.0.0/16=10.71.0.0/16")
	f.untilSeen(other, "10.0.0.0/16>10.71.0.0/16 NoConflict")
	f.link(other+"-0", true)
}

func (f *fixture) namespace(name string) {
	f.Helper()
	_, err := f.cluster.Kubernetes().CoreV1().Namespaces().Create(f.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(f.T, err)
}

// link runs a gateway and waits until its Peering says whether its link is up.
func (f *fixture) link(gateway string, up bool) {
	f.Helper()
	f.runGateway(gateway, corev1.ConditionTrue)
	f.say(gateway, v1alpha1.GatewayReportStatus{Links: []v1alpha1.LinkStatus{{Remote: "a-0", Up: up}}})
	name := gateway[:strings.LastIndex(gateway, "-")]
	f.until("the link of "+gateway, func() string {
		for _, g := range f.peering(name).Status.Gateways {
			if g.Name == gateway && g.LinkUp == up {
				return ""
			}
		}
		return "not reported"
	})
}

// web is the spec of a Service with one port.
func web() corev1.ServiceSpec {
	return corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80}}}
}

// serve creates a Service, in place of an existing one.
func (f *fixture) serve(name string, spec corev1.ServiceSpec) {
	f.Helper()
	err := f.Services("shop").Delete(f.Context(), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		f.Fatal(err)
	}
	_, err = f.Services("shop").Create(f.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	must(f.T, err)
}

// endpoints makes these addresses the ready endpoints of a Service, on port 8080.
func (f *fixture) endpoints(service string, addresses ...string) {
	f.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("web"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}},
	}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, Zone: new("zone-1"), NodeName: new("node-1"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	_, err := f.EndpointSlices("shop").Apply(f.Context(), slice, "test")
	must(f.T, err)
}

func (f *fixture) export(name string, spec mcsv1beta1.ServiceExportSpec) {
	f.Helper()
	_, err := f.ServiceExports("shop").Create(f.Context(), &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	must(f.T, err)
}

func (f *fixture) unexport(name string) {
	f.Helper()
	must(f.T, f.ServiceExports("shop").Delete(f.Context(), name, metav1.DeleteOptions{}))
}

// record is what a remote cluster exports: a Service with one port and these endpoints.
func record(name string, addresses ...string) v1alpha1.ServiceRecord {
	r := v1alpha1.ServiceRecord{
		Namespace: "shop", Name: name, ExportedAt: metav1.Unix(1_000_000_000, 0), Type: v1alpha1.ServiceRecordClusterSetIP,
		Ports:           []v1alpha1.ServiceRecordPort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80}},
		SessionAffinity: corev1.ServiceAffinityNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
	if len(addresses) > 0 {
		group := v1alpha1.ServiceRecordEndpoints{AddressType: discoveryv1.AddressTypeIPv4, Ports: []v1alpha1.ServiceRecordPort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: 8080}}}
		for _, a := range addresses {
			group.Endpoints = append(group.Endpoints, v1alpha1.ServiceRecordEndpoint{Address: a, Ready: true, Serving: true})
		}
		r.Endpoints = append(r.Endpoints, group)
	}
	return r
}

// receive writes a ReceivedService as the gateway of a Peering does.
func (f *fixture) receive(peering string, s v1alpha1.ServiceRecord) {
	f.Helper()
	_, err := f.ReceivedServices(gateways).Apply(f.Context(), f.receivedService(peering, s), "strait-gateway")
	must(f.T, err)
}

func (f *fixture) receivedService(peering string, s v1alpha1.ServiceRecord) *v1alpha1.ReceivedService {
	return &v1alpha1.ReceivedService{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name + "." + s.Namespace + "." + peering, Labels: map[string]string{"strait.dev/peering": peering},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Peering", Name: peering, UID: f.peering(peering).UID}},
		},
		Spec: v1alpha1.ReceivedServiceSpec{Peering: peering, Service: s},
	}
}

func (f *fixture) unreceive(peering, name string) {
	f.Helper()
	must(f.T, f.ReceivedServices(gateways).Delete(f.Context(), name+".shop."+peering, metav1.DeleteOptions{}))
}

// imported is an import in a text like "ClusterSetIP web 80/TCP from a,b: a 10.0.0.5, b
// 10.71.0.5 (not ready)", or "none". It has "inconsistent" in it while its objects do not
// agree.
func (f *fixture) imported(name string) string {
	is, err := f.ServiceImports("shop").Get(f.Context(), name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if !missing {
		must(f.T, err)
	}
	slices, services := f.importedObjects(name)
	if missing && len(slices) == 0 && len(services) == 0 {
		return "none"
	}
	if missing || len(services) != 1 {
		return fmt.Sprintf("inconsistent: no ServiceImport %v, %d Services, %d EndpointSlices", missing, len(services), len(slices))
	}
	var ports, clusters, all []string
	for _, p := range is.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%s %d/%s", p.Name, p.Port, p.Protocol))
	}
	for _, c := range is.Status.Clusters {
		clusters = append(clusters, c.Cluster)
	}
	ready := meta.FindStatusCondition(is.Status.Conditions, "Ready")
	ips := services[0].Spec.ClusterIPs
	if is.Spec.Type == mcsv1beta1.Headless {
		ips = nil
	}
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != is.Generation || fmt.Sprint(is.Spec.IPs) != fmt.Sprint(ips) || len(ports) != len(services[0].Spec.Ports) {
		return fmt.Sprintf("inconsistent: condition %+v, addresses %v of Service with %v", ready, is.Spec.IPs, services[0].Spec)
	}
	for _, s := range slices {
		if s.Labels[discoveryv1.LabelServiceName] != services[0].Name || len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != is.UID {
			return fmt.Sprintf("inconsistent: EndpointSlice %+v", s.ObjectMeta)
		}
		for _, e := range s.Endpoints {
			text := s.Labels[mcsv1beta1.LabelSourceCluster] + " " + e.Addresses[0]
			if !*e.Conditions.Ready {
				text += " (not ready)"
			}
			all = append(all, text)
		}
	}
	return fmt.Sprintf("%s %s from %s: %s", is.Spec.Type, strings.Join(ports, " "), strings.Join(clusters, ","), strings.Join(sorted(all), ", "))
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}

// importedObjects are the EndpointSlices and Services of an import.
func (f *fixture) importedObjects(name string) ([]discoveryv1.EndpointSlice, []corev1.Service) {
	of := metav1.ListOptions{LabelSelector: mcsv1beta1.LabelServiceName + "=" + name}
	slices, err := f.EndpointSlices("shop").List(f.Context(), of)
	must(f.T, err)
	services, err := f.Services("shop").List(f.Context(), of)
	must(f.T, err)
	return slices.Items, services.Items
}

func (f *fixture) untilImported(name, want string) {
	f.Helper()
	f.until("the import of "+name, func() string {
		if got := f.imported(name); got != want {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	})
}

// untilExport waits for a condition of a ServiceExport that begins like "True Exported".
func (f *fixture) untilExport(name string, kind mcsv1beta1.ServiceExportConditionType, want string) {
	f.Helper()
	f.until(fmt.Sprintf("%s of ServiceExport %s", kind, name), func() string {
		is, err := f.ServiceExports("shop").Get(f.Context(), name, metav1.GetOptions{})
		must(f.T, err)
		c := meta.FindStatusCondition(is.Status.Conditions, string(kind))
		if c == nil {
			return "missing"
		}
		if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); !strings.HasPrefix(got, want) || c.ObservedGeneration != is.Generation {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	})
}
