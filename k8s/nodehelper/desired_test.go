package nodehelper

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
)

// example is a node with two gateways of one peering, of which the second answers.
func example() input {
	return input{
		support: node.Support{Geneve: true, VXLAN: true},
		answers: map[string]nodeprobe.State{"b-1": nodeprobe.LinksUp},
		attachment: &v1alpha1.NodeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
			Spec: v1alpha1.NodeAttachmentSpec{
				Index: 3, UnderlayAddresses: []v1alpha1.IP{"192.0.2.21"}, InternalAddresses: []v1alpha1.IP{"10.80.0.11"},
				PodCIDRs: []v1alpha1.CIDR{"10.0.1.0/24"},
			},
		},
		network: &v1alpha1.ClusterNetwork{
			Spec: v1alpha1.ClusterNetworkSpec{InternalCIDRs: []v1alpha1.CIDR{"10.80.0.0/16"}, ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/16"}},
			Status: v1alpha1.ClusterNetworkStatus{
				PodCIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}, ServiceCIDRs: []v1alpha1.CIDR{"10.96.0.0/12"}, NodeCIDRs: []v1alpha1.CIDR{"192.0.2.0/24"},
			},
		},
		peerings: []*v1alpha1.Peering{{
			ObjectMeta: metav1.ObjectMeta{Name: "b", CreationTimestamp: metav1.Unix(1, 0)},
			Status: v1alpha1.PeeringStatus{
				Prefixes:         []v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: "10.71.0.0/16"}},
				ExternalPrefixes: []v1alpha1.SeenPrefix{{CIDR: "10.70.0.0/16", SeenAs: "10.73.0.0/16"}},
				Gateways: []v1alpha1.GatewayStatus{
					{Name: "b-0", Number: 1, InternalAddresses: []v1alpha1.IP{"10.80.0.1"}, PodAddresses: []v1alpha1.IP{"10.0.1.2"}, MTU: 1420},
					{Name: "b-1", Number: 2, InternalAddresses: []v1alpha1.IP{"10.80.0.2"}, PodAddresses: []v1alpha1.IP{"2001:db8::2", "10.0.2.2"}, MTU: 1400},
				},
			},
		}},
	}
}

func TestDesireOfTheExample(t *testing.T) {
	got := computeDesired(example())
	remote := []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16"), netip.MustParsePrefix("10.73.0.0/16")}
	want := node.Desired{
		Addresses: []netip.Addr{netip.MustParseAddr("10.80.0.11")},
		Pods:      []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24"), netip.MustParsePrefix("10.0.0.0/16")},
		LocalPods: []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")},
		Gateways: []node.Gateway{
			{Name: "b-0", Underlay: netip.MustParseAddr("10.0.1.2"), Addresses: []netip.Addr{netip.MustParseAddr("10.80.0.1")}, VNI: 3<<8 + 1, Encapsulation: node.Geneve, MTU: 1420, Remote: remote},
			{Name: "b-1", Underlay: netip.MustParseAddr("10.0.2.2"), Addresses: []netip.Addr{netip.MustParseAddr("10.80.0.2")}, VNI: 3<<8 + 2, Encapsulation: node.Geneve, MTU: 1400, Remote: remote},
		},
		Groups: []node.Group{{Name: "b", Gateways: []string{"b-1"}, MTU: 1400}},
		Routes: []node.Route{
			{Prefix: netip.MustParsePrefix("10.71.0.0/16"), Group: "b"},
			{Prefix: netip.MustParsePrefix("10.73.0.0/16"), Group: "b"},
		},
	}
	if !reflect.DeepEqual(got.desired, want) {
		t.Errorf("desired %+v\nwant    %+v", got.desired, want)
	}
	if len(got.problems) > 0 {
		t.Errorf("problems %q", got.problems)
	}
}

