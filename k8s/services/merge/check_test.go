package merge

import (
	"maps"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestMalformedRecordsAreRefused(t *testing.T) {
	t.Parallel()
	if err := Check(export("a", 0, nil).Record); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*v1alpha1.ServiceRecord){
		"not the name of a Service":   func(r *v1alpha1.ServiceRecord) { r.Name = "-web" },
		"name of a Service in a":      func(r *v1alpha1.ServiceRecord) { r.Namespace = "../kube-system" },
		"has no port":                 ports(),
		"not a type":                  func(r *v1alpha1.ServiceRecord) { r.Type = "ExternalName" },
		"0 is not a port":             ports(port("web", 0)),
		"65536 is not":                ports(port("web", 65536)),
		"is not a protocol":           func(r *v1alpha1.ServiceRecord) { r.Ports[0].Protocol = "ICMP" },
		"has no name":                 ports(port("", 1), port("x", 2)),
		`"a b" is not the name`:       ports(port("a b", 1)),
		"two ports are web":           ports(port("web", 1), port("web", 2)),
		"two ports are other":         ports(port("web", 1), port("other", 1)),
		"maximum is 1024":             ports(make([]v1alpha1.ServiceRecordPort, 1025)...),
		"not an application protocol": func(r *v1alpha1.ServiceRecord) { r.Ports[0].AppProtocol = new("a/b/c") },
		"not a session affinity":      func(r *v1alpha1.ServiceRecord) { r.SessionAffinity = "Sticky" },
		"without session affinity":    func(r *v1alpha1.ServiceRecord) { r.SessionAffinityTimeout = new(int32(1)) },
		"0 s is not a timeout": func(r *v1alpha1.ServiceRecord) {
			r.SessionAffinity, r.SessionAffinityTimeout = "ClientIP", new(int32(0))
		},
		"not an internal traffic policy": func(r *v1alpha1.ServiceRecord) {
			r.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicy("x"))
		},
		"not a traffic distribution": func(r *v1alpha1.ServiceRecord) { r.TrafficDistribution = new("x") },
		"[IPv4 IPv4] are not":        func(r *v1alpha1.ServiceRecord) { r.IPFamilies = append(r.IPFamilies, "IPv4") },
		"not a type of IP addresses": func(r *v1alpha1.ServiceRecord) {
			r.Endpoints = []v1alpha1.ServiceRecordEndpoints{{AddressType: "FQDN"}}
		},
		"endpoints: two ports": func(r *v1alpha1.ServiceRecord) {
			r.Endpoints = []v1alpha1.ServiceRecordEndpoints{{AddressType: discoveryv1.AddressTypeIPv4, Ports: []v1alpha1.ServiceRecordPort{port("x", 1), port("x", 2)}}}
		},
	} {
		if err := Check(export("a", 0, change).Record); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want a refusal: %s", err, name)
		}
	}
}

func TestExportsCannotSetLabelsThatOthersActOn(t *testing.T) {
	t.Parallel()
	got := Exported(map[string]string{
		"tier": "front", "example.com/x": "1", "strait.dev/import": "x", "endpointslice.kubernetes.io/managed-by": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}",
		"argocd.argoproj.io/instance": "x", "app.kubernetes.io/name": "x", "meta.helm.sh/release-name": "x", "a/b/c": "x", "bad": "not a label value!",
	}, true)
	if want := map[string]string{"tier": "front", "example.com/x": "1"}; !maps.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}

func TestOnlyAllowedLabelsAndAnnotationsAreCarried(t *testing.T) {
	t.Parallel()
	given := map[string]string{"tailscale.com/expose": "true", "prometheus.io/scrape": "true", "tier": "front", "example.com/team": "x", "example.com/x": "y", "strait.dev/import": "x"}
	for _, c := range []struct {
		allowed []string
		want    map[string]string
	}{
		{nil, map[string]string{}},
		{[]string{"tier", "example.com/team", "no-such.example/*"}, map[string]string{"tier": "front", "example.com/team": "x"}},
		{[]string{"example.com/*"}, map[string]string{"example.com/team": "x", "example.com/x": "y"}},
		{[]string{"strait.dev/*", "*", "tier/*"}, map[string]string{}},
	} {
		if got := Allowed(Exported(given, true), c.allowed); !maps.Equal(got, c.want) {
			t.Errorf("%v are allowed: kept %v, want %v", c.allowed, got, c.want)
		}
	}
}

func TestAnnotationsThatTheAPIServerWouldRefuseAreNotCarried(t *testing.T) {
	t.Parallel()
	if got := Exported(map[string]string{"x": strings.Repeat("y", maxProperties-1)}, false); len(got) != 1 {
		t.Error("annotations of the maximum length are not carried")
	}
	if got := Exported(map[string]string{"x": strings.Repeat("y", maxProperties-1), "z": ""}, false); len(got) != 0 {
		t.Error("longer annotations are carried")
	}
}

func TestAddressesAreTranslatedWithinTheirPrefixesOnly(t *testing.T) {
	t.Parallel()
	p := netip.MustParsePrefix
	mappings := []Mapping{{p("10.0.0.0/16"), p("10.71.0.0/16")}, {p("10.1.0.0/20"), p("172.16.16.0/20")}, {p("fd00:1::/64"), p("fd00:2::/64")}}
	for from, want := range map[string]string{
		"10.0.1.9": "10.71.1.9", "10.0.255.255": "10.71.255.255", "10.1.15.7": "172.16.31.7", "fd00:1::5": "fd00:2::5", "::ffff:10.0.1.9": "10.71.1.9",
		"10.1.16.1": "", "10.2.0.1": "", "fd00:3::1": "", "fd00:1::5%eth0": "", "x": "", "": "", "127.0.0.1": "",
	} {
		got, ok := Translate(mappings, from)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s becomes %v, %v, want %q", from, got, ok, want)
		}
	}
}

func FuzzTranslate(f *testing.F) {
	f.Add("10.0.1.9", "10.0.0.0/16", "10.71.0.0/16")
	f.Add("fd00::1", "fd00::/8", "fc00::/8")
	f.Fuzz(func(t *testing.T, address, cidr, seenAs string) {
		from, err := netip.ParsePrefix(cidr)
		to, err2 := netip.ParsePrefix(seenAs)
		if err != nil || err2 != nil {
			return
		}
		if got, ok := Translate([]Mapping{{from.Masked(), to.Masked()}}, address); ok && !to.Contains(got) {
			t.Errorf("%s in %s becomes %v, which is not in %s", address, cidr, got, seenAs)
		}
	})
}

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }
