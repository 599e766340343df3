package node

import "net/netip"

// Way is the route and the treatment of packets from a node to an address, as data.
type Way struct {
	To   netip.Addr `json:"to"`
	From netip.Addr `json:"from,omitzero"` // none: from the node itself

	// Input is the device on which the packets arrive; empty: the node itself sends them.
	Input string `json:"input,omitempty"`

	// The kernel's answer. Refused is why it does not route the packets.
	Refused string     `json:"refused,omitempty"`
	Local   bool       `json:"local,omitempty"` // to the node itself
	Device  string     `json:"device,omitempty"`
	Via     netip.Addr `json:"via,omitzero"`
	Source  netip.Addr `json:"source,omitzero"` // of packets from the node itself
	Table   int        `json:"table,omitempty"` // routing table
	MTU     int        `json:"mtu,omitempty"`   // the largest packet in bytes

	// Range is Strait's route that contains the address; Blackhole: no gateway serves it.
	Range     netip.Prefix `json:"range,omitzero"`
	Blackhole bool         `json:"blackhole,omitempty"`
	Rule      bool         `json:"rule"` // the rule that leads to Strait's routes exists

	// Gateways are the internal addresses of all gateways over which the kernel spreads the
	// flows to Range. If Any is false, Via is the one of all flows between these two addresses.
	// Otherwise a flow may take any of them: the kernel also uses the ports, the hash of the
	// sending socket or the IPv6 flow label, which are not known.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	Any      bool         `json:"any,omitempty"`

	// Overlay is the device, if it is one of Strait's.
	Overlay *WayOverlay `json:"overlay,omitempty"`

	// Sources is the state of the table that sets source addresses: see the constants.
	Sources string `json:"sources"`
}

// WayOverlay is the encapsulation of one of Strait's devices.
type WayOverlay struct {
	Encapsulation Encapsulation `json:"encapsulation"`
	Up            bool          `json:"up"`
	// VNI, Gateway and Source are empty for userspace: only the node helper knows them.
	VNI     uint32     `json:"vni,omitempty"`
	Gateway netip.Addr `json:"gateway,omitzero"` // destination of the frames
	Source  netip.Addr `json:"source,omitzero"`  // source of the frames
}

// States of the nftables table.
const (
	SourcesKept    = "in place"
	SourcesMissing = "missing"
	SourcesDamaged = "damaged" // changed by another program
	SourcesHidden  = "hidden"  // this process may not read it
)
