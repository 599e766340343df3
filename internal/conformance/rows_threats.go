package main

var threatRows = section{
	title: "Threats",
	about: "Attacks by a pod, a node, the other cluster, or a machine on the path.",
	rows: []row{
		{id: "T1", clause: "a pod forges frames to the gateway: only a node's address with its own VNI is accepted", source: "RFC 8926 section 6"},
		{id: "T2", clause: "a node or pod uses an inner source address that is not its own", source: "RFC 3704 section 2.2"},
		{id: "T3", clause: "the other cluster sends from or to addresses that were not granted, checked again after translation", source: "docs/explanation/security.md"},
		{id: "T4", clause: "private keys are generated in the cluster, never leave it, are not logged, and are replaced without loss", source: "docs/explanation/security.md"},
		{id: "T5", clause: "every program has exactly the permissions that it needs", source: "docs/explanation/security.md"},
		{id: "T6", clause: "a node or gateway writes in the name of another: another node's addresses, another peering's gateways", source: "docs/explanation/security.md"},
		{id: "T7", clause: "an object or an announcement takes over routes of other networks", source: "docs/how-to/cidr-planning.md"},
		{id: "T8", clause: "a flood of handshakes does not prevent service to other peers", source: "WireGuard section 5.3"},
		{id: "T9", clause: "a replayed packet is delivered once", source: "WireGuard section 5.4.6"},
		{id: "T10", clause: "one source exhausts the ports, flows or answers that others need", source: "RFC 6888 section 3"},
		{id: "T11", clause: "fragments, options and ICMP are cheap to send and cheap to handle", source: "RFC 1858, RFC 3128, RFC 8504 section 5.3"},
		{id: "T12", clause: "memory use returns to its previous level", source: "docs/explanation/security.md"},
		{id: "T13", clause: "what a process reports about itself is read-only and contains no keys and no peer endpoints", source: "docs/reference/metrics.md"},
		{id: "T14", clause: "no packet leaves unencrypted while a process starts, ends or fails", source: "docs/explanation/security.md"},
		{id: "T15", clause: "an empty list means nothing, never everything", source: "docs/explanation/security.md"},
		{id: "T16", clause: "ports and sequence numbers of the gateway cannot be guessed", source: "RFC 6056, RFC 6528"},
		{id: "T17", clause: "a client that connects and sends nothing does not block others", source: "docs/explanation/security.md"},
		{id: "T18", clause: "a release can be reproduced from its sources and lists its contents", source: "SLSA 1.2"},
		{id: "T19", clause: "of two concurrent decisions, at most one succeeds", source: "docs/how-to/cidr-planning.md"},
	},
}
