package main

var ipRows = section{
	title: "The IP layer",
	about: "A gateway is a router that trusts the sender of no packet.",
	rows: []row{
		{id: "I1", clause: "packets with an invalid version, header length, total length or header checksum are dropped silently", source: "RFC 1812 section 5.2.2, RFC 8200 section 3"},
		{id: "I2", clause: "TTL and hop limit are decremented by one; an expired packet is dropped and reported to its sender", source: "RFC 1812 section 5.3.1, RFC 8200 section 3"},
		{id: "I3", clause: "no ICMP error is sent about an ICMP error, a later fragment, a packet to a multicast or broadcast address, or a packet whose source is not a host", source: "RFC 1812 section 4.3.2.7, RFC 4443 section 2.4 (e)"},
		{id: "I4", clause: "ICMP errors are rate limited, in total and per source", source: "RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 (f)"},
		{id: "I5", clause: "an error quotes as much as permitted of the packet as its sender sent it", source: "RFC 1812 section 4.3.2.3, RFC 4443 section 2.4 (c)"},
		{id: "I6", clause: "a packet that is too big and has DF set is rejected with the MTU, never below 68 or 1280; without DF it is fragmented", source: "RFC 1191 section 4, RFC 8201 section 4, RFC 4443 section 3.2"},
		{id: "I7", clause: "addresses that must not cross a router are dropped on both sides, as source and as destination; so are packets with a gateway's address as source", source: "RFC 1812 section 5.3.7, RFC 6890"},
		{id: "I8", clause: "packets with source routes are dropped; router alert and other options pass unread", source: "RFC 7126 section 4"},
		{id: "I9", clause: "extension headers are parsed within bounds; type 0 routing headers, overlapping fragments and atomic fragments do no harm", source: "RFC 8200 section 4, RFC 5095, RFC 5722, RFC 6946"},
		{id: "I10", column: "prefix maps", clause: "the IPv4 identification is kept: each source has its own address, so IDs stay unique", source: "RFC 6864 section 4"},
		{id: "I10", column: "masquerade", clause: "fragmentable packets of several sources behind one address get unique identifications", source: "RFC 6864 section 4"},
		{id: "I11", clause: "a source must be behind the node that sent it, or in the prefixes granted to the remote cluster; a destination must be in the grant", source: "RFC 2827, RFC 3704 section 2.2"},
	},
}

var pathRows = section{
	title: "Path MTU and segment sizes",
	about: "TCP must work if every ICMP message is lost, and no sender may reduce the packet size of others.",
	rows: []row{
		{id: "RFC1191", clause: "an MTU learned from an error has a floor: 552 bytes for packets that the gateway segments, 68 for the MTU that it announces", source: "RFC 1191 sections 3 and 4, RFC 791 section 3.2"},
		{id: "RFC8201", clause: "for IPv6 the floor is 1280 bytes", source: "RFC 8201 section 4"},
		{id: "RFC1191Age", clause: "a learned path MTU expires", source: "RFC 1191 section 6.3, RFC 8201 section 4",
			waived: "the gateway keeps no path MTU: the size to which it segments a sender's super-packets is a cache of a few flows that each SYN refreshes"},
		{id: "RFC5927", clause: "only an error about a packet that can have crossed is accepted", source: "RFC 5927"},
		{id: "RFC4821", clause: "the inner MTU is probed inside the tunnel, and a path that drops large packets is detected without ICMP", source: "RFC 4821"},
		{id: "RFC8899", clause: "the largest packet that a path carries is found by probes with DF and without ICMP, confirmed from time to time, and tried to be raised; loss on a lossy link is not taken for a smaller MTU", source: "RFC 8899"},
		{id: "RFC6691", clause: "the MSS of SYN and SYN-ACK is clamped in both directions, only downwards, and never added; TCP options are not deducted; option parsing is bounded", source: "RFC 6691 section 2"},
		{id: "Overhead", clause: "WireGuard adds 60 bytes over IPv4 and 80 over IPv6, with padding inside the MTU; Geneve and VXLAN add 50 and 70", source: "RFC 8926 section 3.4, RFC 7348 section 5"},
	},
}
