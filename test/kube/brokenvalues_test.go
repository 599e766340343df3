//go:build apiserver

package kube

// Messages of the API server that concern several fields.
const (
	notAPrefix         = `is not a prefix: write one like 10.0.0.0/16 or fd00:10::/48`
	tooWide            = `is too wide: use /8 or longer for IPv4, /16 or longer for IPv6`
	notOrdinary        = `contains unspecified, loopback, link-local, multicast or reserved addresses: choose ordinary unicast addresses`
	notAnAddress       = `is not an address: write one like 10.80.0.11 or fd00:80::11`
	notOrdinaryAddress = `is an unspecified, loopback, link-local, multicast or reserved address: choose an ordinary unicast address`
	twoOfAFamily       = `two addresses of one IP family: set at most one IPv4 and one IPv6 address`
	notAClusterID      = `is not a cluster ID: use up to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit`
	notAPeeringName    = `the name of a peering is part of other names: use up to 40 lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit`
	notAKey            = "is not 32 bytes in base64: set the gateway's public key as `wg pubkey` prints it"
	notHostPort        = `is not host:port: write it like gw-b.example:51840 or [2001:db8::1]:51840, or leave it out if the peer initiates the connection`
	notElsewhere       = `is not a reachable unicast address: write it like gw-b.example:51840 or [2001:db8::1]:51840, or leave it out if the peer initiates the connection`
	notAKeepalive      = `is not a keepalive interval: use whole seconds from 0s (off) to 65535s`
	notAReplicaNumber  = `is out of range: use 1 to 16; to have no gateways, delete the peering`
	notAPort           = `is not a port number: use 1 to 65535`
	newID              = `the cluster ID is immutable because other clusters know this cluster by it: keep it, or remove all peerings, delete this object and create it again`
	unchecked          = `, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]`
)

var brokenRanges = []broken{
	{"range: text", "peerings", with("spec.prefixes.0.cidr", "all"),
		`spec.prefixes[0].cidr: Invalid value: "all": ` + notAPrefix},
	{"range: an address", "peerings", with("spec.localPrefixes.0", "10.0.0.7"),
		`spec.localPrefixes[0]: Invalid value: "10.0.0.7": ` + notAPrefix},
	{"range: all that may be announced", "peerings", with("spec.acceptPrefixes.0", "0.0.0.0/0"),
		`[spec.acceptPrefixes[0]: Invalid value: "0.0.0.0/0": is too wide: use /8 or longer, spec.acceptPrefixes[0]: Invalid value: "0.0.0.0/0": ` + notOrdinary + `]`},
	{"range: more IPv6 than may be announced", "peerings", with("spec.acceptPrefixes.0", "fc00::/7"),
		`spec.acceptPrefixes[0]: Invalid value: "fc00::/7": is too wide: use /8 or longer`},
	{"range: IPv4 in IPv6 form", "peerings", with("spec.localPrefixes.0", "::ffff:10.0.0.0/112"),
		`spec.localPrefixes[0]: Invalid value: "::ffff:10.0.0.0/112": ` + notAPrefix},
	{"range: host bits", "peerings", with("spec.prefixes.0.seenAs", "10.71.0.1/16"),
		`spec.prefixes[0].seenAs: Invalid value: "10.71.0.1/16": is not in canonical form: write 10.71.0.0/16`},
	{"range: IPv6 in long form", "peerings", with("spec.prefixes.1.cidr", "fd00:0010::/56"),
		`spec.prefixes[1].cidr: Invalid value: "fd00:0010::/56": is not in canonical form: write fd00:10::/56`},
	{"range: everything", "peerings", with("spec.localPrefixes.0", "0.0.0.0/0"),
		`[spec.localPrefixes[0]: Invalid value: "0.0.0.0/0": ` + tooWide + `, spec.localPrefixes[0]: Invalid value: "0.0.0.0/0": ` + notOrdinary + `]`},
	{"range: half of IPv4", "clusternetworks", with("spec.podCIDRs.0", "128.0.0.0/1"),
		`[spec.podCIDRs[0]: Invalid value: "128.0.0.0/1": ` + tooWide + `, spec.podCIDRs[0]: Invalid value: "128.0.0.0/1": ` + notOrdinary + `]`},
	{"range: too wide for IPv4", "clusternetworks", with("spec.remapPools.0", "10.0.0.0/7"),
		`spec.remapPools[0]: Invalid value: "10.0.0.0/7": ` + tooWide},
	{"range: too wide for IPv6", "clusternetworks", with("spec.remapPools.0", "fd00::/15"),
		`spec.remapPools[0]: Invalid value: "fd00::/15": ` + tooWide},
	{"range: this network", "peerings", with("spec.externalPrefixes.0", map[string]any{"cidr": "0.0.0.0/8"}),
		`spec.externalPrefixes[0].cidr: Invalid value: "0.0.0.0/8": ` + notOrdinary},
	{"range: loopback", "clusternetworks", with("spec.serviceCIDRs.0", "127.0.1.0/24"),
		`spec.serviceCIDRs[0]: Invalid value: "127.0.1.0/24": ` + notOrdinary},
	{"range: holds link-local", "clusternetworks", with("spec.nodeCIDRs.0", "169.0.0.0/8"),
		`spec.nodeCIDRs[0]: Invalid value: "169.0.0.0/8": ` + notOrdinary},
	{"range: metadata service", "peerings", with("spec.localPrefixes.0", "169.254.169.254/32"),
		`spec.localPrefixes[0]: Invalid value: "169.254.169.254/32": ` + notOrdinary},
	{"range: multicast", "clusternetworks", with("spec.internalCIDRs.0", "239.1.0.0/16"),
		`spec.internalCIDRs[0]: Invalid value: "239.1.0.0/16": ` + notOrdinary},
	{"range: reserved", "clusternetworks", with("spec.reservedCIDRs.0", "240.0.0.0/8"),
		`spec.reservedCIDRs[0]: Invalid value: "240.0.0.0/8": ` + notOrdinary},
	{"range: IPv6 loopback", "nodeattachments", with("spec.podCIDRs.0", "::1/128"),
		`spec.podCIDRs[0]: Invalid value: "::1/128": ` + notOrdinary},
	{"range: holds IPv6 unspecified", "clusternetworks", with("spec.externalCIDRs.0", "::/16"),
		`spec.externalCIDRs[0]: Invalid value: "::/16": ` + notOrdinary},
	{"range: IPv6 link-local", "clusternetworks", with("spec.externalCIDRs.0", "fe80::/64"),
		`spec.externalCIDRs[0]: Invalid value: "fe80::/64": ` + notOrdinary},
	{"range: IPv6 multicast", "clusternetworks", with("spec.externalCIDRs.0", "ff02::/16"),
		`spec.externalCIDRs[0]: Invalid value: "ff02::/16": ` + notOrdinary},
	{"range: twice", "clusternetworks", with("spec.podCIDRs.1", "10.0.0.0/16"),
		`spec.podCIDRs[1]: Duplicate value: "10.0.0.0/16"`},
	{"range: too long to be one", "clusternetworks", with("spec.podCIDRs.0", "1000:1000:1000:1000:1000:1000:1000:1000:1000/128"),
		`[spec.podCIDRs[0]: Too long: may not be more than 43 bytes` + unchecked},
}

