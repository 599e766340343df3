package main

var threatRows = section{
	title: "Threats",
	about: "What somebody may try: a pod, a node, the other cluster, whoever sits between.",
	rows: []row{
		{id: "T1", clause: "a pod forges frames to the gateway: only a node's address with its own VNI is let in", source: "RFC 8926 section 6"},
		{id: "T2", clause: "a node or pod uses an inner source that is not its own", source: "RFC 3704 section 2.2"},
		{id: "T3", clause: "the other cluster sends from or to what it was not given, judged again after translation", source: "docs/explanation/security.md"},
		{id: "T4", clause: "keys are made in the cluster, are nowhere else and in no log, and are replaced without loss", source: "docs/explanation/security.md"},
		{id: "T5", clause: "every program has exactly the rights it needs, and nobody those that nobody needs", source: "docs/explanation/security.md"},
		{id: "T6", clause: "one tenant peers in another's name", source: "docs/explanation/security.md",
			waived: "all kinds are cluster-scoped and belong to the cluster's administrator, and a Secret is read from Strait's own namespace alone: there is no second tenant"},
		{id: "T7", clause: "an object or an announcement takes away the routes of something else", source: "docs/how-to/cidr-planning.md"},
		{id: "T8", clause: "a flood of handshakes keeps nobody from being served", source: "WireGuard section 5.3"},
		{id: "T9", clause: "a packet is delivered once, however often it is sent", source: "WireGuard section 5.4.6"},
		{id: "T10", clause: "one source takes all ports and flows", source: "RFC 6888 section 3"},
		{id: "T11", clause: "fragments, options and ICMP are cheap to send and cost the gateway no more than that", source: "RFC 1858, RFC 3128, RFC 8504 section 5.3"},
		{id: "T12", clause: "memory returns to where it was", source: "docs/explanation/security.md"},
		{id: "T13", clause: "what a process tells of itself is read-only and names no keys and no endpoints of peers", source: "docs/reference/metrics.md"},
		{id: "T14", clause: "nothing leaves unencrypted while something starts, ends or fails", source: "docs/explanation/security.md"},
		{id: "T15", clause: "an empty list means nothing, never everything", source: "docs/explanation/security.md"},
		{id: "T16", clause: "ports and sequence numbers of the gateway cannot be guessed", source: "RFC 6056, RFC 6528"},
		{id: "T17", clause: "whoever connects and says nothing blocks nobody", source: "docs/explanation/security.md"},
		{id: "T18", clause: "what is released can be made again from its sources, and says what is in it", source: "SLSA 1.2"},
		{id: "T19", clause: "of two who decide at once, never both win", source: "docs/how-to/cidr-planning.md"},
	},
}
