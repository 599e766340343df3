package offload_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"strait.dev/strait/test/fakekube"
)

// addService adds a Service of the consumer with three endpoints: a pod of the consumer, one of
// the virtual node, and an address that the Peering does not grant.
func (j *joined) addService(headless bool) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "web"}, SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080, TargetPort: intstr.FromString("web")}},
		},
	}
	if headless {
		s.Spec.Type, s.Spec.ClusterIP, s.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone, 0
	}
	on := func(node, address string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{address}, NodeName: &node, Hostname: new("web-0"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}
	}
	j.a.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"strait.dev/offload": "b"}}}, s,
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "elsewhere"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.org"}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4,
			Ports:     []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
			Endpoints: []discoveryv1.Endpoint{on("node-1", "10.0.1.5"), on("strait-b", "10.71.2.9"), on("node-1", "10.9.1.5"), on("node-1", "169.254.169.254")},
		})
}

// provided describes the Services and endpoints of the provider's namespace.
func (j *joined) provided(t *testing.T) string {
	t.Helper()
	var all []string
	services, err := j.b.Client(t).Services("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, s := range services.Items {
		kind := string(s.Spec.Type)
		if s.Spec.ClusterIP == corev1.ClusterIPNone {
			kind = "headless"
		}
		all = append(all, fmt.Sprint(s.Name, " ", kind, " ", s.Spec.Selector["app"]))
		for _, p := range s.Spec.Ports {
			all = append(all, fmt.Sprint(p.Port, ">", p.TargetPort.String(), " ", p.NodePort))
		}
	}
	slices, err := j.b.Client(t).EndpointSlices("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			all = append(all, fmt.Sprint(s.Labels[discoveryv1.LabelServiceName], " ", e.Addresses[0], ":", *s.Ports[0].Port, " ", *e.Hostname, " ", *e.Conditions.Ready, *e.Conditions.Serving))
		}
	}
	return strings.Join(all, ", ")
}

// setLink sets whether a link is up, as the provider's gateways report it.
func (j *joined) setLink(t *testing.T, up bool) {
	t.Helper()
	p, err := j.b.Client(t).Peerings().Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Status.Gateways[0].LinkUp = up
	if _, err := j.b.Client(t).Peerings().UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

const (
	whileUp   = "web ClusterIP web, 80>web 0, web 10.73.1.5:8080 web-0 true true"
	whileDown = "web ClusterIP web, 80>web 0, web 10.73.1.5:8080 web-0 false false"
)

func (j *joined) expect(t *testing.T, what, want string) {
	t.Helper()
	if got := j.provided(t); got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

// A Service of the namespace exists in the provider, with its selector for twins and with the
// endpoints of the consumer. These are ready while a link is up, and stay until a list leaves
// the Service out.
func TestAServiceHasItsEndpointsInTheProvider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.addService(false)
		time.Sleep(time.Minute)
		j.expect(t, "after a minute", whileUp)

		j.cable.set(true)
		j.setLink(t, false)
		time.Sleep(time.Minute)
		j.expect(t, "while the link is down", whileDown)
		j.setLink(t, true)
		j.cable.set(false)
		time.Sleep(time.Minute)
		j.expect(t, "after that", whileUp)

		j.stopBorrower()
		time.Sleep(time.Hour)
		j.expect(t, "an hour without a borrower", whileUp)
		for _, unread := range []string{"services", "endpointslices", "namespaces"} {
			repair := j.a.Fail(func(q fakekube.Request) error {
				if q.Resource == unread {
					return errors.New("no answer")
				}
				return nil
			})
			j.borrow(t)
			time.Sleep(10 * time.Minute)
			j.expect(t, "while a new borrower cannot read "+unread, whileUp)
			repair()
			time.Sleep(2 * time.Minute)
			j.expect(t, "after that", whileUp)
			j.stopBorrower()
		}
		j.borrow(t)
		time.Sleep(time.Minute)

		if err := j.a.Client(t).Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		j.expect(t, "without the Service", "")
	})
}

func TestAHeadlessServiceStaysHeadless(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.addService(true)
		time.Sleep(time.Minute)
		j.expect(t, "after a minute", strings.Replace(whileUp, "ClusterIP", "headless", 1))
		slices := func() []discoveryv1.EndpointSlice {
			all, err := j.b.Client(t).EndpointSlices("shop").List(t.Context(), metav1.ListOptions{LabelSelector: corev1.IsHeadlessService})
			if err != nil {
				t.Fatal(err)
			}
			return all.Items
		}
		if len(slices()) != 1 {
			t.Error("its EndpointSlice does not say so")
		}
		is := slices()
		is[0].Endpoints[0].Addresses[0] = "10.0.0.1" // another writer
		if _, err := j.b.Client(t).EndpointSlices("shop").Update(t.Context(), &is[0], metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		j.expect(t, "after a change by another writer", strings.Replace(whileUp, "ClusterIP", "headless", 1))
	})
}

// A namespace that is not offloaded any more has no Services in the provider, and no foreign one
// is touched.
func TestServicesOfANamespaceThatIsTakenBackAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		j.b.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}})
		j.a.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: 1, Protocol: corev1.ProtocolTCP}}}})
		j.addService(false)
		time.Sleep(time.Minute)
		const own = "own ClusterIP "
		j.expect(t, "offloaded", own+", "+whileUp)
		j.a.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		time.Sleep(3 * time.Minute)
		j.expect(t, "taken back", own)
	})
}
