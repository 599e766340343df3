package services

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/test/alone"
)

// received returns the ReceivedService of a record, as the API server returns it.
func received(t *testing.T, r v1alpha1.ServiceRecord) *v1alpha1.ReceivedService {
	t.Helper()
	text, err := json.Marshal(&v1alpha1.ReceivedService{
		ObjectMeta: metav1.ObjectMeta{
			Name: r.Name + "." + r.Namespace + ".b", Namespace: "strait-gateways", UID: "u", ResourceVersion: "7", CreationTimestamp: metav1.Unix(1000, 0),
			Labels: map[string]string{"strait.dev/peering": "b"}, OwnerReferences: []metav1.OwnerReference{{Kind: "Peering", Name: "b", UID: "p"}},
			Annotations: map[string]string{"a": strings.Repeat("x", 1000)}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "strait-gateway"}},
		},
		Spec:   v1alpha1.ReceivedServiceSpec{Peering: "b", Service: r},
		Status: v1alpha1.ReceivedServiceStatus{Ports: []v1alpha1.GatewayServicePort{{ServicePort: "web", Port: 20000}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := new(v1alpha1.ReceivedService)
	if err := json.Unmarshal(text, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// trimmed returns what the cache keeps of an object.
func trimmed(t *testing.T, o *v1alpha1.ReceivedService) *v1alpha1.ReceivedService {
	t.Helper()
	kept, err := trimReceived(o)
	if err != nil {
		t.Fatal(err)
	}
	return kept.(*v1alpha1.ReceivedService)
}

// manyPorts returns the largest ports.
func manyPorts(n int) (all []v1alpha1.ServiceRecordPort) {
	for i := range n {
		application := fmt.Sprintf("%s.example/%s", strings.Repeat("a", 63), strings.Repeat("b", 60))
		all = append(all, v1alpha1.ServiceRecordPort{Name: fmt.Sprintf("p%d-%s", i, strings.Repeat("x", 40)), Protocol: corev1.ProtocolTCP, AppProtocol: &application, Port: int32(1 + i)})
	}
	return all
}

func TestTheCacheKeepsWhatIsReadOfAReceivedService(t *testing.T) {
	t.Parallel()
	r := v1alpha1.ServiceRecord{Namespace: "shop", Name: "web", Type: v1alpha1.ServiceRecordClusterSetIP, Labels: map[string]string{"team": "shop"}, Endpoints: []v1alpha1.ServiceRecordEndpoints{
		{AddressType: discoveryv1.AddressTypeIPv4, Ports: manyPorts(100)},
		{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []v1alpha1.ServiceRecordEndpoint{{Address: "10.0.0.5", Ready: true}}},
	}}
	o := trimmed(t, received(t, r))
	if o.Annotations != nil || o.ManagedFields != nil || len(o.Spec.Service.Endpoints) != 1 {
		t.Errorf("it keeps %v %v and %d entries", o.Annotations, o.ManagedFields, len(o.Spec.Service.Endpoints))
	}
	if o.UID != "u" || o.ResourceVersion != "7" || o.CreationTimestamp.IsZero() || len(o.OwnerReferences) != 1 || o.Spec.Service.Labels["team"] != "shop" || len(o.Status.Ports) != 1 || o.Spec.Service.Type != r.Type {
		t.Errorf("it loses something of %+v", o)
	}
}

// A gateway that is compromised may write any record that the API server accepts.
func TestT6_T10_TheCacheHoldsNoRecordThatIsLargerThanPermitted(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*v1alpha1.ServiceRecord){
		"ports": func(r *v1alpha1.ServiceRecord) {
			r.Endpoints = nil
			for range 64 {
				r.Endpoints = append(r.Endpoints, v1alpha1.ServiceRecordEndpoints{AddressType: discoveryv1.AddressTypeIPv4, Ports: manyPorts(100), Endpoints: []v1alpha1.ServiceRecordEndpoint{{Address: "10.0.0.5"}}})
			}
		},
		"annotations": func(r *v1alpha1.ServiceRecord) {
			r.Annotations = map[string]string{"a": strings.Repeat("x", 256<<10-1)}
		},
		"endpoints": func(r *v1alpha1.ServiceRecord) {
			r.Endpoints[0].Endpoints = make([]v1alpha1.ServiceRecordEndpoint, 5001)
		},
	} {
		r := v1alpha1.ServiceRecord{Namespace: "shop", Name: "web", Type: v1alpha1.ServiceRecordClusterSetIP, Ports: manyPorts(1),
			Endpoints: []v1alpha1.ServiceRecordEndpoints{{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []v1alpha1.ServiceRecordEndpoint{{Address: "10.0.0.5"}}}}}
		edit(&r)
		o := trimmed(t, received(t, r))
		if s := o.Spec.Service; s.Type != tooLarge || s.Name != "web" || s.Namespace != "shop" || s.Endpoints != nil || s.Annotations != nil {
			t.Errorf("%s: the cache has %d bytes of it", name, merge.Size(&s))
		}
	}
}

// What a Peering permits by default needs this much memory in the cache, whatever the records
// consist of.
func TestT12_TheRecordsOfAPeeringFitIntoTheController(t *testing.T) {
	if !alone.Process(t) {
		return // what other tests leave becomes garbage at any time
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const bound = 4 * merge.DefaultMaxBytes
	for name, edit := range map[string]func(*v1alpha1.ServiceRecord){
		"large ports": func(r *v1alpha1.ServiceRecord) { r.Endpoints[0].Ports = manyPorts(100) },
		"small ports": func(r *v1alpha1.ServiceRecord) {
			for n := range 100 {
				r.Endpoints[0].Ports = append(r.Endpoints[0].Ports, v1alpha1.ServiceRecordPort{Name: fmt.Sprint(n), Protocol: corev1.ProtocolTCP, Port: int32(1 + n)})
			}
		},
		"entries": func(r *v1alpha1.ServiceRecord) {
			for len(r.Endpoints) < 64 {
				r.Endpoints = append(r.Endpoints, v1alpha1.ServiceRecordEndpoints{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []v1alpha1.ServiceRecordEndpoint{{Address: "10.0.0.5"}}})
			}
		},
		"labels": func(r *v1alpha1.ServiceRecord) {
			r.Labels = make(map[string]string)
			for n := range 64 {
				r.Labels[fmt.Sprint("l", n)] = ""
			}
		},
		"endpoints": func(r *v1alpha1.ServiceRecord) {
			for n := range 25 {
				r.Endpoints[0].Endpoints = append(r.Endpoints[0].Endpoints, v1alpha1.ServiceRecordEndpoint{Address: fmt.Sprintf("10.0.1.%d", n), Zone: "z"})
			}
		},
	} {
		before := heap()
		var cache []*v1alpha1.ReceivedService
		for bytes := 0; ; {
			r := v1alpha1.ServiceRecord{Namespace: "shop", Name: fmt.Sprint("s", len(cache)), Type: v1alpha1.ServiceRecordClusterSetIP,
				Endpoints: []v1alpha1.ServiceRecordEndpoints{{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []v1alpha1.ServiceRecordEndpoint{{Address: "10.0.0.5"}}}}}
			edit(&r)
			o := trimmed(t, received(t, r))
			if bytes += merge.Size(&o.Spec.Service); bytes > merge.DefaultMaxBytes || o.Spec.Service.Type == tooLarge {
				break
			}
			cache = append(cache, o)
		}
		used := heap() - before
		t.Logf("%s: %d Services, %.1f MiB", name, len(cache), float64(used)/(1<<20))
		if used > bound || len(cache) < 100 {
			t.Errorf("%s: %d Services need %d MiB, want at most %d", name, len(cache), used>>20, bound>>20)
		}
		runtime.KeepAlive(cache)
	}
}