func TestT3_AGatewayMaySendOnlyFromTheCIDRsOfItsOwnPeering(t *testing.T) {
	in := example()
	c := in.peerings[0].DeepCopy()
	c.Name, c.UID = "c", "c"
	c.Spec.LocalNodes = v1alpha1.LocalNodesAllow
	c.Status.Prefixes = []v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: "10.74.0.0/16"}, {CIDR: "10.1.0.0/16", SeenAs: "10.71.0.0/16"}} // the second is b's
	c.Status.ExternalPrefixes = nil
	c.Status.Gateways = []v1alpha1.GatewayStatus{{Name: "c-0", Number: 3, InternalAddresses: []v1alpha1.IP{"10.80.0.3"}, PodAddresses: []v1alpha1.IP{"10.0.1.9"}, MTU: 1420}}
	in.peerings = append(in.peerings, c)
	in.attachment = in.attachment.DeepCopy()
	in.attachment.Spec.PodAddresses = []v1alpha1.CIDR{"10.0.9.9/32"}
	got := computeDesired(in).desired
	if want := []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24"), netip.MustParsePrefix("10.0.9.9/32")}; !slices.Equal(got.LocalPods, want) {
		t.Errorf("pods of the node %v, want %v", got.LocalPods, want)
	}
	for _, g := range got.Gateways {
		want, nodes := []netip.Prefix{netip.MustParsePrefix("10.71.0.0/16"), netip.MustParsePrefix("10.73.0.0/16")}, false
		if g.Name == "c-0" {
			want, nodes = []netip.Prefix{netip.MustParsePrefix("10.74.0.0/16")}, true
		}
		if !slices.Equal(g.Remote, want) || g.LocalNodes != nodes {
			t.Errorf("gateway %s sends from %v, to nodes %t; want %v, %t", g.Name, g.Remote, g.LocalNodes, want, nodes)
		}
	}
}

// A wide CIDR that contains an address which the node needs is not routed, whichever way the node
// reaches that address. Routes to the node's own addresses precede those of Strait.
func TestT7_WhatANodeNeedsIsNeverRoutedIntoAPeering(t *testing.T) {
	for name, change := range map[string]func(*input){
		"the API server": func(in *input) {
			in.network = in.network.DeepCopy()
			in.network.Status.APIServers = []v1alpha1.IP{"17.6.4.43"}
		},
		"a resolver": func(in *input) { in.resolvers = []netip.Addr{netip.MustParseAddr("17.53.53.53")} },
	} {
		in := example()
		change(&in)
		in.peerings[0] = in.peerings[0].DeepCopy()
		in.peerings[0].Status.Prefixes = []v1alpha1.SeenPrefix{{CIDR: "17.0.0.0/8", SeenAs: "17.0.0.0/8"}}
		got := computeDesired(in)
		if slices.ContainsFunc(got.desired.Routes, func(r node.Route) bool { return r.Prefix.Overlaps(netip.MustParsePrefix("17.0.0.0/8")) }) {
			t.Errorf("%s: routes %v", name, got.desired.Routes)
		}
		if len(got.problems) != 1 || !strings.Contains(got.problems[0], "seenAs 17.0.0.0/8 is not routed: it overlaps") {
			t.Errorf("%s: problems %q", name, got.problems)
		}
	}
}

func TestResolversAreReadFromTheirFile(t *testing.T) {
	t.Parallel()
	text := "# nameserver 9.9.9.9\nsearch example.com\nnameserver 192.0.2.53\nnameserver\nnameserver fe80::1%eth0\nnameserver 192.0.2.53\nnameserver nonsense\n"
	if got, want := parseResolvers(strings.NewReader(text)), []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("fe80::1")}; !slices.Equal(got, want) {
		t.Errorf("resolvers %v, want %v", got, want)
	}
}

