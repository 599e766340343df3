package main

import (
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/operate/trace"
)

func TestPacketsAreParsed(t *testing.T) {
	to := netip.MustParseAddr("10.71.2.9")
	tcp, echo := trace.Question{To: to, Port: 80, Protocol: "tcp"}, trace.Question{To: to, Protocol: "icmp"}
	udp6 := trace.Question{To: netip.MustParseAddr("fd00:71::9"), Port: 53, Protocol: "udp"}
	for _, c := range []struct {
		flags traceFlags
		args  []string
		want  trace.Question
	}{
		{args: []string{"default/web -> 10.71.2.9:80"}, want: tcp},
		{args: []string{"default/web->10.71.2.9:80"}, want: tcp},
		{args: []string{"default/web", "->", "10.71.2.9:80"}, want: tcp},
		{args: []string{"default/web", "10.71.2.9:80"}, want: tcp},
		{args: []string{"default/web", "::ffff:10.71.2.9"}, want: echo},
		{flags: traceFlags{to: "10.71.2.9:80"}, args: []string{"default/web"}, want: tcp},
		{flags: traceFlags{to: "10.71.2.9"}, args: []string{"default/web", "->"}, want: echo},
		{flags: traceFlags{protocol: "udp"}, args: []string{"default/web", "[fd00:71::9]:53"}, want: udp6},
	} {
		from, q, err := c.flags.read(c.args)
		if err != nil || from != "default/web" || q != c.want {
			t.Errorf("%q: %s %+v %v, want %+v", c.args, from, q, err, c.want)
		}
	}
}

func TestNamesOfServicesAreDestinations(t *testing.T) {
	cart := trace.ServiceName{Namespace: "shop", Name: "cart"}
	for _, c := range []struct {
		flags traceFlags
		to    string
		want  trace.Question
	}{
		{to: "cart.shop.svc.clusterset.local:80", want: trace.Question{Port: 80}},
		{flags: traceFlags{protocol: "udp"}, to: "cart.shop.svc.clusterset.local:53", want: trace.Question{Port: 53, Protocol: "udp"}},
		{to: "cart.shop.svc.clusterset.local", want: trace.Question{Protocol: "icmp"}},
	} {
		_, q, err := c.flags.read([]string{"default/web", "->", c.to})
		if err != nil || q != c.want || c.flags.service != cart {
			t.Errorf("%s: %+v to %+v, %v, want %+v", c.to, q, c.flags.service, err, c.want)
		}
	}
}

func TestAWrongPacketIsAUsageErrorWithARemedy(t *testing.T) {
	for want, args := range map[string]string{
		"the pod is missing":                        "",
		"the destination is missing":                "default/web",
		"\"b\" is one argument too many":            "default/web 10.71.2.9 b",
		"the -> is not quoted":                      "default/web -",
		"write one like 10.71.2.9:80":               "default/web web.b:80",
		"write a port for tcp and udp":              "default/web 10.71.2.9 --protocol tcp",
		"and none for icmp":                         "default/web 10.71.2.9:80 --protocol icmp",
		"choose tcp, udp or icmp":                   "default/web 10.71.2.9:80 --protocol sctp",
		"write the pod like default/web":            "web 10.71.2.9:80",
		"give 44 (no payload) to 65535 bytes":       "default/web 10.71.2.9:80 --size 20",
		"give two of IPv4 or two of IPv6":           "default/web 10.71.2.9:80 --from-address fd00::1",
		"write one like 10.0.1.5":                   "default/web 10.71.2.9:80 --from-address x",
		"--from-tunnel needs --socket":              "default/web 10.71.2.9:80 --from-tunnel",
		"with --socket, write the source":           "default/web 10.71.2.9:80 --socket /run/x",
		"-o xml: no such output format":             "default/web 10.71.2.9:80 -o xml",
		"is not a port; write one like cart.shop":   "default/web cart.shop.svc.clusterset.local:http",
		"--socket takes an address as destination":  "10.0.1.5 cart.shop.svc.clusterset.local:80 --socket /run/x",
		"10.71.2.9:0\" is not an IP address with a": "default/web 10.71.2.9:0",
	} {
		_, stderr, code := output("", append([]string{"trace"}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("strait trace %s: %d, %s, want %q", args, code, stderr, want)
		}
	}
}

func TestTheRouteOfANodeTakesAddresses(t *testing.T) {
	for want, args := range map[string]string{
		"the address is missing":        "",
		"is not an IP address: write":   "web",
		"of the IP family of 10.71.2.9": "10.71.2.9 --from fd00::1",
	} {
		_, stderr, code := output("", append([]string{"node", "route"}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("strait node route %s: %d, %s, want %q", args, code, stderr, want)
		}
	}
}