var brokenAddresses = []broken{
	{"address: text", "addressmappings", with("spec.target", "database.example"),
		`spec.target: Invalid value: "database.example": ` + notAnAddress},
	{"address: a range", "nodeattachments", with("spec.underlayAddresses.0", "192.0.2.0/24"),
		`spec.underlayAddresses[0]: Invalid value: "192.0.2.0/24": ` + notAnAddress},
	{"address: a zone", "nodeattachments", with("spec.underlayAddresses.0", "fe80::1%eth0"),
		`spec.underlayAddresses[0]: Invalid value: "fe80::1%eth0": ` + notAnAddress},
	{"address: IPv6 in long form", "nodeattachments", with("spec.internalAddresses.1", "fd00:80:0::11"),
		`spec.internalAddresses[1]: Invalid value: "fd00:80:0::11": is not in canonical form: write fd00:80::11`},
	{"address: unspecified", "nodeattachments", with("spec.externalAddresses.0", "0.0.0.0"),
		`spec.externalAddresses[0]: Invalid value: "0.0.0.0": ` + notOrdinaryAddress},
	{"address: loopback", "addressmappings", with("spec.target", "127.0.0.1"),
		`spec.target: Invalid value: "127.0.0.1": ` + notOrdinaryAddress},
	{"address: metadata service", "addressmappings", with("spec.target", "169.254.169.254"),
		`spec.target: Invalid value: "169.254.169.254": ` + notOrdinaryAddress},
	{"address: multicast", "addressmappings", with("spec.external", "ff02::1"),
		`spec.external: Invalid value: "ff02::1": ` + notOrdinaryAddress},
	{"address: broadcast", "addressmappings", with("spec.target", "255.255.255.255"),
		`spec.target: Invalid value: "255.255.255.255": ` + notOrdinaryAddress},
	{"address: itself", "addressmappings", with("spec.target", "10.70.1.9"),
		`spec.target: Invalid value: is the external address itself: set the address of the host that the external address is mapped to`},
	{"two of a family, internal", "nodeattachments", with("spec.internalAddresses.1", "10.80.0.12"),
		`spec.internalAddresses: Invalid value: ` + twoOfAFamily},
	{"two of a family, external", "nodeattachments", with("spec.externalAddresses", []any{"10.70.0.11", "10.70.0.12"}),
		`spec.externalAddresses: Invalid value: ` + twoOfAFamily},
	{"no internal address", "nodeattachments", with("spec.internalAddresses", []any{}),
		`spec.internalAddresses: Invalid value: 0: spec.internalAddresses in body should have at least 1 items`},
}
