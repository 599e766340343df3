package main

var ipRows = section{
	title: "The IP layer",
	about: "A gateway is a router, and each of its packets comes from somebody it does not trust.",
	rows: []row{
		{id: "I1", clause: "version, header length, total length and header checksum are right, or the packet is dropped silently", source: "RFC 1812 section 5.2.2, RFC 8200 section 3"},
		{id: "I2", clause: "TTL and hop limit go down by one; what has none left is dropped and its sender told", source: "RFC 1812 section 5.3.1, RFC 8200 section 3"},
		{id: "I3", clause: "no ICMP error about an error, a later fragment, a packet to more than one host, or from what is no host", source: "RFC 1812 section 4.3.2.7, RFC 4443 section 2.4 (e)"},
		{id: "I4", clause: "ICMP errors have a rate, in all and for each source", source: "RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 (f)"},
		{id: "I5", clause: "an error quotes as much as it may of the packet as its sender sent it", source: "RFC 1812 section 4.3.2.3, RFC 4443 section 2.4 (c)"},
		{id: "I6", clause: "too big and not to be fragmented: refused with the MTU that fits, never below 68 or 1280; else fragmented", source: "RFC 1191 section 4, RFC 8201 section 4, RFC 4443 section 3.2"},
		{id: "I7", clause: "addresses that never cross a router are dropped on both sides, as source and as destination; so is who pretends to be the gateway", source: "RFC 1812 section 5.3.7, RFC 6890"},
		{id: "I8", clause: "source routes are dropped; router alert and other options pass unread", source: "RFC 7126 section 4"},
		{id: "I9", clause: "extension headers are walked within bounds; type 0 routing headers, overlapping fragments and odd atomic fragments do no harm", source: "RFC 8200 section 4, RFC 5095, RFC 5722, RFC 6946"},
		{id: "I10", column: "prefix maps", clause: "the IPv4 identification stays: a source keeps an address of its own, so IDs stay unique", source: "RFC 6864 section 4"},
		{id: "I10", column: "masquerade", clause: "fragmentable packets of many sources under one address get identifications of their own", source: "RFC 6864 section 4"},
		{id: "I11", clause: "a source lies behind the node that sent it, or in what the remote was given; a destination in the grant", source: "RFC 2827, RFC 3704 section 2.2"},
	},
}

var pathRows = section{
	title: "Path MTU and segment sizes",
	about: "TCP has to work where every ICMP message is lost, and nobody may shrink the packets of others.",
	rows: []row{
		{id: "RFC1191", clause: "an MTU asked for by an error has a floor: 552 bytes for what the gateway cuts, 68 for what it announces", source: "RFC 1191 sections 3 and 4, RFC 791 section 3.2"},
		{id: "RFC8201", clause: "for IPv6 the floor is 1280 bytes", source: "RFC 8201 section 4"},
		{id: "RFC1191Age", clause: "what was learned of a path is forgotten in time", source: "RFC 1191 section 6.3, RFC 8201 section 4",
			waived: "the gateway keeps no path MTU: the size at which it cuts a sender's super-packets is a cache of a few flows that each SYN sets anew"},
		{id: "RFC5927", clause: "only an error about a packet that can have crossed is believed", source: "RFC 5927"},
		{id: "RFC4821", clause: "the inner MTU is probed for inside the tunnel, and a path that drops it is found without any ICMP", source: "RFC 4821"},
		{id: "RFC8899", clause: "a probe of the path has the size of the MTU, is no lossy link's fault when it is lost, and is repeated", source: "RFC 8899"},
		{id: "RFC6691", clause: "SYN and SYN-ACK are clamped both ways, only downwards, never given the option; TCP options are not deducted; the walk over options is bounded", source: "RFC 6691 section 2"},
		{id: "Overhead", clause: "WireGuard takes 60 bytes over IPv4 and 80 over IPv6, padding inside the MTU; Geneve and VXLAN 50 and 70", source: "RFC 8926 section 3.4, RFC 7348 section 5"},
	},
}
