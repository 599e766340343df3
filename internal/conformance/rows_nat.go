package main

import "slices"

var udpNATRows = section{
	title: "Address translation: UDP",
	about: "RFC 4787. Prefix maps are stateless, one to one; masquerade is for sources that have no address in the other cluster. Rows without a column concern ports and state, which prefix maps do not have.",
	rows: slices.Concat([]row{
		{id: "RFC4787REQ1", clause: "an inside endpoint has one outside endpoint for all destinations", source: "RFC 4787 REQ-1"},
		{id: "RFC4787REQ2", clause: "one inside address has one outside address", source: "RFC 4787 REQ-2"},
		{id: "RFC4787REQ3", clause: "two flows never share an outside port", source: "RFC 4787 REQ-3"},
		{id: "RFC4787REQ5", clause: "a mapping lives for five minutes, never for less than two", source: "RFC 4787 REQ-5"},
		{id: "RFC4787REQ6", clause: "packets from inside keep a mapping alive", source: "RFC 4787 REQ-6"},
		{id: "RFC4787REQ8", clause: "filtering depends on the remote address", source: "RFC 4787 REQ-8"},
	},
		both(row{id: "RFC4787REQ9", clause: "two inside hosts reach each other by their outside addresses, and see those as sources", source: "RFC 4787 REQ-9"}),
		both(row{id: "RFC4787REQ11", clause: "translation is deterministic: it does not depend on earlier traffic", source: "RFC 4787 REQ-11"}),
		both(row{id: "RFC4787REQ12", clause: "no ICMP message removes a mapping", source: "RFC 4787 REQ-12"}),
		both(row{id: "RFC4787REQ13", clause: "a packet with DF that is too big is answered with the MTU", source: "RFC 4787 REQ-13"}),
		both(row{id: "RFC4787REQ14", clause: "fragments pass in any order", source: "RFC 4787 REQ-14"}),
	),
}

var tcpNATRows = section{
	title: "Address translation: TCP",
	about: "RFC 5382.",
	rows: slices.Concat([]row{
		{id: "RFC5382REQ1", clause: "an inside endpoint has one outside endpoint for all destinations", source: "RFC 5382 REQ-1"},
	},
		both(row{id: "RFC5382REQ2", clause: "every valid sequence that opens a connection works, including simultaneous open", source: "RFC 5382 REQ-2"}),
		[]row{
			{id: "RFC5382REQ3", clause: "filtering depends on the remote address", source: "RFC 5382 REQ-3"},
			{id: "RFC5382REQ4", clause: "an unsolicited SYN is not answered", source: "RFC 5382 REQ-4"},
			{id: "RFC5382REQ5", clause: "established connections live for 2 h 4 min without traffic, others for 4 min", source: "RFC 5382 REQ-5"},
			{id: "RFC5382REQ7", clause: "two connections never share an outside port", source: "RFC 5382 REQ-7"},
			{id: "RFC5382REQ8", clause: "two inside hosts reach each other by their outside addresses", source: "RFC 5382 REQ-8"},
		},
		both(row{id: "RFC5382REQ9", clause: "ICMP destination unreachable is translated", source: "RFC 5382 REQ-9"}),
		both(row{id: "RFC5382REQ10", clause: "no ICMP message ends a connection", source: "RFC 5382 REQ-10"}),
	),
}

var icmpNATRows = section{
	title: "Address translation: ICMP",
	about: "RFC 5508.",
	rows: slices.Concat(
		both(row{id: "RFC5508REQ1", clause: "queries and their replies pass", source: "RFC 5508 REQ-1"}),
		[]row{{id: "RFC5508REQ2", clause: "a query's mapping lives for at least 60 seconds", source: "RFC 5508 REQ-2"}},
		both(row{id: "RFC5508REQ3", clause: "an error with a wrong checksum is dropped", source: "RFC 5508 REQ-3"}),
		both(row{id: "RFC5508REQ4", clause: "an error from outside about a packet without a mapping is dropped, any other is translated outside and inside, even if its quote is truncated or a fragment", source: "RFC 5508 REQ-4"}),
		both(row{id: "RFC5508REQ5", clause: "the same for an error from inside", source: "RFC 5508 REQ-5"}),
		[]row{{id: "RFC5508REQ6", clause: "an error neither refreshes nor removes a mapping", source: "RFC 5508 REQ-6"}},
		both(row{id: "RFC5508REQ7", clause: "errors about hairpinned packets are translated", source: "RFC 5508 REQ-7"}),
		[]row{
			{id: "RFC5508REQ8", clause: "without capacity for a mapping, the packet is dropped and its sender gets ICMP 3/13", source: "RFC 5508 REQ-8"},
			{id: "RFC5508REQ10", clause: "the gateway sends the errors that a router must send", source: "RFC 5508 REQ-10"},
		},
	),
}

var carrierNATRows = section{
	title: "Address translation of many sources",
	about: "RFC 6888 and RFC 7857: no source can exhaust the ports of the others.",
	rows: []row{
		{id: "RFC6888REQ4", clause: "one source has a limited number of ports", source: "RFC 6888 REQ-4"},
		{id: "RFC6888REQ5", clause: "one source has a limited amount of state", source: "RFC 6888 REQ-5"},
		{id: "RFC6888REQ8", clause: "a port is not reused for 120 seconds", source: "RFC 6888 REQ-8"},
		{id: "RFC6888REQ11", clause: "a packet without a free port is dropped, and its sender gets an ICMP error", source: "RFC 6888 REQ-11"},
		{id: "RFC6888REQ15", clause: "ports are hard to guess", source: "RFC 6888 REQ-15"},
		{id: "RFC7857", clause: "a reset makes a connection transitory for four minutes, and only packets from inside refresh UDP", source: "RFC 7857"},
	},
}

var rewriteRows = section{
	title: "Rewriting",
	about: "What every translation does to a packet's bytes.",
	rows: []row{
		{id: "RFC1624", clause: "an updated checksum equals the result of a full computation; a UDP checksum of zero is kept, and a computed zero is sent as all ones", source: "RFC 1624 section 3, RFC 768"},
		{id: "RFC6296", clause: "prefixes have equal lengths, host bits are kept, and the reverse translation restores the address", source: "RFC 6296"},
		{id: "RFC6296Overlap", clause: "no two maps overlap", source: "RFC 6296"},
		{id: "RFC6296Loop", clause: "a packet with a source of this side is not accepted from the other side, and no packet is sent back where it came from", source: "RFC 6296, RFC 2827"},
		{id: "RFC3022", clause: "later fragments, which have no ports, wait for the first one within bounds", source: "RFC 3022 section 6.3, RFC 2663"},
	},
}
