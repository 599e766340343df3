package main

// oneGateway is why a fault of the failover between gateways is not tested yet.
const oneGateway = "nodes send to one gateway of a peering at a time, and leave it for another at once when it is about to end or its links go down; of one that just stops they learn by a probe every 5 s, later than this asks"

var faultRows = section{
	title: "Faults",
	about: "What goes wrong by itself. At all times: nothing crosses that is not granted, nothing in the clear, no address twice, every drop counted.",
	rows: []row{
		{id: "F1", clause: "a gateway is killed: another serves within seconds", source: "docs/how-to/peering.md", waived: oneGateway + "; that traffic returns with the gateway is tested in test/lab"},
		{id: "F2", clause: "a gateway ends in order: nothing is lost while another takes over", source: "docs/how-to/install.md"},
		{id: "F3", clause: "a node helper is killed or upgraded: no packet is lost", source: "docs/how-to/install.md"},
		{id: "F4", clause: "a gateway that was paused does not act as if it had not been", source: "docs/how-to/peering.md", waived: oneGateway},
		{id: "F5", clause: "the API server is away, also while gateways start", source: "docs/runbooks/StraitAPIServerAway.md"},
		{id: "F6", clause: "the API server is slow, breaks off, or goes back in time: nothing is deleted for that", source: "docs/runbooks/StraitAPIServerAway.md"},
		{id: "F7", clause: "the cluster's store goes back to an older copy: no address is given twice", source: "docs/how-to/cidr-planning.md"},
		{id: "F8", clause: "nodes and their pod ranges come and go", source: "docs/how-to/peering.md"},
		{id: "F9", clause: "what somebody else deletes or changes on a node is back within two seconds, without a fight", source: "docs/runbooks/StraitNodeFights.md"},
		{id: "F10", clause: "addresses of gateways, nodes and load balancers change", source: "docs/how-to/peering.md"},
		{id: "F11", clause: "a NAT between gateways forgets them", source: "docs/reference/wire.md"},
		{id: "F12", clause: "clocks jump", source: "WireGuard section 5.1", waived: "handshakes carry the system's time, as all of WireGuard's do; a guard against clocks that jump comes with failover"},
		{id: "F13", clause: "the underlay loses, doubles, reorders and damages packets: nothing damaged is delivered", source: "docs/evidence/performance.md"},
		{id: "F14", clause: "a path swallows large packets and says nothing", source: "docs/explanation/mtu.md"},
		{id: "F15", clause: "keys are replaced under load; wrong and lost ones close the link", source: "docs/explanation/security.md"},
		{id: "F16", clause: "objects are deleted and made again: what they stood for is withdrawn, and nothing is left", source: "docs/how-to/peering.md"},
		{id: "F17", clause: "a controller is killed at any write, and two run at once", source: "docs/how-to/cidr-planning.md"},
		{id: "F18", clause: "other rules on a node are changed, flushed, or those of another kube-proxy", source: "docs/how-to/install.md"},
		{id: "F19", clause: "memory, CPU, descriptors or ports run out", source: "docs/runbooks/StraitMemoryNearLimit.md",
			waived: "limits of memory and CPU are the operator's to set, and a gateway that meets them starts again; what strangers can fill is bounded: T8, T10 to T12, T17"},
		{id: "F20", clause: "floods, a million flows, a hundred thousand prefixes", source: "docs/design/scale.md"},
		{id: "F21", clause: "a panic in one packet ends nothing, and a process does not exit for what it can wait out", source: "ARCHITECTURE.md"},
		{id: "F22", clause: "gateways, API servers and clusters are cut off from each other", source: "docs/how-to/peering.md", waived: oneGateway},
		{id: "F23", clause: "5000 nodes, 100000 pods", source: "docs/design/scale.md"},
		{id: "F24", clause: "a gateway starts from its cache while the other side has changed", source: "docs/runbooks/StraitConfigCached.md"},
	},
}
