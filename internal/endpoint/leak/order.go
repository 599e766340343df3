package leak

import "net/netip"

// Order is what to look for. It is exchanged as JSON, like Report.
type Order struct {
	Marker [16]byte `json:"marker"`
	// Foreign are the other cluster's underlay addresses: of its gateways and nodes.
	Foreign []netip.Prefix `json:"foreign"`
	// Own are all addresses of this cluster: its nodes, pods, Services and pools.
	Own []netip.Prefix `json:"own"`
	// Node are the node's own addresses: the interfaces that have one are the underlay.
	Node []netip.Addr `json:"node"`
}

// Leak is a group of packets seen in the clear.
type Leak struct {
	Interface   string     `json:"interface"`
	Source      netip.Addr `json:"source"`
	Destination netip.Addr `json:"destination"`
	Protocol    uint8      `json:"protocol"` // of IP
	Packets     int        `json:"packets"`
}

// Report is the result of a capture.
type Report struct {
	Underlay []string `json:"underlay"` // the underlay interfaces
	Packets  int      `json:"packets"`  // IP packets, on all interfaces
	Missed   int      `json:"missed"`   // dropped by the kernel because its buffer was full
	Clear    int      `json:"clear"`    // with the marker, within this cluster, as expected
	Tunnel   int      `json:"tunnel"`   // to and from the other cluster, without the marker
	Leaks    []Leak   `json:"leaks"`
}
