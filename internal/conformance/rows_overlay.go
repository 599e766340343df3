package main

var geneveRows = section{
	title: "Geneve",
	about: "RFC 8926, and what the kernel's own Geneve device demands.",
	rows: []row{
		{id: "G1", clause: "a version that is not known is dropped", source: "RFC 8926 section 3.4"},
		{id: "G2", clause: "the payload of a control packet (O bit) is never forwarded", source: "RFC 8926 section 3.4"},
		{id: "G3", clause: "critical options announced by the C bit are dropped by whoever parses none", source: "RFC 8926 section 3.4"},
		{id: "G4", clause: "an unknown option that is critical is dropped, one that is not is ignored", source: "RFC 8926 section 3.5"},
		{id: "G5", clause: "lengths of options that do not add up, and headers cut short, are dropped silently", source: "RFC 8926 section 3.5"},
		{id: "G6", clause: "reserved bits are sent as zero and ignored when received", source: "RFC 8926 section 3.4"},
		{id: "G7", clause: "a protocol type that is not handled here is dropped", source: "RFC 8926 section 3.4"},
		{id: "G8", clause: "a VNI that is not the sender's is dropped", source: "RFC 8926 section 3.4; the kernel's lookup"},
		{id: "G9", clause: "the outer source is the remote of that VNI, nobody else", source: "the kernel's lookup"},
		{id: "G10", clause: "a frame that the gateway itself sent is a loop, and dropped", source: "the kernel's receive path"},
		{id: "G11", clause: "an outer UDP checksum of zero is accepted over IPv4, any other is verified; over IPv6 there is one", source: "RFC 8926 section 3.3, RFC 6935, RFC 6936"},
		{id: "G12", clause: "the source port follows the inner flow: one flow keeps its order, many are spread", source: "RFC 8926 section 3.3"},
		{id: "G13", clause: "the UDP port can be chosen, so that other users of Geneve on the machine go on", source: "RFC 8926 section 3.3"},
		{id: "G14", clause: "ECN as RFC 6040 says, DSCP and TTL by a stated policy", source: "RFC 8926 section 4.4.2, RFC 2983"},
		{id: "G15", clause: "no outer fragment is ever sent", source: "RFC 8926 section 4.4.1"},
		{id: "G16", clause: "what leaves the controlled network is encrypted", source: "RFC 8926 sections 4.1 and 6"},
	},
}

var ecnRows = section{
	title: "Congestion marks",
	about: "What decapsulation makes of the inner and the outer ECN field.",
	rows: []row{
		{id: "RFC6040", clause: "all 16 pairs of marks: CE outside of a packet that is not capable is dropped, CE outside of one that is becomes its mark, ECT(1) outside of ECT(0) too, else the inner mark stays",
			source: "RFC 6040 section 4.2, figure 4"},
		{id: "RFC6040Compatibility", clause: "the outer header carries a mark only where the far end reads it: to nodes the inner one, on WireGuard's leg none",
			source: "RFC 6040 section 4.3"},
	},
}

var vxlanRows = section{
	title: "VXLAN",
	about: "RFC 7348, for kernels without Geneve.",
	rows: []row{
		{id: "RFC7348Flag", clause: "without the I flag there is no VNI, and the packet is dropped", source: "RFC 7348 section 5"},
		{id: "RFC7348Reserved", clause: "reserved bits are sent as zero and ignored when received", source: "RFC 7348 section 5"},
		{id: "RFC7348", clause: "an outer UDP checksum of zero is accepted, and frames are taken and refused as the kernel's device does", source: "RFC 7348 section 5"},
		{id: "RFC7348Fragment", clause: "the gateway does not fragment outer packets: what does not fit is cut or refused inside", source: "RFC 7348 section 4.3"},
		{id: "RFC7348VLAN", clause: "an inner frame with a VLAN tag is dropped", source: "RFC 7348 section 6.1"},
	},
}
