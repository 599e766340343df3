package model

import (
	"cmp"
	"fmt"
	"slices"
)

// Stage is one step of a packet through a gateway.
type Stage struct {
	Name   string  `json:"name"`
	Serial bool    `json:"serial"` // one goroutine per link: at most one core
	CPU    float64 `json:"cpu"`    // ns per packet
	share  float64 // of the hand-offs
}

// The fractions of the hand-offs that belong to the first and the last stage of a side;
// doc.go explains them.
const (
	firstShare = 1. / 3
	lastShare  = 1. / 6
)

// Side is one gateway's direction: from nodes to the tunnel, or back.
type Side struct {
	Name   string   `json:"name"`
	Stages [3]Stage `json:"stages"` // in the order of a packet's path
	CPU    float64  `json:"cpu"`    // ns per packet, of all stages
}

// Cost is the CPU time of a load.
type Cost struct {
	Load     string  `json:"load"` // "64", "imix", "1400"
	Mode     string  `json:"mode"`
	Sides    [2]Side `json:"sides"`
	HandOffs float64 `json:"handOffs"` // ns per packet, in the stages of both sides
	Whole    float64 `json:"whole"`    // ns per packet, both sides and the generator, as measured
	Measured float64 `json:"measured"` // packets per second that the machine of the run carried
	load     load
}

// costOf computes the cost of a load from a run.
func costOf(f *figures, l load, mode string) (Cost, error) {
	test := "throughput/size=" + l.name
	c := Cost{
		Load: l.name, Mode: mode, load: l,
		Whole:    f.get(test, mode, "gateways", cpuUnit),
		Measured: f.get(test, mode, "gateways", "pdr-pkts/s"),
	}
	generator := f.get(test, mode, "udp", cpuUnit)
	socket := func(mode, subject string) float64 { return f.get("socket/size="+l.name, mode, subject, cpuUnit) }
	duplicate := f.packet(l, "copy")
	c.Sides = [2]Side{
		{Name: "egress", Stages: [3]Stage{
			{"overlay reader", true, socket(mode, "receive") + f.packet(l, "egress") + duplicate, firstShare},
			{"encryption", false, f.packet(l, "seal"), 0},
			{"WireGuard sender", true, socket(wire, "send"), lastShare},
		}},
		{Name: "ingress", Stages: [3]Stage{
			{"WireGuard receiver", true, socket(wire, "receive") + duplicate, firstShare},
			{"decryption", false, f.packet(l, "open"), 0},
			{"overlay writer", true, f.packet(l, "ingress") + socket(mode, "send"), lastShare},
		}},
	}
	if f.missing != nil {
		return c, nil // reported for all loads together
	}
	return c, c.addHandOffs(generator)
}

// addHandOffs adds to the stages their shares of the cost that the parts do not explain,
// and sums up.
func (c *Cost) addHandOffs(generator float64) error {
	parts := 0.0
	for i := range c.Sides {
		for _, s := range c.Sides[i].Stages {
			parts += s.CPU
		}
	}
	c.HandOffs = c.Whole - generator - parts
	if c.HandOffs < 0 {
		return fmt.Errorf("size=%s, mode %s: two gateways took %.0f ns of CPU time per packet, but the sum of their parts is %.0f: the machine was busy with other work; measure again: %s",
			c.Load, c.Mode, c.Whole-generator, parts, command)
	}
	for i := range c.Sides {
		side := &c.Sides[i]
		for j := range side.Stages {
			stage := &side.Stages[j]
			stage.CPU += c.HandOffs * stage.share
			side.CPU += stage.CPU
		}
	}
	return nil
}

// slowest returns the stage that limits one link.
func (c *Cost) slowest() Stage {
	var serial []Stage
	for _, side := range c.Sides {
		for _, s := range side.Stages {
			if s.Serial {
				serial = append(serial, s)
			}
		}
	}
	return slices.MaxFunc(serial, func(a, b Stage) int { return cmp.Compare(a.CPU, b.CPU) })
}

// dearer returns the side that takes more CPU time.
func (c *Cost) dearer() Side {
	return slices.MaxFunc(c.Sides[:], func(a, b Side) int { return cmp.Compare(a.CPU, b.CPU) })
}
