package merge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// export is the export of a cluster, so many seconds after the first one.
func export(cluster string, seconds int64, change func(*v1alpha1.ServiceRecord)) Export {
	r := &v1alpha1.ServiceRecord{
		Namespace: "shop", Name: "web", ExportedAt: metav1.Unix(1_000_000_000+seconds, 0), Type: v1alpha1.ServiceRecordClusterSetIP,
		Ports:      []v1alpha1.ServiceRecordPort{port("web", 80)},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
	if change != nil {
		change(r)
	}
	return Export{Cluster: cluster, Record: r, Labels: r.Labels, Annotations: r.Annotations}
}

func port(name string, number int32) v1alpha1.ServiceRecordPort {
	return v1alpha1.ServiceRecordPort{Name: name, Protocol: corev1.ProtocolTCP, Port: number}
}

func ports(all ...v1alpha1.ServiceRecordPort) func(*v1alpha1.ServiceRecord) {
	return func(r *v1alpha1.ServiceRecord) { r.Ports = all }
}

// describe is what an import says, in one line for each property that is set.
func describe(i Import) string {
	var all []string
	for _, p := range i.Ports {
		all = append(all, p.Name+"="+number(p))
	}
	lines := []string{fmt.Sprintf("%s %s %s %v %s", i.Type, i.SessionAffinity, strings.Join(all, ","), i.IPFamilies, strings.Join(i.Clusters, ","))}
	if c := i.SessionAffinityConfig; c != nil {
		lines = append(lines, fmt.Sprintf("timeout %d", *c.ClientIP.TimeoutSeconds))
	}
	if i.InternalTrafficPolicy != nil {
		lines = append(lines, string(*i.InternalTrafficPolicy))
	}
	if i.TrafficDistribution != nil {
		lines = append(lines, *i.TrafficDistribution)
	}
	if len(i.Labels)+len(i.Annotations) > 0 {
		lines = append(lines, fmt.Sprint(i.Labels, i.Annotations))
	}
	for _, c := range i.Conflicts {
		lines = append(lines, string(c.Reason)+": "+c.Message)
	}
	return strings.Join(lines, "\n")
}

func TestExportsAreMergedByTheRulesOfTheAPI(t *testing.T) {
	t.Parallel()
	headless := func(r *v1alpha1.ServiceRecord) { r.Type = v1alpha1.ServiceRecordHeadless }
	affinity := func(timeout int32) func(*v1alpha1.ServiceRecord) {
		return func(r *v1alpha1.ServiceRecord) {
			r.SessionAffinity, r.SessionAffinityTimeout = corev1.ServiceAffinityClientIP, &timeout
		}
	}
	families := func(all ...corev1.IPFamily) func(*v1alpha1.ServiceRecord) {
		return func(r *v1alpha1.ServiceRecord) { r.IPFamilies = all }
	}
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	const as = ", the oldest export that has it; "
	for _, c := range []struct {
		name    string
		exports []Export
		want    string
	}{
		{"one cluster", []Export{export("a", 0, nil)}, "ClusterSetIP None web=80/TCP [IPv4] a"},
		{"the same in all clusters", []Export{export("b", 1, nil), export("a", 0, nil), export("c", 2, nil)}, "ClusterSetIP None web=80/TCP [IPv4] a,b,c"},
		{"another type", []Export{export("a", 1, nil), export("b", 0, headless)},
			"Headless None web=80/TCP [IPv4] a,b\nTypeConflict: type: Headless of cluster b applies" + as + "1 of 2 clusters differs: a"},
		{"equally old exports", []Export{export("b", 0, headless), export("a", 0, nil)},
			"ClusterSetIP None web=80/TCP [IPv4] a,b\nTypeConflict: type: ClusterSetIP of cluster a applies" + as + "1 of 2 clusters differs: b"},
		{"another number", []Export{export("a", 0, nil), export("b", 1, ports(port("web", 81))), export("c", 2, nil), export("d", 3, ports(port("web", 82))), export("e", 4, nil)},
			"ClusterSetIP None web=80/TCP [IPv4] a,b,c,d,e\nPortConflict: port web: 80/TCP of cluster a applies" + as + "2 of 5 clusters differ: b, d"},
		{"more ports", []Export{export("a", 0, nil), export("b", 1, ports(port("web", 80), port("admin", 81)))},
			"ClusterSetIP None web=80/TCP,admin=81/TCP [IPv4] a,b\nPortConflict: port admin: 81/TCP of cluster b applies" + as + "1 of 2 clusters differs: a"},
		{"the same number with another name", []Export{export("a", 0, nil), export("b", 1, ports(port("http", 80)))},
			"ClusterSetIP None web=80/TCP [IPv4] a,b\nPortConflict: port web: 80/TCP of cluster a applies" + as + "1 of 2 clusters differs: b"},
		{"no name", []Export{export("a", 0, ports(port("", 80))), export("b", 1, ports(port("web", 81)))},
			"ClusterSetIP None =80/TCP [IPv4] a,b\nPortConflict: ports: 80/TCP of cluster a applies" + as + "1 of 2 clusters differs: b"},
		{"another application protocol", []Export{export("a", 0, nil), export("b", 1, func(r *v1alpha1.ServiceRecord) { r.Ports[0].AppProtocol = new("kubernetes.io/h2c") })},
			"ClusterSetIP None web=80/TCP [IPv4] a,b\nPortConflict: port web: 80/TCP of cluster a applies" + as + "1 of 2 clusters differs: b"},
		{"session affinity", []Export{export("a", 0, affinity(10)), export("b", 1, nil)},
			"ClusterSetIP ClientIP web=80/TCP [IPv4] a,b\ntimeout 10\n" +
				"SessionAffinityConflict: sessionAffinity: ClientIP of cluster a applies" + as + "1 of 2 clusters differs: b\n" +
				"SessionAffinityConfigConflict: sessionAffinityConfig: 10 s of cluster a applies" + as + "1 of 2 clusters differs: b"},
		{"another timeout", []Export{export("a", 0, affinity(10)), export("b", 1, affinity(20))},
			"ClusterSetIP ClientIP web=80/TCP [IPv4] a,b\ntimeout 10\nSessionAffinityConfigConflict: sessionAffinityConfig: 10 s of cluster a applies" + as + "1 of 2 clusters differs: b"},
		{"policies", []Export{export("a", 0, func(r *v1alpha1.ServiceRecord) {
			r.InternalTrafficPolicy, r.TrafficDistribution = new(corev1.ServiceInternalTrafficPolicyLocal), new("PreferClose")
		}), export("b", 1, nil)},
			"ClusterSetIP None web=80/TCP [IPv4] a,b\nLocal\nPreferClose\n" +
				"InternalTrafficPolicyConflict: internalTrafficPolicy: Local of cluster a applies" + as + "1 of 2 clusters differs: b\n" +
				"TrafficDistributionConflict: trafficDistribution: PreferClose of cluster a applies" + as + "1 of 2 clusters differs: b"},
		{"labels and annotations", []Export{export("a", 0, func(r *v1alpha1.ServiceRecord) { r.Labels = map[string]string{"x": "1"} }),
			export("b", 1, func(r *v1alpha1.ServiceRecord) {
				r.Labels, r.Annotations = map[string]string{"y": "1"}, map[string]string{"z": "1"}
			})},
			"ClusterSetIP None web=80/TCP [IPv4] a,b\nmap[x:1] map[]\n" +
				"LabelsConflict: exportedLabels: x=\"1\" of cluster a applies" + as + "1 of 2 clusters differs: b\n" +
				"AnnotationsConflict: exportedAnnotations: no value of cluster a applies" + as + "1 of 2 clusters differs: b"},
		{"a newer export with fewer IP families", []Export{export("a", 0, families(v6, v4)), export("b", 1, families(v4))},
			"ClusterSetIP None web=80/TCP [IPv6 IPv4] a,b\nIPFamilyConflict: ipFamilies: [IPv6 IPv4] of cluster a applies" + as + "1 of 2 clusters differs: b"},
		{"a newer export with more IP families", []Export{export("a", 0, families(v4)), export("b", 1, families(v4, v6))}, "ClusterSetIP None web=80/TCP [IPv4] a,b"},
		{"families in the order of the oldest", []Export{export("a", 0, families(v6, v4)), export("b", 1, families(v4, v6))}, "ClusterSetIP None web=80/TCP [IPv6 IPv4] a,b"},
		{"no common IP family", []Export{export("a", 0, families(v6)), export("b", 1, families(v4))},
			"ClusterSetIP None web=80/TCP [IPv6] a,b\nIPFamilyConflict: ipFamilies: [IPv6] of cluster a applies" + as + "1 of 2 clusters differs: b"},
		{"unknown IP families", []Export{export("a", 0, families(v6)), export("b", 1, families())}, "ClusterSetIP None web=80/TCP [IPv6] a,b"},
	} {
		if got := describe(Merge(c.exports, nil)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
		slices.Reverse(c.exports) // every cluster gets them in another order
		if got := describe(Merge(c.exports, nil)); got != c.want {
			t.Errorf("%s, reversed:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestTheFamiliesAreThoseOfTheOldestExportThatThisClusterCanHave(t *testing.T) {
	t.Parallel()
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	of := func(cluster string, age int64, all ...corev1.IPFamily) Export {
		return export(cluster, age, func(r *v1alpha1.ServiceRecord) { r.IPFamilies = all })
	}
	for _, c := range []struct {
		exports  []Export
		possible []corev1.IPFamily
		want     string
	}{
		{[]Export{of("a", 0, v4, v6), of("b", 1, v4)}, []corev1.IPFamily{v4}, "[IPv4] "},
		{[]Export{of("a", 0, v6), of("b", 1, v4)}, []corev1.IPFamily{v4}, "[IPv4] ipFamilies: [IPv4] of cluster b applies, the oldest export that has it; 1 of 2 clusters differs: a"},
		{[]Export{of("a", 0, v6), of("b", 1, v6, v4), of("c", 2, v4)}, []corev1.IPFamily{v4, v6}, "[IPv6] ipFamilies: [IPv6] of cluster a applies, the oldest export that has it; 1 of 3 clusters differs: c"},
		{[]Export{of("a", 0), of("b", 1, v6)}, []corev1.IPFamily{v4, v6}, "[] "}, // as before b exported it
		{[]Export{of("a", 0, v6)}, []corev1.IPFamily{v4}, "[IPv6] "},
	} {
		m := Merge(c.exports, c.possible)
		if got := fmt.Sprint(m.IPFamilies, " ", Messages(m.Conflicts)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A newer export has no other effect than its endpoints, and ports of its own.
func TestANewerExportTakesNothingAway(t *testing.T) {
	t.Parallel()
	timeout := int32(10)
	first := export("b", 0, func(r *v1alpha1.ServiceRecord) {
		r.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		r.SessionAffinity, r.SessionAffinityTimeout = corev1.ServiceAffinityClientIP, &timeout
		r.InternalTrafficPolicy, r.TrafficDistribution = new(corev1.ServiceInternalTrafficPolicyCluster), new("PreferClose")
		r.Labels = map[string]string{"x": "1"}
	})
	alone := Merge([]Export{first}, nil)
	for name, change := range map[string]func(*v1alpha1.ServiceRecord){
		"headless":        func(r *v1alpha1.ServiceRecord) { r.Type = v1alpha1.ServiceRecordHeadless },
		"one family":      func(r *v1alpha1.ServiceRecord) { r.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} },
		"no families":     func(r *v1alpha1.ServiceRecord) { r.IPFamilies = nil },
		"another number":  ports(port("web", 81)),
		"no name":         ports(port("", 9)),
		"the same number": ports(port("other", 80)),
		"no ports":        ports(),
		"local": func(r *v1alpha1.ServiceRecord) {
			r.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
		},
		"labels": func(r *v1alpha1.ServiceRecord) { r.Labels = map[string]string{"x": "2"} },
	} {
		both := Merge([]Export{export("a", 1, change), first}, nil)
		if len(both.Conflicts) == 0 {
			t.Errorf("%s: no conflict is reported", name)
		}
		both.Clusters, both.Conflicts = alone.Clusters, nil
		if got, want := describe(both), describe(alone); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestReasonsAreJoinedByCommas(t *testing.T) {
	t.Parallel()
	merged := Merge([]Export{export("a", 0, nil), export("b", 1, func(r *v1alpha1.ServiceRecord) {
		r.Type, r.Ports = v1alpha1.ServiceRecordHeadless, []v1alpha1.ServiceRecordPort{port("x", 1), port("y", 2)}
	})}, nil)
	if got := Reasons(merged.Conflicts); got != "TypeConflict,PortConflict" {
		t.Error(got)
	}
	if got := Reasons(nil); got != "NoConflicts" {
		t.Error(got)
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("a", int64(0), "web", int32(80), "b", int64(1), "web", int32(81), "", int32(1))
	f.Fuzz(func(t *testing.T, clusterA string, atA int64, nameA string, numberA int32, clusterB string, atB int64, nameB string, numberB int32, nameC string, numberC int32) {
		a := export(clusterA, atA, ports(port(nameA, numberA)))
		b := export(clusterB, atB, ports(port(nameB, numberB), port(nameC, numberC)))
		if Check(a.Record) != nil || Check(b.Record) != nil || clusterA == clusterB {
			return
		}
		merged := Merge([]Export{a, b}, nil)
		if err := checkPorts(merged.Ports, true); err != nil {
			t.Errorf("the union of %v and %v: %v", a.Record.Ports, b.Record.Ports, err)
		}
		if got := describe(Merge([]Export{b, a}, nil)); got != describe(merged) {
			t.Errorf("in another order\n%s\nfirst\n%s", got, describe(merged))
		}
	})
}

func TestAPortIsRoutedToTheClustersThatHaveItWithThatNumber(t *testing.T) {
	a := export("a", 0, ports(port("web", 80), port("api", 81)))
	b := export("b", 1, ports(port("web", 8080), port("admin", 82)))
	i := Merge([]Export{a, b}, nil)
	endpoints := func(cluster string, names ...string) []Group {
		g := Group{Cluster: cluster, AddressType: "IPv4", Endpoints: []Endpoint{{ServiceRecordEndpoint: v1alpha1.ServiceRecordEndpoint{Address: "10.0.0.1"}}}}
		for _, name := range names {
			g.Ports = append(g.Ports, port(name, 1000))
		}
		return []Group{g}
	}
	names := func(groups []Group) (all []string) {
		for _, g := range groups {
			for _, p := range g.Ports {
				all = append(all, p.Name)
			}
		}
		return all
	}
	for _, c := range []struct {
		of     Export
		groups []Group
		want   []string
	}{
		{a, endpoints("a", "web", "api"), []string{"web", "api"}},
		{b, endpoints("b", "web", "admin"), []string{"admin"}},
		{b, endpoints("b", "web"), nil},
	} {
		if is := names(i.Routed(c.of.Record, c.groups)); !slices.Equal(is, c.want) {
			t.Errorf("cluster %s is reached over %v, want %v", c.of.Cluster, is, c.want)
		}
	}
	i.Type = v1alpha1.ServiceRecordHeadless
	if is := names(i.Routed(b.Record, endpoints("b", "web"))); !slices.Equal(is, []string{"web"}) {
		t.Errorf("headless: cluster b is reached over %v", is)
	}
}
