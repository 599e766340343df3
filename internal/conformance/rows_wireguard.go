package main

const netns = "Linux tools/testing/selftests/wireguard/netns.sh"

var scenarioRows = section{
	title: "WireGuard's own scenarios",
	about: "The tests of the kernel's WireGuard (" + netns + "), with a gateway at one end.",
	rows: []row{
		scenario("1", "counters and handshake times are exact to the byte"),
		scenario("2", "pings and streams over IPv4, including a jumbo MTU"),
		scenario("3", "the same over IPv6"),
		scenario("4", "padding does not exceed the MTU of the route"),
		scenario("5", "a peer moves to another IPv4 address and port"),
		scenario("6", "a peer moves to another IPv6 address and port"),
		scenario("7", "a source in another peer's allowed IPs is dropped after its sender has moved"),
		scenario("8", "a private key changes, as does the peer's"),
		scenario("9", "a tunnel through a tunnel"),
		scenario("10", "a routing loop ends"),
		scenario("11", "keepalives keep the mapping of a NAT with a short timeout"),
		scenario("12", "a socket bound to an interface, and marks that change the route"),
		scenario("13", "tunnels within tunnels, and one within itself"),
		scenario("14", "policy routing as configured by wg-quick"),
		scenario("15", "an error comes from the right router, through a NAT"),
		scenario("16", "a removed local address is no longer used"),
		scenario("17", "replies come from the destination address of the request"),
		scenario("18", "the same for an address on another interface"),
		scenario("19", "a better route is used"),
		scenario("20", "large configurations are applied exactly"),
		scenario("21", "keys are added, removed and clamped, and no peer has the device's own key"),
		scenario("22", "overlapping prefixes are set, replaced and removed"),
		scenario("23", "no packet is sent to a key of low order"),
		scenario("24", "everything that was created is removed"),
	},
}

func scenario(number, clause string) row {
	return row{id: "Netns" + number, clause: clause, source: "netns.sh"}
}
