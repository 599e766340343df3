package main

var geneveRows = section{
	title: "Geneve",
	about: "RFC 8926, and the checks of the kernel's Geneve device.",
	rows: []row{
		{id: "G1", clause: "an unknown version is dropped", source: "RFC 8926 section 3.4"},
		{id: "G2", clause: "the payload of a control packet (O bit) is never forwarded", source: "RFC 8926 section 3.4"},
		{id: "G3", clause: "packets with critical options (C bit) are dropped by an endpoint that parses no options", source: "RFC 8926 section 3.4"},
		{id: "G4", clause: "an unknown critical option causes a drop, an unknown non-critical option is ignored", source: "RFC 8926 section 3.5"},
		{id: "G5", clause: "inconsistent option lengths and truncated headers are dropped silently", source: "RFC 8926 section 3.5"},
		{id: "G6", clause: "reserved bits are sent as zero and ignored on receipt", source: "RFC 8926 section 3.4"},
		{id: "G7", clause: "an unsupported protocol type is dropped", source: "RFC 8926 section 3.4"},
		{id: "G8", clause: "a VNI that does not belong to the sender is dropped", source: "RFC 8926 section 3.4; the kernel's lookup"},
		{id: "G9", clause: "the outer source must be the remote of that VNI", source: "the kernel's lookup"},
		{id: "G10", clause: "a frame that the gateway itself sent is a loop and is dropped", source: "the kernel's receive path"},
		{id: "G11", clause: "an outer UDP checksum of zero is accepted over IPv4, any other is verified; over IPv6 a checksum is sent", source: "RFC 8926 section 3.3, RFC 6935, RFC 6936"},
		{id: "G12", clause: "the source port is derived from the inner flow: one flow keeps its order, several are spread", source: "RFC 8926 section 3.3"},
		{id: "G13", clause: "the UDP port is configurable, so that it does not conflict with other users of Geneve on the machine", source: "RFC 8926 section 3.3"},
		{id: "G14", clause: "ECN follows RFC 6040, DSCP and TTL a documented policy", source: "RFC 8926 section 4.4.2, RFC 2983"},
		{id: "G15", clause: "outer packets are never fragmented", source: "RFC 8926 section 4.4.1"},
		{id: "G16", clause: "traffic that leaves the controlled network is encrypted", source: "RFC 8926 sections 4.1 and 6"},
	},
}

var ecnRows = section{
	title: "Congestion marks",
	about: "How decapsulation combines the inner and the outer ECN field.",
	rows: []row{
		{id: "RFC6040", clause: "all 16 combinations of marks: an outer CE on a packet that is not ECN-capable is dropped, on any other it becomes the inner mark, an outer ECT(1) replaces ECT(0), otherwise the inner mark stays",
			source: "RFC 6040 section 4.2, figure 4"},
		{id: "RFC6040Compatibility", clause: "the outer header carries a mark only if the far end reads it: towards nodes the inner mark, on the WireGuard leg none",
			source: "RFC 6040 section 4.3"},
	},
}

var vxlanRows = section{
	title: "VXLAN",
	about: "RFC 7348, for kernels without Geneve.",
	rows: []row{
		{id: "RFC7348Flag", clause: "a packet without the I flag has no valid VNI and is dropped", source: "RFC 7348 section 5"},
		{id: "RFC7348Reserved", clause: "reserved bits are sent as zero and ignored on receipt", source: "RFC 7348 section 5"},
		{id: "RFC7348", clause: "an outer UDP checksum of zero is accepted, and frames are accepted and dropped as by the kernel's device", source: "RFC 7348 section 5"},
		{id: "RFC7348Fragment", clause: "the gateway does not fragment outer packets: inner packets that are too big are segmented or rejected", source: "RFC 7348 section 4.3"},
		{id: "RFC7348VLAN", clause: "an inner frame with a VLAN tag is dropped", source: "RFC 7348 section 6.1"},
	},
}
