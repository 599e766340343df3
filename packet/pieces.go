package packet

import "slices"

// Pieces cuts one packet into pieces and writes them one by one to memory of the caller:
//
//	p.Fragments(b, &ip, mtu)
//	for p.Left() {
//		n := p.Next(dst)
//		send(dst[:n])
//	}
//
// Whole, Fragments, FragmentsV6, Segments and Datagrams set the packet and discard the
// previous one. Pieces borrows the packet until Next has written the last piece: until
// then the bytes must not change, and dst must not overlap them. The zero value has no
// piece left. Not for concurrent use.
type Pieces struct {
	b    []byte // the packet, cut to its own length; nil = nothing left
	at   int    // offset in b of the first payload byte not yet written
	mtu  int    // maximum length of a piece, bytes
	kind pieceKind

	header int    // FragmentsV6, Segments, Datagrams: bytes of headers in front of each piece's payload, without the fragment header
	upper  int    // Segments, Datagrams: offset of the TCP or UDP header
	index  uint16 // Segments, Datagrams: number of the next piece, from 0
	pseudo uint16 // Segments, Datagrams: sum of the pseudo-header but for its length
	id     uint32 // FragmentsV6: identification
	next   int    // FragmentsV6: offset of the next-header field of the last per-fragment header

	first int    // FragmentsV6: offset in b of the payload of the first piece
	word  uint16 // FragmentsV6: offset and flag of the fragment that is cut further, 0 = a whole packet
	type6 uint8  // FragmentsV6: type of what the fragments carry

	cwrOnce bool // Segments: CWR on the first piece only
}

type pieceKind uint8

const (
	whole pieceKind = iota
	fragment
	fragmentV6
	segment
	datagram
)

// Whole makes b the only piece.
func (p *Pieces) Whole(b []byte) { *p = Pieces{b: b} }

// Left reports whether a piece is left for Next to write.
func (p *Pieces) Left() bool { return len(p.b) > 0 }

// Next writes the next piece to the front of dst and returns its length in bytes, 0 when
// none is left. dst must hold a piece: mtu bytes, or the length of the packet if that is
// less. Nothing is written beyond the piece. It panics if dst is too short.
func (p *Pieces) Next(dst []byte) int {
	dst = slices.Clip(dst) // so that slicing cannot exceed its length
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