// An incomplete gateway is left out with a reason; its CIDRs are dropped then, not routed
// elsewhere.
func TestAGatewayThatLacksSomethingHasNoLink(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*input, *v1alpha1.GatewayStatus)
		want   string
	}{
		{"no number", func(_ *input, g *v1alpha1.GatewayStatus) { g.Number = 0 }, "has not assigned a number"},
		{"no internal address", func(_ *input, g *v1alpha1.GatewayStatus) { g.InternalAddresses = nil }, "has not assigned a number and an internal address to the gateway"},
		{"no pod", func(_ *input, g *v1alpha1.GatewayStatus) { g.PodAddresses = nil }, "check that its pod runs"},
		{"no MTU", func(_ *input, g *v1alpha1.GatewayStatus) { g.MTU = 0 }, "has not reported its addresses and MTU"},
		{"another family below", func(_ *input, g *v1alpha1.GatewayStatus) { g.PodAddresses = []v1alpha1.IP{"2001:db8::2"} }, "no common IP family; run pods with both IP families"},
		{"another family inside", func(_ *input, g *v1alpha1.GatewayStatus) { g.InternalAddresses = []v1alpha1.IP{"fd00:80::1"} }, "no common IP family; configure pools of both IP families"},
		{"a pod on the node's loopback", func(_ *input, g *v1alpha1.GatewayStatus) { g.PodAddresses = []v1alpha1.IP{"127.0.0.1"} }, "is not a unicast host address"},
		{"no tunnel in the kernel", func(in *input, _ *v1alpha1.GatewayStatus) { in.support = node.Support{} }, "neither Geneve nor VXLAN"},
		{"not the wanted tunnel in the kernel", func(in *input, _ *v1alpha1.GatewayStatus) {
			in.support.VXLAN = false
			in.network.Spec.Overlay.Encapsulation = v1alpha1.EncapsulationVXLAN
		}, "the kernel has no VXLAN"},
		{"no NodeAttachment", func(in *input, _ *v1alpha1.GatewayStatus) { in.attachment = nil }, "no NodeAttachment"},
		{"no ClusterNetwork", func(in *input, _ *v1alpha1.GatewayStatus) { in.network = nil }, "ClusterNetwork default does not exist"},
	} {
		in := example()
		in.peerings[0].Status.Gateways = in.peerings[0].Status.Gateways[:1]
		c.change(&in, &in.peerings[0].Status.Gateways[0])
		got := computeDesired(in)
		if len(got.desired.Gateways) > 0 || len(got.gateways) != 1 || !strings.Contains(got.gateways[0].problem, c.want) {
			t.Errorf("%s: gateways %+v, want none with the problem %q", c.name, got.gateways, c.want)
		}
		for _, r := range got.desired.Routes {
			if r.Group != "" {
				t.Errorf("%s: %s goes to %s", c.name, r.Prefix, r.Group)
			}
		}
		if in.network != nil && len(got.desired.Routes) != 2 {
			t.Errorf("%s: routes %+v, want both dropped", c.name, got.desired.Routes)
		}
		if err := got.desired.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// An object that asks to route what means something else here takes over nothing.
func TestT7_NoRangeOfThisClusterIsRoutedAway(t *testing.T) {
	for _, c := range []struct{ seenAs, what string }{
		{"10.0.0.0/16", "the pods of this cluster"}, {"10.0.1.128/25", "the pods of this cluster"},
		{"10.100.0.0/16", "the Services of this cluster"}, {"192.0.2.21/32", "the nodes of this cluster"},
		{"10.80.0.0/24", "the internal addresses of this cluster"}, {"10.70.0.0/16", "the external addresses of this cluster"},
		{"10.0.0.0/8", "the pods of this cluster"}, {"0.0.0.0/0", "the pods of this cluster"},
		{"128.0.0.0/2", "wider than /8"}, {"10.73.0.0/17", "a mapped CIDR of Peering b"},
		{"10.71.2.9/16", "canonical form"}, {"everything", "is not a prefix"},
	} {
		in := example()
		evil := in.peerings[0].DeepCopy()
		evil.Name, evil.CreationTimestamp = "a", metav1.Unix(2, 0)
		evil.Status.Gateways = nil
		evil.Status.Prefixes, evil.Status.ExternalPrefixes = []v1alpha1.SeenPrefix{{SeenAs: v1alpha1.CIDR(c.seenAs)}}, nil
		if c.seenAs == "10.71.2.9/16" {
			in.peerings[0].Status.Prefixes = nil
		}
		if c.seenAs == "128.0.0.0/2" {
			in.network.Status.NodeCIDRs, in.attachment.Spec.UnderlayAddresses = nil, nil
		}
		in.peerings = []*v1alpha1.Peering{evil, in.peerings[0]}
		got := computeDesired(in)
		if len(got.problems) != 1 || !strings.Contains(got.problems[0], c.what) || !strings.Contains(got.problems[0], "Peering a: seenAs "+c.seenAs) {
			t.Errorf("%s: problems %q, want one with %q", c.seenAs, got.problems, c.what)
		}
		if slices.ContainsFunc(got.desired.Routes, func(r node.Route) bool { return r.Prefix.String() == c.seenAs }) {
			t.Errorf("%s is routed", c.seenAs)
		}
		if err := got.desired.Validate(); err != nil {
			t.Errorf("%s: %v", c.seenAs, err)
		}
	}
}

func TestTheGatewaysThatServe(t *testing.T) {
	const up, none, leaving, unknown = nodeprobe.LinksUp, nodeprobe.NoLinks, nodeprobe.Leaving, nodeprobe.Unknown
	type answers = map[string]nodeprobe.State
	for _, c := range []struct {
		name     string
		answers  answers
		joining  string // names, separated by blanks
		serving  string
		unlinked string
		change   func(*v1alpha1.Peering)
		want     string
	}{
		{"all that have a link", answers{"b-0": up, "b-1": up, "b-2": up}, "", "b-1", "", nil, "b-0 b-1 b-2"},
		{"one that has not said may have a link", answers{"b-0": up, "b-1": unknown, "b-2": none}, "", "", "", nil, "b-0 b-1"},
		{"not those without a link", answers{"b-0": up, "b-1": none, "b-2": up}, "", "b-0 b-1 b-2", "", nil, "b-0 b-2"},
		{"not those that leave", answers{"b-0": up, "b-1": up, "b-2": leaving}, "", "b-0 b-1 b-2", "", nil, "b-0 b-1"},
		{"not those that do not answer", answers{"b-0": up}, "", "b-0 b-1 b-2", "", nil, "b-0"},
		{"one that comes back, later", answers{"b-0": up, "b-1": up}, "b-1", "b-0", "", nil, "b-0"},
		{"one that comes back, if there is no other", answers{"b-0": none, "b-1": up, "b-2": leaving}, "b-1", "b-2", "", nil, "b-1"},
		{"one that was used as there was no other stays", answers{"b-0": up, "b-1": up}, "b-1", "b-1", "", nil, "b-0 b-1"},
		{"those that leave forward still", answers{"b-0": none, "b-1": leaving, "b-2": leaving}, "", "b-0", "", nil, "b-1 b-2"},
		{"those without a link may pass packets on", answers{"b-0": none, "b-1": none}, "", "b-2", "", nil, "b-0 b-1"},
		{"no gateway answers: all", nil, "", "", "", nil, "b-0 b-1 b-2"},
		{"no gateway answers: those in use", nil, "", "b-1 b-2", "", nil, "b-1 b-2"},
		{"no gateway answers: the last one stays", nil, "", "b-1", "", nil, "b-1"},
		{"those in use are gone", nil, "", "b-7", "", nil, "b-0 b-1 b-2"},
		{"the peering is being deleted", answers{"b-0": up}, "", "b-0", "", func(p *v1alpha1.Peering) { p.DeletionTimestamp = new(metav1.Time) }, ""},
		{"one in use that is late, before those that have had no link yet", answers{"b-1": none, "b-2": none}, "", "b-0", "b-1 b-2", nil, "b-0"},
		{"one that has had no link yet, before one that does not answer", answers{"b-1": none}, "", "", "b-1", nil, "b-1"},
		{"one that has lost its links, before one that is late", answers{"b-1": none, "b-2": none}, "", "b-0", "b-2", nil, "b-1"},
	} {
		in := example()
		third := *in.peerings[0].Status.Gateways[0].DeepCopy()
		third.Name, third.Number, third.InternalAddresses = "b-2", 3, []v1alpha1.IP{"10.80.0.3"}
		in.peerings[0].Status.Gateways = append(in.peerings[0].Status.Gateways, third)
		in.answers, in.joining, in.serving = c.answers, set(c.joining), set(c.serving)
		in.unlinked = set(c.unlinked)
		if c.change != nil {
			c.change(in.peerings[0])
		}
		out := computeDesired(in)
		got := ""
		if len(out.desired.Groups) > 0 {
			got = strings.Join(out.desired.Groups[0].Gateways, " ")
		}
		if got != c.want || !reflect.DeepEqual(out.serving, set(c.want)) {
			t.Errorf("%s: %q, in use %v, want %q", c.name, got, out.serving, c.want)
		}
		for _, g := range out.gateways {
			if g.inUse != set(c.want)[g.Name] {
				t.Errorf("%s: gateway %s is in use: %t", c.name, g.Name, g.inUse)
			}
		}
	}
}

// set returns the set of the words of a text.
func set(words string) map[string]bool {
	s := map[string]bool{}
	for _, word := range strings.Fields(words) {
		s[word] = true
	}
	return s
}

// Also of gateways that are out: routes do not change when one is taken out.
func TestAPeeringHasTheSmallestMTUOfItsGateways(t *testing.T) {
	in := example()
	for _, answers := range []map[string]nodeprobe.State{{"b-0": nodeprobe.LinksUp}, {"b-1": nodeprobe.LinksUp}, {"b-0": nodeprobe.LinksUp, "b-1": nodeprobe.LinksUp}} {
		in.answers = answers
		if g := computeDesired(in).desired.Groups[0]; g.MTU != 1400 {
			t.Errorf("with the gateways %v, the MTU is %d, want 1400", g.Gateways, g.MTU)
		}
	}
}

func TestAWithdrawnRangeIsDroppedForAWhile(t *testing.T) {
	w, now := withdrawn{}, time.Unix(1_000_000, 0)
	routes := func(in input, after time.Duration) (all []string) {
		out := computeDesired(in)
		w.drop(&out, now.Add(after))
		if err := out.desired.Validate(); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.desired.Routes {
			all = append(all, r.Prefix.String()+" "+r.Group)
		}
		return all
	}
	gone := example()
	gone.peerings = nil
	taken := example()
	taken.peerings = nil
	taken.network.Status.PodCIDRs = append(taken.network.Status.PodCIDRs, "10.73.0.0/20")
	for _, step := range []struct {
		name  string
		in    input
		after time.Duration
		want  []string
	}{
		{"before", example(), 0, []string{"10.71.0.0/16 b", "10.73.0.0/16 b"}},
		{"the peering is gone", gone, time.Second, []string{"10.71.0.0/16 ", "10.73.0.0/16 "}},
		{"one has another meaning", taken, 2 * time.Second, []string{"10.71.0.0/16 "}},
		{"almost over", gone, withdrawnFor - time.Second, []string{"10.71.0.0/16 "}},
		{"over", gone, withdrawnFor, nil},
	} {
		if got := routes(step.in, step.after); !slices.Equal(got, step.want) {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
}

// A network plugin's bridge or overlay gives frames another source than the node's.
func TestTheStatusTellsASourceThatTheObjectsDoNotKnow(t *testing.T) {
	in := example()
	in.sources = map[netip.Addr]netip.Addr{
		netip.MustParseAddr("10.0.1.2"): netip.MustParseAddr("10.0.1.1"),   // on the same node
		netip.MustParseAddr("10.0.2.2"): netip.MustParseAddr("192.0.2.21"), // on another
	}
	s := status(computeDesired(in), "", map[string]nodeprobe.State{"b-0": nodeprobe.LinksUp, "b-1": nodeprobe.LinksUp}, nil)
	if len(s.Gateways) != 2 || s.Gateways[0].Source != "10.0.1.1" || s.Gateways[1].Source != "" {
		t.Errorf("%+v", s.Gateways)
	}
	if !urgent(s, v1alpha1.NodeAttachmentStatus{}) || urgent(s, s) {
		t.Error("a gateway that does not know the source takes no frames: it is told at once, and once")
	}
}
