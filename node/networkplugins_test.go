//go:build lab

package node

import (
	"slices"
	"strings"
	"testing"
)

// networkPlugins are the routing rules and NAT rules of network plugins, from their
// documentation and source, for a cluster with the pod CIDR 10.0.0.0/16 (fd00:10::/48), of
// which this node has 10.0.1.0/24. The rules of iptables are written in nft's syntax, with the
// same hooks and priorities.
var networkPlugins = []struct {
	name  string
	rules string // of ip, a command on each line
	nft   string
}{
	{
		// amazon-vpc-cni-k8s, pkg/networkutils: a rule to each pod, one for replies to NodePorts,
		// one from each pod of a secondary interface; SNAT of what leaves the VPC.
		name: "AWS VPC CNI",
		rules: `
rule add pref 512 to 10.0.1.5 lookup main
rule add pref 1024 fwmark 0x80/0x80 lookup main
rule add pref 1536 from 10.0.1.5 lookup 2
route add default via 192.0.2.10 dev gw0 onlink table 2`,
		nft: `
table ip aws {
	chain AWS-CONNMARK {
		type filter hook prerouting priority mangle
		iifname "gw*" fib daddr type local ct mark set ct mark | 0x80
		iifname "pod*" meta mark set ct mark
	}
	chain AWS-SNAT-CHAIN-0 {
		type nat hook postrouting priority srcnat
		ip daddr 10.0.0.0/16 return
		oifname != "vlan*" fib daddr type != local snat to 192.0.2.21 fully-random
	}
}`,
	},
	{
		// felix: chain cali-nat-outgoing, sets cali40masq-ipam-pools and cali40all-ipam-pools.
		name: "Calico with natOutgoing",
		nft: `
table ip calico {
	chain cali-rpf {
		type filter hook prerouting priority raw
		iifname "pod*" fib saddr . iif oif missing drop
	}
	chain cali-nat-outgoing {
		type nat hook postrouting priority srcnat
		ip saddr 10.0.0.0/16 ip daddr != 10.0.0.0/16 masquerade fully-random
	}
	chain cali-tw {
		type filter hook forward priority filter
		oifname "pod*" ct state established,related accept
		oifname "pod*" ct state invalid drop
	}
}
table ip6 calico {
	chain cali-nat-outgoing {
		type nat hook postrouting priority srcnat
		ip6 saddr fd00:10::/48 ip6 daddr != fd00:10::/48 masquerade fully-random
	}
}`,
	},
	{
		// Cilium without BPF masquerade: rules for its proxy and the local table moved to 100;
		// chain CILIUM_POST_nat.
		name: "Cilium with iptables",
		rules: `
rule add pref 9 fwmark 0x200/0xf00 lookup 2004
rule add pref 100 lookup local
rule del pref 0`,
		nft: `
table ip cilium {
	chain CILIUM_POST_nat {
		type nat hook postrouting priority srcnat
		ip saddr 10.0.1.0/24 ip daddr != 10.0.0.0/16 oifname != "cilium_*" masquerade
	}
}
table ip6 cilium {
	chain CILIUM_POST_nat {
		type nat hook postrouting priority srcnat
		ip6 saddr fd00:10:0:1::/64 ip6 daddr != fd00:10::/48 oifname != "cilium_*" masquerade
	}
}`,
	},
	{
		// flannel, pkg/trafficmngr: chain FLANNEL-POSTRTG.
		name: "Flannel",
		nft: `
table ip flannel {
	chain FLANNEL-POSTRTG {
		type nat hook postrouting priority srcnat
		meta mark & 0x4000 == 0x4000 return
		ip saddr 10.0.1.0/24 ip daddr 10.0.0.0/16 return
		ip saddr 10.0.0.0/16 ip daddr 10.0.1.0/24 return
		ip saddr != 10.0.0.0/16 ip daddr 10.0.1.0/24 return
		ip saddr 10.0.0.0/16 ip daddr != 224.0.0.0/4 masquerade fully-random
		ip saddr != 10.0.0.0/16 ip daddr 10.0.0.0/16 masquerade fully-random
	}
	chain FLANNEL-FWD {
		type filter hook forward priority filter
		ip saddr 10.0.0.0/16 accept
		ip daddr 10.0.0.0/16 accept
	}
}`,
	},
	{
		// kindnet: chain KIND-MASQ-AGENT.
		name: "kindnet",
		nft: `
table ip kindnet {
	chain KIND-MASQ-AGENT {
		type nat hook postrouting priority srcnat
		fib daddr type local return
		ip daddr 10.0.0.0/16 return
		masquerade
	}
}
table ip6 kindnet {
	chain KIND-MASQ-AGENT {
		type nat hook postrouting priority srcnat
		fib daddr type local return
		ip6 daddr fd00:10::/48 return
		masquerade
	}
}`,
	},
	{
		// kube-router: a rule for pods just above main; masquerade of pods towards the rest.
		name: "kube-router",
		rules: `
rule add pref 32765 from 10.0.0.0/16 lookup 77
route add 10.0.2.0/24 via 192.0.2.10 dev gw0 onlink table 77`,
		nft: `
table ip kube-router {
	chain postrouting {
		type nat hook postrouting priority srcnat
		ip saddr 10.0.0.0/16 ip daddr != 10.0.0.0/16 ip daddr != { 192.0.2.21, 192.0.2.22 } masquerade fully-random
	}
	chain forward {
		type filter hook forward priority filter
		oifname "pod*" ct state invalid drop
	}
}`,
	},
	{
		// ip-masq-agent with its default list of CIDRs that are not masqueraded, which contains
		// addresses of other clusters, and with one of the cluster's own only.
		name: "ip-masq-agent",
		nft: `
table ip agent {
	chain IP-MASQ {
		type nat hook postrouting priority srcnat
		fib daddr type local return
		ip daddr { 169.254.0.0/16, 172.16.0.0/12, 192.168.0.0/16, 10.0.0.0/16 } return
		masquerade fully-random
	}
}`,
	},
	{
		// OVN-Kubernetes in local gateway mode: chain mgmtport-snat replaces the source of what
		// enters pods by the management port.
		name: "OVN-Kubernetes with routingViaHost",
		nft: `
table inet ovn-kubernetes {
	chain mgmtport-snat {
		type nat hook postrouting priority srcnat
		oifname pod0 ip saddr != 10.0.1.1 snat ip to 10.0.1.1
		oifname pod0 ip6 saddr != fd00:10:0:1::1 snat ip6 to fd00:10:0:1::1
	}
	chain ovn-kube-pod-subnet-masq {
		type nat hook postrouting priority srcnat
		ip saddr 10.0.1.0/24 oifname != pod0 masquerade
		ip6 saddr fd00:10:0:1::/64 oifname != pod0 masquerade
	}
}`,
	},
}

