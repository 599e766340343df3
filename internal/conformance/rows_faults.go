package main

// oneGateway is the reason why faults of the failover between gateways are not tested yet.
const oneGateway = "nodes take a gateway out within 0.7 s that stops responding, and at once when it shuts down or its links go down (package node, k8s/nodehelper); a test with complete gateways does not exist yet"

var faultRows = section{
	title: "Faults",
	about: "Failures without an attacker. At all times: only granted traffic crosses, nothing is sent in the clear, no address is assigned twice, every drop is counted.",
	rows: []row{
		{id: "F1", clause: "after a gateway is killed, another one takes over within seconds", source: "docs/how-to/peering.md", waived: oneGateway + "; test/lab tests that traffic resumes with the gateway"},
		{id: "F2", clause: "when a gateway shuts down, no packet is lost while another one takes over", source: "docs/how-to/install.md"},
		{id: "F3", clause: "killing or upgrading a node helper loses no packet", source: "docs/how-to/install.md"},
		{id: "F4", clause: "a gateway that was paused does not act on stale state", source: "docs/runbooks/StraitProcessGaps.md"},
		{id: "F5", clause: "everything continues while the API server is unavailable, including the start of gateways", source: "docs/runbooks/StraitAPIServerAway.md"},
		{id: "F6", clause: "nothing is deleted because the API server is slow, drops connections or returns older state", source: "docs/runbooks/StraitAPIServerAway.md"},
		{id: "F7", clause: "after the cluster's etcd is restored from an older copy, no address is assigned twice", source: "docs/how-to/cidr-planning.md"},
		{id: "F8", clause: "nodes and their pod CIDRs are added and removed", source: "docs/how-to/peering.md"},
		{id: "F9", clause: "what another program deletes or changes on a node is repaired within two seconds, without a repair loop", source: "docs/runbooks/StraitNodeFights.md"},
		{id: "F10", clause: "addresses of gateways, nodes and load balancers change", source: "docs/how-to/peering.md"},
		{id: "F11", clause: "a NAT between gateways loses its mappings", source: "docs/reference/wire.md"},
		{id: "F12", clause: "the clock jumps", source: "docs/reference/wire.md"},
		{id: "F13", clause: "the underlay loses, duplicates, reorders and corrupts packets: no corrupted packet is delivered", source: "docs/evidence/performance.md"},
		{id: "F14", clause: "a path drops large packets without an ICMP error", source: "docs/explanation/mtu.md"},
		{id: "F15", clause: "keys are replaced under load; wrong and lost keys close the link", source: "docs/explanation/security.md"},
		{id: "F16", clause: "objects are deleted and created again: their effects are withdrawn, and nothing is left", source: "docs/how-to/peering.md"},
		{id: "F17", clause: "a controller is killed at any write, and two controllers run at once", source: "docs/how-to/cidr-planning.md"},
		{id: "F18", clause: "other rules on a node are changed or flushed, or kube-proxy uses another mode", source: "docs/how-to/install.md"},
		{id: "F19", clause: "memory, CPU, file descriptors or ports are exhausted", source: "docs/runbooks/StraitMemoryNearLimit.md",
			waived: "the operator sets limits of memory and CPU, and a gateway that reaches them restarts; state that unauthenticated senders can create is bounded: T8, T10 to T12, T17"},
		{id: "F20", clause: "floods, a million flows, a hundred thousand prefixes", source: "docs/design/scale.md"},
		{id: "F21", clause: "a panic on one packet does not end the process, and no process exits because of a temporary failure", source: "ARCHITECTURE.md"},
		{id: "F22", clause: "gateways, API servers and clusters are partitioned", source: "docs/how-to/peering.md", waived: oneGateway},
		{id: "F23", clause: "5000 nodes, 100000 pods", source: "docs/design/scale.md"},
		{id: "F24", clause: "a gateway starts from its cache while the remote configuration has changed", source: "docs/runbooks/StraitConfigCached.md"},
	},
}
