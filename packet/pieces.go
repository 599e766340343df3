package packet

import "slices"

// Pieces cuts one packet into what fits; the pieces are written one by one into
// memory of the caller:
//
//	p.Fragments(b, &ip, mtu)
//	for p.Left() {
//		n := p.Next(dst)
//		send(dst[:n])
//	}
//
// Whole, Fragments, FragmentsV6, Segments and Datagrams start it on a packet and
// forget the one before. It borrows that packet until Next has written the last
// piece: the bytes must not change before, and dst must not overlap them. The zero
// value has nothing left. Not for concurrent use.
type Pieces struct {
	b    []byte // the packet, cut to its own length; nil = nothing left
	at   int    // offset in b of the first payload byte not yet written
	mtu  int    // bytes that a piece may have
	kind pieceKind

	header int    // FragmentsV6, Segments, Datagrams: bytes of headers in front of each piece's payload, without the fragment header
	upper  int    // Segments, Datagrams: offset of the TCP or UDP header
	index  uint16 // Segments, Datagrams: number of the next piece, from 0
	pseudo uint16 // Segments, Datagrams: sum of the pseudo-header but for its length
	id     uint32 // FragmentsV6: identification
	next   int    // FragmentsV6: offset of the byte that names what comes behind the headers
}

type pieceKind uint8

const (
	whole pieceKind = iota
	fragment
	fragmentV6
	segment
	datagram
)

// Whole makes b the one piece.
func (p *Pieces) Whole(b []byte) { *p = Pieces{b: b} }

// Left reports whether Next has something to write.
func (p *Pieces) Left() bool { return len(p.b) > 0 }

// Next writes the next piece to the front of dst and returns its length in
// bytes, 0 when none is left. dst must hold a piece: as many bytes as the mtu
// given, or as the packet has if that is less. Nothing is written behind the
// piece; a dst too short for it panics.
func (p *Pieces) Next(dst []byte) int {
	dst = slices.Clip(dst) // so that slicing cannot reach behind its length
	switch {
	case len(p.b) == 0:
		return 0
	case p.kind == fragment:
		return p.nextFragment(dst)
	case p.kind == fragmentV6:
		return p.nextFragmentV6(dst)
	case p.kind == segment:
		return p.nextSegment(dst)
	case p.kind == datagram:
		return p.nextDatagram(dst)
	}
	n := copy(dst[:len(p.b)], p.b)
	p.b = nil
	return n
}
