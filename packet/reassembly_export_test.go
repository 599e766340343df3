package packet

import (
	"fmt"
	"math/bits"
)

// Check looks for contradictions between the tables of r.
func (r *Reassembly) Check() error {
	owner := map[uint16]uint16{} // block to datagram
	for _, block := range r.blocks.free {
		owner[block] = 0
	}
	if len(owner) != len(r.blocks.free) {
		return fmt.Errorf("a block is free twice")
	}
	live, placed := map[uint16]int{}, 0
	for d := r.ages.first(0); d != 0; d = r.ages.first(d) {
		placed++
		g := &r.datagrams[d]
		if r.find(&g.key) != d {
			return fmt.Errorf("datagram %d is not found", d)
		}
		blocks := g.blocks[:]
		if g.header != 0 {
			blocks = append([]uint16{g.headerBlock}, blocks...)
		}
		units := 0
		for i, block := range blocks {
			if block == 0 {
				continue
			}
			if other, taken := owner[block]; taken {
				return fmt.Errorf("block %d of datagram %d belongs to %d too", block, d, other)
			}
			owner[block] = d
			if i > 0 || g.header == 0 {
				units += bits.OnesCount64(r.blocks.held[block])
			}
		}
		if g.refused != ReassemblyWhole {
			if g.source != 0 || units != 0 {
				return fmt.Errorf("datagram %d is refused, and has source %d and %d units", d, g.source, units)
			}
			continue
		}
		if units != int(g.units) || units == 0 {
			return fmt.Errorf("datagram %d has %d units, says %d", d, units, g.units)
		}
		if s := r.findSource(&g.key.src); s == 0 || s != g.source {
			return fmt.Errorf("datagram %d has source %d, found %d", d, g.source, s)
		}
		live[g.source]++
	}
	if placed+len(r.freeDatagrams) != len(r.datagrams)-1 {
		return fmt.Errorf("%d datagrams and %d free places of %d", placed, len(r.freeDatagrams), len(r.datagrams)-1)
	}
	if len(owner) != len(r.blocks.held)-1 {
		return fmt.Errorf("%d blocks of %d are left", len(owner), len(r.blocks.held)-1)
	}
	return r.checkSources(live)
}

func (r *Reassembly) checkSources(live map[uint16]int) error {
	most, total := 0, 0
	for s, n := range live {
		if int(r.sources[s].waiting) != n {
			return fmt.Errorf("source %d says %d datagrams, has %d", s, r.sources[s].waiting, n)
		}
		ranked := false
		for i := r.ranks.first(r.rankOf(n)); i != r.rankOf(n); i = r.ranks.first(i) {
			ranked = ranked || i == s
		}
		if !ranked {
			return fmt.Errorf("source %d is not among those with %d", s, n)
		}
		most, total = max(most, n), total+n
	}
	if len(live)+len(r.freeSources) != len(r.sources)-1 {
		return fmt.Errorf("%d sources and %d free places of %d", len(live), len(r.freeSources), len(r.sources)-1)
	}
	s := r.Stats()
	if r.fullest != most || int(s.Datagrams) != total || int(s.Bytes) != r.blocks.used()*blockLen {
		return fmt.Errorf("fullest %d, stats %+v; there are %d at most, %d in all, %d blocks", r.fullest, s, most, total, r.blocks.used())
	}
	return nil
}
