package main

const netns = "Linux tools/testing/selftests/wireguard/netns.sh"

var scenarioRows = section{
	title: "WireGuard's own scenarios",
	about: "What the kernel's WireGuard tests itself with (" + netns + "), with a gateway at one end.",
	rows: []row{
		scenario("1", "counters and handshake stamps are exact to the byte"),
		scenario("2", "pings and streams over IPv4, also with a jumbo MTU"),
		scenario("3", "the same over IPv6"),
		scenario("4", "padding does not exceed the MTU of the route"),
		scenario("5", "an end moves to another IPv4 address and port"),
		scenario("6", "an end moves to another IPv6 address and port"),
		scenario("7", "a source that was given to another key is dropped, though its sender has moved"),
		scenario("8", "a private key changes, and the far end's too"),
		scenario("9", "a tunnel through a tunnel"),
		scenario("10", "a routing loop ends"),
		scenario("11", "a NAT with a short memory is kept awake"),
		scenario("12", "a socket bound to an interface, and marks that change the route"),
		scenario("13", "tunnels within tunnels, and one within itself"),
		scenario("14", "routes by policy, as wg-quick makes them"),
		scenario("15", "an error comes from the right router, through a NAT"),
		scenario("16", "an address of its own that goes away is not used any more"),
		scenario("17", "the answer comes from the address that was called"),
		scenario("18", "also where that is on another interface"),
		scenario("19", "a better route is taken"),
		scenario("20", "large configurations are held exactly"),
		scenario("21", "keys come, go, are clamped, and nobody is its own peer"),
		scenario("22", "overlapping prefixes are set, replaced and removed"),
		scenario("23", "no packet is ever sent to a key of low order"),
		scenario("24", "what was created is destroyed"),
	},
}

func scenario(number, clause string) row {
	return row{id: "Netns" + number, clause: clause, source: "netns.sh"}
}
