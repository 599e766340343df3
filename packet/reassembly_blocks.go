package packet

import "bytes"

// Payload is stored in blocks at its offset in the datagram, so fragments in any order need
// neither searching nor moving. A unit is the unit of fragment offsets; a block has as many
// units as a word has bits.
const (
	unitLen       = 8 // bytes, RFC 791 section 3.1
	unitsPerBlock = 64
	blockLen      = unitLen * unitsPerBlock
)

// unitsOf returns the number of units that n bytes occupy; only the last unit of a datagram
// may be partly filled.
func unitsOf(n int) int { return (n + unitLen - 1) / unitLen }

// blocks is a pool of blocks of a fixed size. Block 0 means none.
type blocks struct {
	memory []byte
	held   []uint64 // by block: units that are filled
	starts []uint64 // by block: units at which a fragment begins
	free   []uint16
}

func newBlocks(n int) blocks {
	return blocks{
		memory: make([]byte, n*blockLen),
		held:   make([]uint64, n+1), starts: make([]uint64, n+1),
		free: numbers(n),
	}
}

func (p *blocks) left() int { return len(p.free) }
func (p *blocks) used() int { return cap(p.free) - len(p.free) }

// bytes returns the memory of a block.
func (p *blocks) bytes(block uint16) []byte {
	return p.memory[(int(block)-1)*blockLen:][:blockLen]
}

// take returns an empty block; the caller has checked that one is left.
func (p *blocks) take() uint16 {
	last := len(p.free) - 1
	block := p.free[last]
	p.free = p.free[:last]
	p.held[block], p.starts[block] = 0, 0
	return block
}

// release frees all blocks of a datagram.
func (p *blocks) release(g *incomplete) {
	if g.header != 0 {
		p.free = append(p.free, g.headerBlock)
		g.headerBlock, g.header = 0, 0
	}
	reach := int(max(g.top, g.total)) // the end of the payload received
	for i, block := range g.blocks[:(reach+blockLen-1)/blockLen] {
		if block != 0 {
			p.free = append(p.free, block)
			g.blocks[i] = 0
		}
	}
}

// missing returns the number of blocks to allocate for the units from up to to.
func (p *blocks) missing(g *incomplete, from, to int) int {
	n := 0
	for i := from / unitsPerBlock; i <= (to-1)/unitsPerBlock; i++ {
		if g.blocks[i] == 0 {
			n++
		}
	}
	return n
}

// overlaps reports whether any of the units from up to to is filled.
func (p *blocks) overlaps(g *incomplete, from, to int) bool {
	for i := from / unitsPerBlock; i <= (to-1)/unitsPerBlock; i++ {
		if p.held[g.blocks[i]]&within(i, from, to) != 0 {
			return true
		}
	}
	return false
}

// isDuplicate reports whether payload was received before as one fragment with the same
// bounds and the same bytes.
func (p *blocks) isDuplicate(g *incomplete, payload []byte, from, to int) bool {
	start := uint64(1) << (from % unitsPerBlock)
	for i := from / unitsPerBlock; i <= (to-1)/unitsPerBlock; i++ {
		block, mask := g.blocks[i], within(i, from, to)
		if p.held[block]&mask != mask || p.starts[block]&mask != start {
			return false
		}
		at := max(from-i*unitsPerBlock, 0) * unitLen
		n := min(len(payload), blockLen-at)
		if !bytes.Equal(p.bytes(block)[at:at+n], payload[:n]) {
			return false
		}
		payload = payload[n:]
		start = 0
	}
	return p.endsAt(g, to)
}

// endsAt reports whether no fragment spans unit to and the unit before it.
func (p *blocks) endsAt(g *incomplete, to int) bool {
	i := to / unitsPerBlock
	if i >= len(g.blocks) {
		return true
	}
	unit := uint64(1) << (to % unitsPerBlock)
	return p.held[g.blocks[i]]&unit == 0 || p.starts[g.blocks[i]]&unit != 0
}

// put copies payload to the units from up to to, all of which are empty.
func (p *blocks) put(g *incomplete, payload []byte, from, to int) {
	start := uint64(1) << (from % unitsPerBlock)
	for i := from / unitsPerBlock; i <= (to-1)/unitsPerBlock; i++ {
		if g.blocks[i] == 0 {
			g.blocks[i] = p.take()
		}
		block := g.blocks[i]
		p.held[block] |= within(i, from, to)
		p.starts[block] |= start
		payload = payload[copy(p.bytes(block)[max(from-i*unitsPerBlock, 0)*unitLen:], payload):]
		start = 0
	}
}

// within returns the mask of those of the units from up to to that lie in block i of a
// datagram; at least one does.
func within(i, from, to int) uint64 {
	first := i * unitsPerBlock
	from, to = max(from-first, 0), min(to-first, unitsPerBlock)
	return ^uint64(0) >> (unitsPerBlock - (to - from)) << from
}
