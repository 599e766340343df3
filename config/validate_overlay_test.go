package config

import "testing"

func TestProblemsOfListenersAndNodesAreNamed(t *testing.T) {
	t.Parallel()
	testMalformed(t, []malformed{
		{
			"a node without a name", `  - name: node-1
    underlay`, "  - underlay",
			"line 11: overlay.nodes[0].name: missing; give it a name of its own",
		},
		{
			"a node name with a space", "name: node-1", "name: node 1",
			`line 11: overlay.nodes[0].name: "node 1" is not a name; use up to 253 letters, digits, '-', '_' and '.'`,
		},
		{
			"a node name twice", "name: node-2", "name: node-1",
			`line 18: overlay.nodes[1].name: "node-1" is already the name of overlay.nodes[0]; give it a name of its own`,
		},
		{
			"a node without an underlay address", "    underlay: 192.0.2.21", "    #",
			"line 11: overlay.nodes[0].underlay: missing; give the address that the node's frames come from",
		},
		{
			"a multicast underlay address", "192.0.2.21", "224.0.0.1",
			"line 12: overlay.nodes[0].underlay: 224.0.0.1 is not the address of a host; give the address that the node's frames come from",
		},
		{
			"an underlay address in IPv6 form", "192.0.2.21", `"::ffff:192.0.2.21"`,
			"line 12: overlay.nodes[0].underlay: ::ffff:192.0.2.21 is an IPv4 address in IPv6 form; write 192.0.2.21",
		},
		{
			"an underlay address with a zone", "192.0.2.22", `"fe80::1%eth0"`,
			"line 19: overlay.nodes[1].underlay: fe80::1%eth0 has a zone; give the address that the node's frames come from, without a zone",
		},
		{
			"an unknown encapsulation", "encapsulation: geneve", "encapsulation: gre",
			`line 13: overlay.nodes[0].encapsulation: "gre" is not an encapsulation; use geneve or vxlan`,
		},
		{
			"VXLAN without a listener", `  vxlanListen: ":6092"`, "  #",
			"line 20: overlay.nodes[1].encapsulation: the node speaks vxlan, but overlay.vxlanListen is empty; set overlay.vxlanListen",
		},
		{
			"Geneve without a listener", `listen: "192.0.2.10:6091"`, `listen: ""`,
			"line 13: overlay.nodes[0].encapsulation: the node speaks geneve, but overlay.listen is empty; set overlay.listen",
		},
		{
			"an underlay address that the listener cannot reach", "192.0.2.21", `"2001:db8::21"`,
			"line 12: overlay.nodes[0].underlay: 2001:db8::21 is of another address family than overlay.listen, 192.0.2.10:6091; listen on an address of the node's family, or on all of them",
		},
		{
			"a listener in IPv6 form", `"192.0.2.10:6091"`, `"[::ffff:192.0.2.10]:6091"`,
			"line 5: overlay.listen: ::ffff:192.0.2.10 is an IPv4 address in IPv6 form; write 192.0.2.10",
		},
		{
			"a multicast listener", `"[::1]:8080"`, `"[ff02::1]:8080"`,
			"line 49: observability.listen: ff02::1 is not the address of a host; use an address of the gateway, or none for all",
		},
		{
			"two listeners on one port", `":6092"`, `":6091"`,
			"line 6: overlay.vxlanListen: is taken by overlay.listen; choose another port",
		},
		{
			"WireGuard on the port of the overlay", "listenPort: 51841", "listenPort: 6092",
			"line 26: wireguard.listenPort: 6092 is taken by the overlay; choose another port",
		},
		{
			"VNI zero", "vni: 101", "vni: 0",
			"line 14: overlay.nodes[0].vni: 0 is not a VNI; use 1 to 16777215",
		},
		{
			"a VNI of 25 bits", "vni: 101", "vni: 16777216",
			"line 14: overlay.nodes[0].vni: 16777216 is not a VNI; use 1 to 16777215",
		},
		{
			"one VNI for two nodes of one address", `    underlay: 192.0.2.22
    encapsulation: vxlan
    vni: 102`, `    underlay: 192.0.2.21
    encapsulation: geneve
    vni: 101`,
			"line 21: overlay.nodes[1].vni: frames with VNI 101 from 192.0.2.21 already belong to overlay.nodes[0]; give each node of one underlay address a VNI of its own",
		},
	})
}
