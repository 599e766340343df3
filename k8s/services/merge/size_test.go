package merge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// sized returns a record with ports, and with endpoints in one entry.
func sized(ports, endpoints int, optional string) *v1alpha1.ServiceRecord {
	r := &v1alpha1.ServiceRecord{Namespace: "shop", Name: "web", Type: v1alpha1.ServiceRecordClusterSetIP}
	for n := range ports {
		p := v1alpha1.ServiceRecordPort{Name: fmt.Sprint("p", n), Protocol: corev1.ProtocolTCP, Port: int32(1 + n)}
		if optional != "" {
			p.AppProtocol = &optional
		}
		r.Ports = append(r.Ports, p)
	}
	g := v1alpha1.ServiceRecordEndpoints{AddressType: discoveryv1.AddressTypeIPv4, Ports: r.Ports}
	for n := range endpoints {
		g.Endpoints = append(g.Endpoints, v1alpha1.ServiceRecordEndpoint{Address: fmt.Sprintf("10.0.%d.%d", n/250, n%250), Hostname: optional, Zone: optional, Ready: true, Serving: true})
	}
	r.Endpoints = append(r.Endpoints, g)
	return r
}

func TestTheSizeOfARecordIsAboutItsLengthInJSON(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*v1alpha1.ServiceRecord{
		"small": sized(1, 1, ""), "usual": sized(2, 25, "zone-1"), "large": sized(1, 5000, strings.Repeat("x", 63)), "ports": sized(100, 1, strings.Repeat("x", 63)),
	} {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if n := Size(r); n < len(text)*3/4 || n > len(text)*5/4+recordBytes {
			t.Errorf("%s: size %d, the JSON has %d bytes", name, n, len(text))
		}
	}
}

// Each EndpointSlice of up to 100 endpoints has the ports again.
func TestThePortsOfEndpointsCountOnceForEachEndpointSlice(t *testing.T) {
	t.Parallel()
	one, many := sized(1, 1000, ""), sized(1, 1000, "")
	many.Endpoints[0].Ports = sized(50, 0, "").Ports
	if n, want := Size(many)-Size(one), 10*(portsSize(many.Endpoints[0].Ports)-portsSize(one.Endpoints[0].Ports)); n != want {
		t.Errorf("they count as %d bytes, want %d", n, want)
	}
}

func TestRecordsOfUsualServicesAreSmallEnough(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*v1alpha1.ServiceRecord{"5000 endpoints": sized(10, 5000, strings.Repeat("x", 63)), "100 ports": sized(100, 100, "kubernetes.io/h2c")} {
		if err := CheckSize(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	sum := 0
	for range 2000 { // the default limits of the API
		sum += Size(sized(2, 25, "zone-1"))
	}
	if sum > DefaultMaxBytes {
		t.Errorf("2000 Services with 50000 endpoints have %d bytes, the default limit is %d", sum, DefaultMaxBytes)
	}
}

func TestEntriesWithoutEndpointsDoNotCount(t *testing.T) {
	t.Parallel()
	r, without := sized(100, 1, ""), sized(100, 0, "")
	want := Size(r)
	r.Endpoints = append(r.Endpoints, without.Endpoints...)
	if DropEmpty(r); len(r.Endpoints) != 1 || Size(r) != want {
		t.Errorf("%d entries with %d bytes, want one with %d", len(r.Endpoints), Size(r), want)
	}
}
