package node

import (
	"net/netip"
	"strings"
	"testing"
)

func TestValidateReportsErrors(t *testing.T) {
	t.Parallel()
	if err := desiredB().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Desired)
		want   string
	}{
		{"a default route", route("0.0.0.0/0"), `node: route 0.0.0.0/0: wider than /8`},
		{"half of IPv6", route("8000::/1"), `wider than /16`},
		{"host bits", route("10.71.2.9/16"), `not a prefix in canonical form`},
		{"an IPv4-mapped route", route("::ffff:10.71.0.0/112"), `not a prefix in canonical form`},
		{"no prefix", func(d *Desired) { d.Routes[0].Prefix = netip.Prefix{} }, `not a prefix in canonical form`},
		{"a route over the gateway's pod", route("192.0.2.0/24"), `contains 192.0.2.10 of gateway "b-0"`},
		{"a route over internal addresses of gateways", route("10.80.0.0/29"), `contains 10.80.0.1 of gateway "b-0"`},
		{"a route over the node's own address", route("10.80.0.8/29"), `contains the node's own address 10.80.0.11`},
		{"a route twice", func(d *Desired) { d.Routes = append(d.Routes, d.Routes[0]) }, `is listed twice`},
		{"an unknown group", func(d *Desired) { d.Routes[0].Group = "c" }, `group "c" does not exist`},
		{"a group of an unknown gateway", func(d *Desired) { d.Groups[0].Gateways = []string{"c-0"} }, `group "b": gateway "c-0" does not exist`},
		{"a gateway twice in a group", func(d *Desired) { d.Groups[0].Gateways = []string{"b-0", "b-0"} }, `gateway "b-0" is listed twice`},
		{"a group twice", func(d *Desired) { d.Groups = append(d.Groups, d.Groups[0]) }, `group "b" is listed twice`},
		{"a group without name", func(d *Desired) { d.Groups[0].Name = "" }, `it has no name`},
		{"a group without MTU", func(d *Desired) { d.Groups[0].MTU = 0 }, `MTU 0 is out of range`},
		{"a gateway twice", func(d *Desired) { d.Gateways = append(d.Gateways, d.Gateways[0]); d.Gateways[1].VNI++ }, `gateway "b-0" is listed twice`},
		{"a VNI twice", func(d *Desired) { d.Gateways = append(d.Gateways, d.Gateways[0]); d.Gateways[1].Name = "b-1" }, `gateways "b-0" and "b-1" have VNI 257`},
		{"VNI 0", func(d *Desired) { d.Gateways[0].VNI = 0 }, `VNI 0 is out of range`},
		{"a VNI of 25 bits", func(d *Desired) { d.Gateways[0].VNI = 1 << 24 }, `VNI 16777216 is out of range`},
		{"no underlay address", func(d *Desired) { d.Gateways[0].Underlay = netip.Addr{} }, `is not a unicast host address`},
		{"a loopback underlay address", func(d *Desired) { d.Gateways[0].Underlay = netip.MustParseAddr("127.0.0.1") }, `is not a unicast host address`},
		{"no MTU", func(d *Desired) { d.Gateways[0].MTU = 0 }, `MTU 0 is out of range`},
		{"another encapsulation", func(d *Desired) { d.Gateways[0].Encapsulation = "gre" }, `encapsulation "gre" is unknown`},
		{"Geneve from the kernel and from this process", func(d *Desired) {
			other := d.Gateways[0]
			other.Name, other.VNI, other.Encapsulation = "b-1", other.VNI+1, Userspace
			d.Gateways = append(d.Gateways, other)
		}, `gateways "b-0" and "b-1" need the same UDP port`},
		{"a gateway without address", func(d *Desired) { d.Gateways[0].Addresses = nil }, `: no internal address`},
		{"two addresses of a family", func(d *Desired) { d.Addresses = addrs("10.80.0.11", "10.80.0.12") }, `at most one IPv4 and one IPv6 address`},
		{"no address", func(d *Desired) { d.Addresses = nil }, `the node has no internal address`},
	} {
		d := desiredB()
		c.change(&d)
		if err := d.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Validate() = %v, want %s", c.name, err, c.want)
		}
	}
}

func route(to string) func(*Desired) {
	return func(d *Desired) { d.Routes[0].Prefix = netip.MustParsePrefix(to) }
}

func TestChooseTakesGeneveFirstAndUserspaceLast(t *testing.T) {
	t.Parallel()
	both, geneve, vxlan := Support{Geneve: true, VXLAN: true, Userspace: true}, Support{Geneve: true}, Support{VXLAN: true, Userspace: true}
	userspace, none := Support{Userspace: true}, Support{Lacks: "no TAP device (open /dev/net/tun: no such file)"}
	for _, c := range []struct {
		has    Support
		wanted Encapsulation
		want   Encapsulation
		fails  string
	}{
		{both, "", Geneve, ""},
		{both, VXLAN, VXLAN, ""},
		{both, Geneve, Geneve, ""},
		{vxlan, "", VXLAN, ""},
		{vxlan, Geneve, "", "the kernel has no Geneve"},
		{geneve, VXLAN, "", "the kernel has no VXLAN"},
		{userspace, "", Userspace, ""},
		{userspace, Geneve, "", "the kernel has no Geneve"},
		{userspace, VXLAN, "", "the kernel has no VXLAN"},
		{none, "", "", "neither Geneve nor VXLAN, and Geneve in user space is not available: no TAP device (open /dev/net/tun: no such file)"},
	} {
		got, err := c.has.Choose(c.wanted)
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%+v.Choose(%q) = %q, %v; want %q, %q", c.has, c.wanted, got, err, c.want, c.fails)
		}
	}
}

func TestSourcesKeepEachRangeOnce(t *testing.T) {
	t.Parallel()
	d := Desired{Pods: prefixes("10.0.1.0/24", "10.0.0.0/16", "10.1.0.5/32", "10.0.0.0/16", "fd00:10::/48")}
	got := d.sources()
	if want := prefixes("10.0.0.0/16", "10.1.0.5/32", "fd00:10::/48"); len(got.Pods) != len(want) || got.Pods[0] != want[0] || got.Pods[1] != want[1] || got.Pods[2] != want[2] {
		t.Errorf("pods %v, want %v", got.Pods, want)
	}
}
