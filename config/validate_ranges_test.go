package config

import "testing"

func TestProblemsOfAddressesAndPrefixesAreNamed(t *testing.T) {
	t.Parallel()
	testMalformed(t, []malformed{
		{
			"no internal address", `  addresses: [10.80.0.1, "fd00:80::1"]`, "  addresses: []",
			"line 7: overlay.addresses: missing; give at least one internal address",
		},
		{
			"an IPv4 address in IPv6 form", "addresses: [10.80.0.12]", `addresses: ["::ffff:10.80.0.12"]`,
			"line 22: overlay.nodes[1].addresses[0]: ::ffff:10.80.0.12 is an IPv4 address in IPv6 form; write 10.80.0.12",
		},
		{
			"an address with a zone", "addresses: [10.80.0.12]", `addresses: ["fe80::1%eth0"]`,
			`line 22: overlay.nodes[1].addresses[0]: fe80::1%eth0 has a zone; write the address alone
line 23: overlay.nodes[1].externalAddresses[0]: 10.70.0.12 has no internal address to stand for; remove it, or give the node another internal address of that family`,
		},
		{
			"an empty item", "addresses: [10.80.0.12]", "addresses: [~]",
			`line 22: overlay.nodes[1].addresses[0]: missing; write an address like 10.80.0.11 or fd00:80::11
line 23: overlay.nodes[1].externalAddresses[0]: 10.70.0.12 has no internal address to stand for; remove it, or give the node another internal address of that family`,
		},
		{
			"a loopback address", "addresses: [10.80.0.12]", "addresses: [127.0.0.1]",
			"line 22: overlay.nodes[1].addresses[0]: 127.0.0.1 is loopback; choose ordinary unicast addresses",
		},
		{
			"a link-local address", "addresses: [10.80.0.12]", `addresses: ["fe80::1"]`,
			`line 22: overlay.nodes[1].addresses[0]: fe80::1 is link-local; choose ordinary unicast addresses
line 23: overlay.nodes[1].externalAddresses[0]: 10.70.0.12 has no internal address to stand for; remove it, or give the node another internal address of that family`,
		},
		{
			"an internal address twice", "addresses: [10.80.0.12]", "addresses: [10.80.0.11]",
			"line 22: overlay.nodes[1].addresses[0]: 10.80.0.11 is already in overlay.nodes[0].addresses[0]; give each an address of its own",
		},
		{
			"the gateway's address at a node", "addresses: [10.80.0.12]", "addresses: [10.80.0.1]",
			"line 22: overlay.nodes[1].addresses[0]: 10.80.0.1 is already in overlay.addresses[0]; give each an address of its own",
		},
		{
			"an internal address as an external one", "externalAddresses: [10.70.0.12]", "externalAddresses: [10.80.0.12]",
			"line 23: overlay.nodes[1].externalAddresses[0]: 10.80.0.12 is already in overlay.nodes[1].addresses[0]; give each an address of its own",
		},
		{
			"an internal address among the pods", "addresses: [10.80.0.12]", "addresses: [10.0.1.1]",
			"line 22: overlay.nodes[1].addresses[0]: 10.0.1.1 lies in 10.0.1.0/24 of overlay.nodes[0].prefixes[0]; choose one outside of all pod prefixes",
		},
		{
			"an external address outside of the external prefixes", "externalAddresses: [10.70.0.12]", "externalAddresses: [10.75.0.12]",
			"line 23: overlay.nodes[1].externalAddresses[0]: 10.75.0.12 is in none of local.externalPrefixes; choose one from local.externalPrefixes, or add its prefix there",
		},
		{
			"an external address without an internal one", "externalAddresses: [10.70.0.12]", "externalAddresses: [10.70.0.12, 10.70.0.13]",
			"line 23: overlay.nodes[1].externalAddresses[1]: 10.70.0.13 has no internal address to stand for; remove it, or give the node another internal address of that family",
		},
		{
			"external prefixes too narrow", "  externalPrefixes: [10.70.0.0/16]", "  externalPrefixes: [10.70.0.0/32]",
			`line 8: overlay.externalAddresses[0]: 10.70.0.1 is in none of local.externalPrefixes; choose one from local.externalPrefixes, or add its prefix there
line 16: overlay.nodes[0].externalAddresses[0]: 10.70.0.11 is in none of local.externalPrefixes; choose one from local.externalPrefixes, or add its prefix there
line 23: overlay.nodes[1].externalAddresses[0]: 10.70.0.12 is in none of local.externalPrefixes; choose one from local.externalPrefixes, or add its prefix there
line 55: mappings[0].external: 10.70.1.9 is in none of local.externalPrefixes; choose one from local.externalPrefixes, or add its prefix there`,
		},
		{
			"an external address of a family without an internal one", "externalAddresses: [10.70.0.12]", `externalAddresses: ["fd00:70::12"]`,
			`line 23: overlay.nodes[1].externalAddresses[0]: fd00:70::12 is in none of local.externalPrefixes; choose one from local.externalPrefixes, or add its prefix there
line 23: overlay.nodes[1].externalAddresses[0]: fd00:70::12 has no internal address to stand for; remove it, or give the node another internal address of that family`,
		},
		{
			"a prefix of two nodes", "prefixes: [10.0.2.0/24]", "prefixes: [10.0.1.0/24]",
			"line 24: overlay.nodes[1].prefixes[0]: 10.0.1.0/24 is already in overlay.nodes[0].prefixes[0]; keep it at the node where these pods run",
		},
		{
			"an address of two nodes", "prefixes: [10.0.2.0/24]", "prefixes: [10.0.9.7/32]",
			"line 24: overlay.nodes[1].prefixes[0]: 10.0.9.7/32 is already in overlay.nodes[0].prefixes[1]; keep it at the node where these pods run",
		},
		{
			"host bits", "prefixes: [10.0.2.0/24]", "prefixes: [10.0.2.9/24]",
			"line 24: overlay.nodes[1].prefixes[0]: 10.0.2.9/24 has host bits set; write 10.0.2.0/24",
		},
		{
			"IPv6 host bits", `"fd00:10::/48"]`, `"fd00:10::1/48"]`,
			"line 39: local.prefixes[1]: fd00:10::1/48 has host bits set; write fd00:10::/48",
		},
		{
			"an IPv4 prefix in IPv6 form", "prefixes: [10.0.2.0/24]", `prefixes: ["::ffff:10.0.2.9"]`,
			"line 24: overlay.nodes[1].prefixes[0]: ::ffff:10.0.2.9/128 is an IPv4 prefix in IPv6 form; write the IPv4 prefix",
		},
		{
			"a prefix too wide", `prefixes: [10.0.0.0/16, "fd00:10::/48"]`, `prefixes: [0.0.0.0/0, "fd00::/8"]`,
			`line 39: local.prefixes[0]: 0.0.0.0/0 is too wide; use /8 or longer
line 39: local.prefixes[1]: fd00::/8 is too wide; use /16 or longer`,
		},
		{
			"special prefixes", `prefixes: [10.0.0.0/16, "fd00:10::/48"]`, `prefixes: [127.0.0.0/8, 169.254.1.0/24, 224.0.0.0/8, 255.255.255.255/32, 0.0.0.0/8, "::1/128", "fe80::/64", "ff0e::/16"]`,
			`line 39: local.prefixes[0]: 127.0.0.0/8 is loopback; choose ordinary unicast addresses
line 39: local.prefixes[1]: 169.254.1.0/24 is link-local; choose ordinary unicast addresses
line 39: local.prefixes[2]: 224.0.0.0/8 is multicast; choose ordinary unicast addresses
line 39: local.prefixes[3]: 255.255.255.255/32 is reserved; choose ordinary unicast addresses
line 39: local.prefixes[4]: 0.0.0.0/8 is unspecified; choose ordinary unicast addresses
line 39: local.prefixes[5]: ::1/128 is unspecified or loopback; choose ordinary unicast addresses
line 39: local.prefixes[6]: fe80::/64 is link-local; choose ordinary unicast addresses
line 39: local.prefixes[7]: ff0e::/16 is multicast; choose ordinary unicast addresses`,
		},
		{
			"no cidr", "  - cidr: fd00:20::/48", "  - seenAs: fd00:20::/48",
			"line 46: remote.prefixes[2].cidr: missing; write a prefix like 10.0.0.0/16 or fd00:10::/48",
		},
		{
			"lengths that differ", "seenAs: 10.71.0.0/16", "seenAs: 10.71.0.0/17",
			"line 44: remote.prefixes[0].seenAs: 10.71.0.0/17 cannot stand for 10.0.0.0/16 one to one; use a range of the family and length of cidr",
		},
		{
			"families that differ", "seenAs: 10.71.0.0/16", `seenAs: "fd71::/16"`,
			"line 44: remote.prefixes[0].seenAs: fd71::/16 cannot stand for 10.0.0.0/16 one to one; use a range of the family and length of cidr",
		},
		{
			"a remote range twice", "cidr: 10.70.0.0/16", "cidr: 10.0.0.0/16",
			"line 45: remote.prefixes[1].cidr: 10.0.0.0/16 overlaps 10.0.0.0/16 of remote.prefixes[0].cidr; name each range of the remote cluster once",
		},
		{
			"a remote range around another", "- cidr: fd00:20::/48", "- {cidr: 10.0.0.0/8, seenAs: 11.0.0.0/8}",
			"line 46: remote.prefixes[2].cidr: 10.0.0.0/8 overlaps 10.0.0.0/16 of remote.prefixes[0].cidr; name each range of the remote cluster once",
		},
		{
			"a fault of cidr is not repeated for seenAs", "- cidr: fd00:20::/48", "- cidr: fd00:20::1/48",
			"line 46: remote.prefixes[2].cidr: fd00:20::1/48 has host bits set; write fd00:20::/48",
		},
		{
			"two CIDRs mapped to one", "seenAs: 10.73.0.0/16", "seenAs: 10.71.0.0/16",
			"line 45: remote.prefixes[1].seenAs: 10.71.0.0/16 overlaps 10.71.0.0/16 of remote.prefixes[0].seenAs; choose a range that is free in this cluster",
		},
		{
			"mapped to this cluster's pods", "seenAs: 10.71.0.0/16", "seenAs: 10.0.0.0/16",
			"line 44: remote.prefixes[0].seenAs: 10.0.0.0/16 overlaps 10.0.0.0/16 of local.prefixes[0]; choose a range that is free in this cluster",
		},
		{
			"mapped to part of this cluster's external addresses", "  - cidr: fd00:20::/48", "  - {cidr: 10.9.8.0/24, seenAs: 10.70.9.0/24}",
			"line 46: remote.prefixes[2].seenAs: 10.70.9.0/24 overlaps 10.70.0.0/16 of local.externalPrefixes[0]; choose a range that is free in this cluster",
		},
		{
			"mapped to a CIDR around an internal address", "seenAs: 10.71.0.0/16", "seenAs: 10.80.0.0/16",
			"line 44: remote.prefixes[0].seenAs: 10.80.0.0/16 overlaps 10.80.0.1/32 of overlay.addresses[0]; choose a range that is free in this cluster",
		},
		{
			"not remapped where the ranges collide", "{cidr: 10.0.0.0/16, seenAs: 10.71.0.0/16}", "{cidr: 10.0.0.0/16}",
			"line 44: remote.prefixes[0].seenAs: 10.0.0.0/16 overlaps 10.0.0.0/16 of local.prefixes[0]; choose a range that is free in this cluster",
		},
	})
}
