//go:build lab || nightly

package kernelnat

import (
	"strings"
	"text/template"

	"strait.dev/strait/test/lab"
)

// statelessRules translate prefixes by writing the network bits, like the pipeline, without
// connection tracking. They are in postrouting, so that the kernel's own errors quote a
// packet as it was sent.
func statelessRules() string {
	var text strings.Builder
	for _, family := range []map[string]any{
		{
			"ip": "ip", "node": lab.NodeInternal[0], "nodeOut": lab.NodeExternal[0], "mss": natTunnelMTU - 40, "bits": lab.PodCIDRs[0].Bits(),
			"pods": lab.PodCIDRs[0].Addr(), "others": lab.ExternalCIDRs[0].Addr(), "seenPods": "10.71.0.0", "seenOthers": "10.73.0.0",
			"host": "0.0.255.255",
		},
		{
			"ip": "ip6", "node": lab.NodeInternal[1], "nodeOut": lab.NodeExternal[1], "mss": natTunnelMTU - 60, "bits": lab.PodCIDRs[1].Bits(),
			"pods": lab.PodCIDRs[1].Addr(), "others": lab.ExternalCIDRs[1].Addr(), "seenPods": "fd00:71::", "seenOthers": "fd00:73::",
			"host": "::ffff:ffff:ffff:ffff:ffff",
		},
	} {
		if err := statelessTemplate.Execute(&text, family); err != nil {
			panic(err) // the template is constant
		}
	}
	return text.String()
}

// host returns the host bits of an address.
var statelessTemplate = template.Must(template.New("rules").Parse(`
table {{.ip}} gateway {
	chain admit {
		type filter hook prerouting priority raw
		iifname "strait0" fib saddr . iif oif 0 drop
		# What WireGuard lets its peer send.
		iifname "wg0" {{.ip}} saddr != { {{.pods}}/{{.bits}}, {{.others}}/{{.bits}} } drop
	}
	chain clamp {
		type filter hook forward priority mangle
		tcp flags & syn == syn tcp option maxseg size set {{.mss}}
	}
	chain translate {
		type filter hook postrouting priority srcnat
		oifname "wg0" {{.ip}} saddr {{.node}} {{.ip}} saddr set {{.nodeOut}}
		oifname "wg0" {{.ip}} daddr {{.seenPods}}/{{.bits}} {{.ip}} daddr set {{.ip}} daddr & {{.host}} | {{.pods}}
		oifname "wg0" {{.ip}} daddr {{.seenOthers}}/{{.bits}} {{.ip}} daddr set {{.ip}} daddr & {{.host}} | {{.others}}
		oifname "strait0" {{.ip}} saddr {{.pods}}/{{.bits}} {{.ip}} saddr set {{.ip}} saddr & {{.host}} | {{.seenPods}}
		oifname "strait0" {{.ip}} saddr {{.others}}/{{.bits}} {{.ip}} saddr set {{.ip}} saddr & {{.host}} | {{.seenOthers}}
		oifname "strait0" {{.ip}} daddr {{.nodeOut}} {{.ip}} daddr set {{.node}}
		# Packets that could not be translated, because their checksum is missing, are dropped.
		oifname "wg0" {{.ip}} daddr { {{.seenPods}}/{{.bits}}, {{.seenOthers}}/{{.bits}} } drop
		oifname "strait0" {{.ip}} saddr { {{.pods}}/{{.bits}}, {{.others}}/{{.bits}} } drop
	}
}
`))

// statelessRoutes route the other cluster's addresses into the tunnel, and set its MTU.
const statelessRoutes = `
route add 10.71.0.0/16 via 203.0.113.9 dev wg0 onlink mtu lock 1390 src 10.70.0.1
route add 10.73.0.0/16 via 203.0.113.9 dev wg0 onlink mtu lock 1390 src 10.70.0.1
route add 10.0.0.0/16 via 203.0.113.9 dev wg0 onlink src 10.70.0.1
route add 10.70.0.0/16 via 203.0.113.9 dev wg0 onlink src 10.70.0.1
route add 10.70.0.11 via 10.80.0.11 dev strait0 src 10.80.0.1
route add fd00:71::/48 via fe80::9 dev wg0 onlink mtu lock 1390 src fd00:70::1
route add fd00:73::/48 via fe80::9 dev wg0 onlink mtu lock 1390 src fd00:70::1
route add fd00:10::/48 via fe80::9 dev wg0 onlink src fd00:70::1
route add fd00:70::/48 via fe80::9 dev wg0 onlink src fd00:70::1
route add fd00:70::11 via fd00:80::11 dev strait0 src fd00:80::1
`

// trackedRoutes are for a kernel that translates before it routes: packets from the node
// leave by the tunnel, even if their destination is then an address of this cluster, too.
const trackedRoutes = `
rule add iif strait0 lookup 100
route add default via 203.0.113.9 dev wg0 onlink table 100
route add ::/0 via fe80::9 dev wg0 onlink table 100
route add 10.0.0.0/16 via 203.0.113.9 dev wg0 onlink
route add fd00:10::/48 via fe80::9 dev wg0 onlink
`