func TestAddressesAreKeptNextToTheRulesOfNetworkPlugins(t *testing.T) {
	for _, plugin := range networkPlugins {
		t.Run(plugin.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Support{})
			w.node.IP(t, plugin.rules)
			w.node.NFT(t, plugin.nft)
			w.apply(t, w.desired())
			link := target(w.desired(), State{}).Links[0].Name
			for _, way := range []struct{ family, from, to string }{{"-4", "10.0.1.5", "10.71.2.9"}, {"-6", "fd00:10:0:1::5", "fd00:71::9"}} {
				route := w.node.Run(t, "ip", way.family, "route", "get", way.to, "from", way.from, "iif", "pod0")
				if !strings.Contains(route, "dev "+link) || !strings.Contains(route, "mtu 1400") {
					t.Errorf("packets of a pod take the route %swant link %s with MTU 1400", route, link)
				}
			}
			echo(t, w.gateway, "10.71.2.9:7000")
			echo(t, w.gateway, "[fd00:71::9]:7000")
			echo(t, w.pod, "10.0.1.5:7000")
			echo(t, w.pod, "[fd00:10:0:1::5]:7000")
			for to, want := range map[string]string{"10.71.2.9:7000": "10.0.1.5", "[fd00:71::9]:7000": "fd00:10:0:1::5"} {
				if got := seenAs(t, w.pod, "", to); got != want {
					t.Errorf("packets of the pod reach another cluster from %s, want %s", got, want)
				}
			}
			for from, to := range map[string]string{"10.71.2.9": "10.0.1.5:7000", "fd00:71::9": "[fd00:10:0:1::5]:7000"} {
				if got := seenAs(t, w.gateway, from, to); got != from {
					t.Errorf("packets of another cluster reach the pod from %s, want %s", got, from)
				}
			}
		})
	}
}

// With security groups for pods in strict mode, rules of priority 10 and 20 precede Strait's:
// packets of such pods do not reach other clusters. Preflight reports it (STRAIT-C008 and
// STRAIT-N015).
func TestRulesThatPrecedeStraitsTakeThePacketsOfPods(t *testing.T) {
	w := newWorld(t, Support{})
	w.node.IP(t, `
rule add pref 20 lookup local
rule del pref 0
rule add pref 10 iif pod0 lookup 101
route add default via 192.0.2.10 dev gw0 onlink table 101`)
	w.apply(t, w.desired())
	if route := w.node.Run(t, "ip", "route", "get", "10.71.2.9", "from", "10.0.1.5", "iif", "pod0"); !strings.Contains(route, "dev gw0 table 101") {
		t.Errorf("packets of a pod take the route %s", route)
	}
	if is := inspect(t, w.kernel, w.node); !slices.Equal(is.Preceding, []string{"rule 10 iif pod0 lookup 101"}) {
		t.Errorf("preceding rules: %q", is.Preceding)
	}
}
