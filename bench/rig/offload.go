package rig

import (
	"errors"
	"fmt"

	"strait.dev/strait/node/genl"
)

// Mode is the offloads on the links between nodes and gateways, and between the gateways.
type Mode string

const (
	// NoGRO is separate machines without GRO at the gateways: gateways in the pod network,
	// the normal case. A veth does no GRO by default, and a network card does not coalesce
	// UDP that is only forwarded.
	NoGRO Mode = "nogro"
	// Wire is separate machines with GRO at every receiver: gateways in the host's network.
	Wire Mode = "wire"
	// SameHost is plain veth: super-packets and partial checksums cross.
	SameHost Mode = "same-host"
)

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

// transmitOffloads let a veth carry packets that a physical link cannot.
var transmitOffloads = []string{
	"tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation",
	"tx-tcp6-segmentation", "tx-udp-segmentation", "tx-gso-list", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
}

// offload configures a device: whether packets without segmentation or checksum may leave
// by it, and whether received packets are coalesced.
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
