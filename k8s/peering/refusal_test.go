package peering

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// refused are changes of an announcement that peered does not take, and what it says.
var refused = []struct {
	name   string
	change func(*v1alpha1.Announcement)
	says   string
}{
	{"no cluster", func(a *v1alpha1.Announcement) { a.ClusterID = "" }, "it has no cluster ID"},
	{"a cluster that is no ID", func(a *v1alpha1.Announcement) { a.ClusterID = "B b" }, `"B b" is not a cluster ID`},
	{"another cluster", func(a *v1alpha1.Announcement) { a.ClusterID = "c" }, "it is from cluster c, but Peering b is with cluster b"},
	{"no gateway", func(a *v1alpha1.Announcement) { a.Gateways = nil }, "it has no gateways"},
	{"a range outside", func(a *v1alpha1.Announcement) { a.Prefixes[1] = "10.4.0.0/16" },
		"pods: 10.4.0.0/16 is not granted; to accept it, add it or a wider range to spec.acceptPrefixes"},
	{"a range that begins inside", func(a *v1alpha1.Announcement) { a.Prefixes[1] = "10.2.0.0/14" },
		`pods: "10.2.0.0/14" is not a prefix in canonical form`},
	{"a wider range", func(a *v1alpha1.Announcement) { a.Prefixes[1] = "10.0.0.0/14" }, "pods: 10.0.0.0/14 is not granted"},
	{"everything", func(a *v1alpha1.Announcement) { a.Prefixes[1] = "0.0.0.0/0" }, "pods: 0.0.0.0/0 is not granted"},
	{"IPv4 in IPv6 form", func(a *v1alpha1.Announcement) { a.Prefixes[1] = "::ffff:10.3.0.0/112" }, "pods: ::ffff:10.3.0.0/112 is not granted"},
	{"pods in the CIDR of external addresses", func(a *v1alpha1.Announcement) { a.Prefixes[1] = "10.70.0.0/24" }, "pods: 10.70.0.0/24 is not granted"},
	{"external addresses in the CIDR of pods", func(a *v1alpha1.Announcement) { a.ExternalPrefixes[0] = "10.1.0.0/24" },
		"external prefixes: 10.1.0.0/24 is not granted"},
	{"no range", func(a *v1alpha1.Announcement) { a.Prefixes[0] = "everything" }, `pods: "everything" is not a prefix`},
	{"host bits", func(a *v1alpha1.Announcement) { a.Prefixes[0] = "10.1.0.1/16" }, `pods: "10.1.0.1/16" is not a prefix in canonical form`},
	{"ranges that overlap", func(a *v1alpha1.Announcement) { a.Prefixes = append(a.Prefixes, "10.3.1.0/24") },
		"10.3.0.0/16 and 10.3.1.0/24 overlap; announce each address once"},
	{"pods and others that overlap", func(a *v1alpha1.Announcement) { a.ExternalPrefixes[0] = "10.3.1.0/24" },
		"10.3.0.0/16 and 10.3.1.0/24 overlap"},
	{"too many ranges", func(a *v1alpha1.Announcement) { a.Prefixes = make([]v1alpha1.CIDR, 65) }, "pods: there are 65 prefixes; announce at most 64"},
	{"a gateway's name", func(a *v1alpha1.Announcement) { a.Gateways[0].Name = "a-0.2" }, `"a-0.2" is not the name of a gateway`},
	{"a name twice", func(a *v1alpha1.Announcement) { a.Gateways[1].Name = a.Gateways[0].Name }, "two gateways have the name a-0"},
	{"no key", func(a *v1alpha1.Announcement) { a.Gateways[1].PublicKeys = nil }, "gateway a-1 has no public key"},
	{"three keys", func(a *v1alpha1.Announcement) { a.Gateways[0].PublicKeys = []v1alpha1.PublicKey{keyA, keyNext, invite} },
		"gateway a-0 has 3 public keys; announce at most 2"},
	{"a key that is none", func(a *v1alpha1.Announcement) { a.Gateways[1].PublicKeys = []v1alpha1.PublicKey{"short"} }, "gateway a-1 has an invalid public key"},
	{"a zero key", func(a *v1alpha1.Announcement) {
		a.Gateways[1].PublicKeys = []v1alpha1.PublicKey{"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
	}, "gateway a-1 has an invalid public key"},
	{"a key twice", func(a *v1alpha1.Announcement) { a.Gateways[1].PublicKeys = []v1alpha1.PublicKey{keyA} }, "gateways a-0 and a-1 have the same public key"},
	{"a key of this cluster", func(a *v1alpha1.Announcement) { a.Gateways[1].PublicKeys = []v1alpha1.PublicKey{keyHere} },
		"gateway a-1 has the public key of gateway b-0 of the receiving cluster"},
	{"an endpoint nowhere", func(a *v1alpha1.Announcement) { a.Gateways[1].Endpoints = []v1alpha1.Endpoint{"127.0.0.1"} },
		`gateway a-1: "127.0.0.1" is not a valid endpoint`},
	{"a loopback address", endpointAt("127.0.0.1:51840"), `gateway a-1: endpoint "127.0.0.1:51840" is a loopback address; announce`},
	{"a loopback address of IPv6", endpointAt("[::1]:51840"), `gateway a-1: endpoint "[::1]:51840" is a loopback address`},
	{"a loopback address of IPv4 in IPv6", endpointAt("[::ffff:127.0.0.1]:1"), `gateway a-1: endpoint "[::ffff:127.0.0.1]:1" is a loopback address`},
	{"a name of the loopback address", endpointAt("LocalHost:51840"), `gateway a-1: endpoint "LocalHost:51840" is a name of the loopback address`},
	{"a name below that", endpointAt("gw.localhost:51840"), `gateway a-1: endpoint "gw.localhost:51840" is a name of the loopback address`},
	{"a link-local address", endpointAt("169.254.169.254:80"), `gateway a-1: endpoint "169.254.169.254:80" is a link-local address`},
	{"a link-local address of IPv6", endpointAt("[fe80::1]:80"), `gateway a-1: endpoint "[fe80::1]:80" is a link-local address`},
	{"a multicast address", endpointAt("224.0.0.1:80"), `gateway a-1: endpoint "224.0.0.1:80" is a multicast address`},
	{"a multicast address of IPv6", endpointAt("[ff02::1]:80"), `gateway a-1: endpoint "[ff02::1]:80" is a multicast address`},
	{"an unspecified address", endpointAt("0.0.0.0:80"), `gateway a-1: endpoint "0.0.0.0:80" is an unspecified address`},
	{"the broadcast address", endpointAt("255.255.255.255:80"), `gateway a-1: endpoint "255.255.255.255:80" is the broadcast address`},
	{"long names", func(a *v1alpha1.Announcement) {
		for n := range 16 {
			g := v1alpha1.AnnouncedGateway{Name: fmt.Sprint("a-", n+2), PublicKeys: []v1alpha1.PublicKey{keyNumber(n)}}
			for e := range 8 {
				g.Endpoints = append(g.Endpoints, v1alpha1.Endpoint(fmt.Sprintf("%s%d.x:51840", strings.Repeat("h", 240), e)))
			}
			a.Gateways = append(a.Gateways, g)
		}
		a.Gateways = a.Gateways[2:]
	}, "its endpoints have 31872 bytes; announce at most 8192"},
}

func endpointAt(e v1alpha1.Endpoint) func(*v1alpha1.Announcement) {
	return func(a *v1alpha1.Announcement) { a.Gateways[1].Endpoints = []v1alpha1.Endpoint{e} }
}

// keyNumber is a public key.
func keyNumber(n int) v1alpha1.PublicKey {
	return v1alpha1.PublicKey(base64.StdEncoding.EncodeToString([]byte{31: byte(n + 1)}))
}

func TestWhatIsNotGrantedIsRefusedWithTheReason(t *testing.T) {
	good := told()
	if err := Refusal(peered(), HoldersOf("a", nil), &good); err != nil {
		t.Errorf("refused: %v", err)
	}
	for _, row := range refused {
		t.Run(row.name, func(t *testing.T) {
			a := told(row.change)
			if err := Refusal(peered(), HoldersOf("a", nil), &a); err == nil || !strings.HasPrefix(err.Error(), row.says) {
				t.Errorf("says %v, want %s", err, row.says)
			}
		})
	}
}

func TestThisClusterIsNotItsOwnPeer(t *testing.T) {
	p, a := peered(), told()
	if err := Refusal(p, HoldersOf("b", nil), &a); err == nil || !strings.Contains(err.Error(), "cluster ID b is this cluster's own; set a unique spec.clusterID") {
		t.Error(err)
	}
	p.Status.Gateways[1].NextPublicKey = keyB
	if err := Refusal(p, HoldersOf("a", nil), &a); err == nil || !strings.Contains(err.Error(), "gateway a-1 has the public key of gateway b-1") {
		t.Error(err)
	}
}

func TestAPeeringWithoutClusterIDStaysWithTheFirst(t *testing.T) {
	p, a := peered(), told()
	p.Spec.ClusterID = ""
	if err := Refusal(p, HoldersOf("a", nil), &a); err != nil {
		t.Error(err)
	}
	p.Status.ClusterID = "c"
	if err := Refusal(p, HoldersOf("a", nil), &a); err == nil || err.Error() != "it is from cluster b, but Peering b is with cluster c, which announced itself first" {
		t.Error(err)
	}
}

func TestEndpointsAreThoseTheAPITakes(t *testing.T) {
	for endpoint, want := range map[v1alpha1.Endpoint]bool{
		"gw-b.example:51840": true, "192.0.2.1:1": true, "[2001:db8::1]:65535": true, "[::1]:1": true, "GW.Example:7": true,
		"": false, "gw-b.example": false, "gw-b.example:0": false, "gw-b.example:065": false, "gw-b.example:65536": false, "gw:x": false, ":51840": false,
		"2001:db8::1:51840": false, "[2001:db8::1:51840": false, "[192.0.2.1]:5": false, "[fe80::1%eth0]:5": false, "[gw]:5": false,
		"192.0.2:5": false, "256.0.0.1:5": false, "0.0.0.0:5": false, "[::]:5": false, "239.0.0.1:5": false, "255.255.255.255:5": false, "[ff02::1]:5": false,
		"[::ffff:192.0.2.1]:5": false, "a b:5": false, "-gw:5": false, v1alpha1.Endpoint(strings.Repeat("a", 256) + ":1234"): false,
	} {
		if got := IsEndpoint(endpoint); got != want {
			t.Errorf("%q: %v, want %v", endpoint, got, want)
		}
	}
}

func FuzzUntrustedEndpointsDoNoHarm(f *testing.F) {
	f.Add("gw-b.example:51840")
	f.Add("[2001:db8::1]:51840")
	f.Add("[:0")
	f.Fuzz(func(t *testing.T, text string) {
		a := told(func(a *v1alpha1.Announcement) {
			a.Gateways[0].Endpoints = []v1alpha1.Endpoint{v1alpha1.Endpoint(text)}
		})
		if err := Refusal(peered(), HoldersOf("a", nil), &a); err == nil && strings.ContainsAny(text, " \n\"'\\%") {
			t.Errorf("takes %q", text)
		}
	})
}
