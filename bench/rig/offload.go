package rig

import (
	"errors"
	"fmt"

	"strait.dev/strait/node/genl"
)

// Mode is what lies between nodes and gateways, and between the gateways.
type Mode string

const (
	// NoGRO is wires between machines, and no GRO in front of the gateways: gateways
	// in the pod network, the normal case. A veth does none unless told to, and a
	// network card coalesces no UDP that is only forwarded.
	NoGRO Mode = "nogro"
	// Wire is wires between machines with GRO at every receiver: gateways in the
	// host's network.
	Wire Mode = "wire"
	// SameHost is plain veth: super-packets and unfinished checksums cross.
	SameHost Mode = "same-host"
)

// setMode turns the cables of a picture into those of a mode.
func (t *topology) setMode(m Mode) error {
	var failed []error
	for _, s := range t.sites() {
		for _, end := range []struct {
			at     *namespace
			device string
			gro    bool
		}{
			{s.node, "gw", m != SameHost},
			{s.gw, "node", m == Wire},
			{s.gw, "wan", m == Wire},
		} {
			failed = append(failed, end.at.offload(end.device, m == SameHost, end.gro))
		}
	}
	return errors.Join(failed...)
}

// transmitOffloads are the features that let a veth carry packets that no wire could.
var transmitOffloads = []string{
	"tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation",
	"tx-tcp6-segmentation", "tx-udp-segmentation", "tx-gso-list", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
}

// offload sets a device: whether packets that are not segmented or have no checksum yet
// may leave by it, and whether received packets are coalesced.
func (n *namespace) offload(device string, unfinished, gro bool) error {
	features := map[string]bool{"rx-gro": gro}
	for _, name := range transmitOffloads {
		features[name] = unfinished
	}
	if err := n.genl(func(c *genl.Conn) error { return c.SetFeatures(device, features) }); err != nil {
		return fmt.Errorf("in %s: %w", n.role, err)
	}
	return nil
}
