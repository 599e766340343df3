package rig

import (
	"errors"
	"fmt"
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

// transmitOffloads are what makes a veth carry packets that no wire could.
var transmitOffloads = []string{
	"tx-checksum-ip-generic", "tso", "tx-udp-segmentation", "tx-gso-list",
	"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
}

// offload sets a device: whether unfinished packets may leave by it, and whether what
// arrives is coalesced.
func (n *namespace) offload(device string, unfinished, gro bool) error {
	command := []string{"ethtool", "-K", device, "gro", onOff(gro)}
	for _, feature := range transmitOffloads {
		command = append(command, feature, onOff(unfinished))
	}
	if err := n.run("", command...); err != nil {
		return fmt.Errorf("make %s a cable of the mode: %w", device, err)
	}
	return nil
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
