package merge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// group has endpoints with the addresses of these numbers.
func group(numbers ...int) Group {
	g := Group{Cluster: "b", AddressType: discoveryv1.AddressTypeIPv4, Ports: []v1alpha1.ServiceRecordPort{port("web", 80)}}
	for _, n := range numbers {
		g.Endpoints = append(g.Endpoints, Endpoint{ServiceRecordEndpoint: v1alpha1.ServiceRecordEndpoint{Address: fmt.Sprintf("10.71.%d.%d", n/250, n%250)}})
	}
	return g
}

func numbers(from, to int) (all []int) {
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

// store makes EndpointSlices from a result, and returns the number of those that are created,
// changed or deleted.
func store(before []*discoveryv1.EndpointSlice, after []Slice) (all []*discoveryv1.EndpointSlice, writes int) {
	kept := 0
	for _, s := range after {
		made := &discoveryv1.EndpointSlice{}
		for _, e := range s.Endpoints {
			made.Endpoints = append(made.Endpoints, discoveryv1.Endpoint{Addresses: []string{e.Address}})
		}
		same := func(a, b discoveryv1.Endpoint) bool { return a.Addresses[0] == b.Addresses[0] }
		switch {
		case s.Was == nil:
			made.ObjectMeta = metav1.ObjectMeta{Name: "derived-" + s.Suffix}
			writes++
		default:
			kept++
			made.ObjectMeta = s.Was.ObjectMeta
			if !slices.EqualFunc(made.Endpoints, s.Was.Endpoints, same) {
				writes++
			}
		}
		all = append(all, made)
	}
	return all, writes + len(before) - kept
}

func TestAChangeTouchesOneEndpointSlice(t *testing.T) {
	t.Parallel()
	all := group()
	key := func(*discoveryv1.EndpointSlice) string { return all.Key() }
	is, writes := store(nil, Assign([]Group{group(numbers(0, 950)...)}, nil, key))
	if len(is) != 10 || writes != 10 {
		t.Fatalf("950 endpoints are in %d EndpointSlices, %d writes", len(is), writes)
	}
	for _, c := range []struct {
		name   string
		to     []int
		writes int
	}{
		{"one more", numbers(0, 951), 1},
		{"one less", numbers(1, 951), 1},
		{"one replaced", append(numbers(2, 951), 1000), 1},
		{"the same", append(numbers(2, 951), 1000), 0},
		{"three of one EndpointSlice replaced", append(numbers(2, 948), 1000, 1001, 1002, 1003), 1},
	} {
		if is, writes = store(is, Assign([]Group{group(c.to...)}, is, key)); writes != c.writes {
			t.Errorf("%s: %d writes, want %d", c.name, writes, c.writes)
		}
	}
}

func TestEachEndpointIsInOneEndpointSliceWithCapacity(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	all := group()
	key := func(*discoveryv1.EndpointSlice) string { return all.Key() }
	var is []*discoveryv1.EndpointSlice
	for range 500 {
		var wanted []int
		for n := range 600 {
			if random.IntN(4) > 0 {
				wanted = append(wanted, n)
			}
		}
		wanted = wanted[:random.IntN(len(wanted))]
		is, _ = store(is, Assign([]Group{group(wanted...)}, is, key))
		seen, names := make(map[string]bool), make(map[string]bool)
		for _, s := range is {
			if len(s.Endpoints) == 0 || len(s.Endpoints) > MaxEndpoints || names[s.Name] {
				t.Fatalf("EndpointSlice %s has %d endpoints", s.Name, len(s.Endpoints))
			}
			names[s.Name] = true
			for _, e := range s.Endpoints {
				if seen[e.Addresses[0]] {
					t.Fatalf("%s is there twice", e.Addresses[0])
				}
				seen[e.Addresses[0]] = true
			}
		}
		if len(seen) != len(wanted) {
			t.Fatalf("%d endpoints, want %d", len(seen), len(wanted))
		}
	}
}

func TestEndpointsOfARemoteClusterAreReadyWhileALinkIsUp(t *testing.T) {
	t.Parallel()
	mappings := []Mapping{{CIDR: prefix("10.0.0.0/16"), SeenAs: prefix("10.71.0.0/16")}}
	of := []v1alpha1.ServiceRecordEndpoints{{AddressType: discoveryv1.AddressTypeIPv4, Ports: []v1alpha1.ServiceRecordPort{port("web", 80)}, Endpoints: []v1alpha1.ServiceRecordEndpoint{
		{Address: "10.0.0.5", Hostname: "web-0", Zone: "z1", Ready: true, Serving: true},
		{Address: "10.0.0.6", Hostname: "not a name", Zone: "not a zone!", Serving: true, Terminating: true},
		{Address: "10.96.0.1", Ready: true},
	}}}
	of = append(of, of[0]) // the same endpoints again
	for up, want := range map[bool]string{
		true:  "[{{10.71.0.5 web-0 z1 true true false} } {{10.71.0.6   false true true} }] 2",
		false: "[{{10.71.0.5 web-0 z1 false false false} } {{10.71.0.6   false false true} }] 2",
	} {
		groups, refused := Remote("b", &v1alpha1.ServiceRecord{Endpoints: of}, mappings, up)
		if len(groups) != 1 {
			t.Fatalf("%d groups", len(groups))
		}
		if got := fmt.Sprint(groups[0].Endpoints, refused); got != want {
			t.Errorf("link up %v: %s, want %s", up, got, want)
		}
	}
}

// A pod without a host name has the name in all clusters that it has in its own, also where
// its address is mapped.
func TestPodsOfHeadlessServicesAreNamedByTheAddressesInTheirOwnCluster(t *testing.T) {
	t.Parallel()
	mappings := []Mapping{{CIDR: prefix("10.0.0.0/16"), SeenAs: prefix("10.71.0.0/16")}, {CIDR: prefix("fd00::/64"), SeenAs: prefix("fd71::/64")}}
	record := &v1alpha1.ServiceRecord{Endpoints: []v1alpha1.ServiceRecordEndpoints{
		{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []v1alpha1.ServiceRecordEndpoint{{Address: "10.0.0.5"}, {Address: "10.0.0.6", Hostname: "web-0"}}},
		{AddressType: discoveryv1.AddressTypeIPv6, Endpoints: []v1alpha1.ServiceRecordEndpoint{{Address: "fd00::5"}, {Address: "fd00::"}}}, // fd00-- is not a DNS label
	}}
	for kind, want := range map[v1alpha1.ServiceRecordType][]string{
		v1alpha1.ServiceRecordHeadless:     {"10.71.0.5 10-0-0-5", "10.71.0.6 web-0", "fd71::5 fd00--5", "fd71:: "},
		v1alpha1.ServiceRecordClusterSetIP: {"10.71.0.5 ", "10.71.0.6 web-0", "fd71::5 ", "fd71:: "},
	} {
		record.Type = kind
		groups, _ := Remote("b", record, mappings, true)
		var got []string
		for _, g := range groups {
			for _, e := range g.Endpoints {
				got = append(got, e.Address+" "+e.Hostname)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// The first five bytes of the hashes of these two groups are the same, which took a second to find.
func TestNoClusterFindsPortsWithWhichItTakesTheEndpointSlicesOfAnother(t *testing.T) {
	t.Parallel()
	victim, attacker := group(1), group(2)
	victim.Ports = []v1alpha1.ServiceRecordPort{port("p854935", 80)}
	attacker.Cluster, attacker.Ports = "c", []v1alpha1.ServiceRecordPort{port("p42751", 80)}
	all := Assign([]Group{victim, attacker}, nil, nil)
	if len(all) != 2 || all[0].Suffix == all[1].Suffix {
		t.Errorf("%+v", all)
	}
}
