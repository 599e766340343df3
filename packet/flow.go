package packet

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// FlowHash returns a hash for spreading flows. All packets of a flow, in both directions,
// have the same hash as long as they show the same two addresses. Ports count for TCP,
// UDP, SCTP, DCCP and UDP-Lite. Fragments are hashed without ports, so that all fragments
// of a flow stay in order. The hash is not safe against chosen inputs: use it only where a
// collision affects nothing but load balance.
func FlowHash(b []byte, ip *IP) uint32 {
	var src, dst uint64
	if u := ip.Upper(b); ip.Fragment == Unfragmented && len(u) >= 4 {
		switch ip.Proto {
		case ProtoTCP, ProtoUDP, ProtoSCTP, ProtoDCCP, ProtoUDPLite:
			src = uint64(binary.BigEndian.Uint16(u))
			dst = uint64(binary.BigEndian.Uint16(u[2:]))
		}
	}
	h := mixAddr(ip.Src, src) + mixAddr(ip.Dst, dst) + uint64(ip.Proto)
	h = FoldMul(h, 0x9e3779b97f4a7c15)
	return uint32(h) ^ uint32(h>>32)
}

// FoldMul returns the XOR of the two halves of the 128-bit product a*b: the mixing step of
// wyhash, from which hash functions are built.
func FoldMul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func mixAddr(a netip.Addr, port uint64) uint64 {
	if a.Is4() {
		b := a.As4()
		return FoldMul(uint64(binary.BigEndian.Uint32(b[:]))^0xa0761d6478bd642f, port^0xe7037ed1a0b428db)
	}
	b := a.As16()
	h := FoldMul(binary.BigEndian.Uint64(b[:8])^0xa0761d6478bd642f, binary.BigEndian.Uint64(b[8:])^0xe7037ed1a0b428db)
	return FoldMul(h^port, 0x8ebc6af09c88c6e3)
}
