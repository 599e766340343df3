package trace

import (
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/gateway"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/fakekube"
)

// imported is Service default/api of cluster b in cluster a: its port 8000 is port 80 of
// the pods. A pod of cluster a takes part.
func imported() *Service {
	slice := func(cluster string, endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "api-" + cluster, Labels: map[string]string{mcsv1beta1.LabelServiceName: "api", mcsv1beta1.LabelSourceCluster: cluster}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
			Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}},
		}
	}
	endpoint := func(address, hostname string, ready bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{address}, Hostname: &hostname, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	}
	return &Service{
		Name: ServiceName{Namespace: "default", Name: "api"},
		Import: mcsv1beta1.ServiceImport{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "api"},
			Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, IPs: []string{"10.96.4.4"},
				Ports: []mcsv1beta1.ServicePort{{Name: "dns", Protocol: "SCTP", Port: 8000}, {Name: "http", Port: 8000}}},
		},
		Slices: []discoveryv1.EndpointSlice{
			slice("a", endpoint("10.0.1.5", "web-0", true)),
			slice("b", endpoint("10.71.2.7", "api-0", false), endpoint("10.71.2.9", "api-1", true)),
		},
	}
}

func toService(edits ...func(*Question)) Question {
	return ask(append([]func(*Question){func(q *Question) { q.Port, q.Protocol = 8000, "" }}, edits...)...)
}

func TestAServiceIsTracedToAnEndpointOfEachRemoteCluster(t *testing.T) {
	w := newFixture()
	r, err := RunService(t.Context(), imported(), toService(), &w.a.Side, &w.b.Side, start)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Traces) != 2 || r.Traces[0].Cluster != "a" || r.Traces[0].Trace != nil || r.Verdict != Delivered {
		t.Fatalf("got %+v", r)
	}
	b := r.Traces[1]
	if b.Cluster != "b" || !b.Ready || b.Address.String() != "10.71.2.9:80" || b.Trace.Verdict != Delivered || b.Trace.Packet.Protocol != gateway.TCP {
		t.Errorf("the trace to b is %+v", b)
	}
	var table strings.Builder
	if err := ServiceTable(&table, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"api.default.svc.clusterset.local has the address 10.96.4.4 in this cluster\n",
		"\ncluster a, endpoint 10.0.1.5:80: in this cluster, not traced\n",
		"\ncluster b, endpoint 10.71.2.9:80\n\ndefault/web (10.0.1.5) to 10.71.2.9:80, tcp, ", "\ndelivered\n",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}

func TestTheWorstVerdictIsThatOfTheService(t *testing.T) {
	w := newFixture()
	w.b.pods = nil
	r, err := RunService(t.Context(), imported(), toService(), &w.a.Side, &w.b.Side, start)
	if err != nil || r.Verdict != Dropped {
		t.Errorf("%+v, %v", r, err)
	}
	w.b.ID = "c" // no access to cluster b
	if r, err = RunService(t.Context(), imported(), toService(), &w.a.Side, &w.b.Side, start); err != nil || r.Verdict != Unknown {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestWithoutNodeHelpersAServiceLeadsToAGateway(t *testing.T) {
	w := newFixture()
	w.a.Network.Status.WithoutNodes = true
	s := imported()
	s.Slices[1].Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.1.9"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}}
	r, err := RunService(t.Context(), s, toService(), &w.a.Side, &w.b.Side, start)
	if err != nil || r.Verdict != Unknown || r.Traces[1].Gateway != "b-0" || r.Traces[1].Trace != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	var table strings.Builder
	if err := ServiceTable(&table, r); err != nil {
		t.Fatal(err)
	}
	const want = "\ncluster b, endpoint 10.0.1.9:80: gateway b-0, which accepts connections and opens new ones to the cluster; not traced\n"
	if !strings.Contains(table.String(), want) {
		t.Errorf("the table lacks %q:\n%s", want, table.String())
	}
}

func TestOneHostOfAHeadlessServiceIsTraced(t *testing.T) {
	s := imported()
	s.Import.Spec.Type = mcsv1beta1.Headless
	s.Name.Hostname, s.Name.Cluster = "api-0", "b"
	q := toService()
	endpoints, err := s.endpoints(&q)
	if err != nil || len(endpoints) != 1 || endpoints[0].Address.String() != "10.71.2.7:8000" || endpoints[0].Ready {
		t.Errorf("%+v, %v", endpoints, err)
	}
}

func TestAServiceThatCannotBeTracedIsExplained(t *testing.T) {
	w := newFixture()
	for _, c := range []struct {
		q    Question
		edit func(*Service)
		says string
	}{
		{toService(func(q *Question) { q.Port = 81 }), func(*Service) {}, "has no port 81 of TCP or UDP; its ports are 8000/sctp, 8000/tcp"},
		{toService(func(q *Question) { q.Protocol = gateway.UDP }), func(*Service) {}, "has no port 8000"},
		{toService(), func(s *Service) { s.Slices = nil }, "has no endpoints; strait services default/api says why"},
		{toService(), func(s *Service) { s.Slices = s.Slices[:1] }, "has endpoints in this cluster only"},
		{toService(), func(s *Service) { s.Name.Hostname = "none" }, "has no endpoints"},
	} {
		s := imported()
		c.edit(s)
		if _, err := RunService(t.Context(), s, c.q, &w.a.Side, &w.b.Side, start); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("it says %v, want %q", err, c.says)
		}
	}
}

func TestNamesOfServicesAreParsed(t *testing.T) {
	for text, want := range map[string]ServiceName{
		"cart.shop.svc.clusterset.local":        {Namespace: "shop", Name: "cart"},
		"cart.shop.svc.clusterset.local.":       {Namespace: "shop", Name: "cart"},
		"db-0.b.db.shop.svc.clusterset.local":   {Namespace: "shop", Name: "db", Hostname: "db-0", Cluster: "b"},
		"cart.shop.svc.cluster.local":           {},
		"b.cart.shop.svc.clusterset.local":      {},
		".shop.svc.clusterset.local":            {},
		"svc.clusterset.local":                  {},
		"a.b.c.d.e.svc.clusterset.local":        {},
		"cart.shop.svc.clusterset.local.evil.x": {},
	} {
		got, ok := ParseServiceName(text)
		if got != want || ok != (want != ServiceName{}) {
			t.Errorf("%s: %+v, %v", text, got, ok)
		}
		if ok && got.String() != strings.TrimSuffix(text, ".") {
			t.Errorf("%s is printed as %s", text, got)
		}
	}
}

func TestAServiceIsReadWithItsEndpoints(t *testing.T) {
	is := imported()
	kube := fakekube.New(&is.Import, &is.Slices[0], &is.Slices[1])
	c := operator.Cluster{Name: "context a", Client: kube.Client(t)}
	s, err := ReadService(t.Context(), c, is.Name)
	if err != nil || len(s.Slices) != 2 || len(s.Import.Spec.IPs) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := ReadService(t.Context(), c, ServiceName{Namespace: "default", Name: "none"}); err == nil || !strings.Contains(err.Error(), "there is no ServiceImport default/none; strait services says why") {
		t.Errorf("it says %v", err)
	}
}
