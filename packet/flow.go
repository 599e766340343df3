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
// collision affects nothing but load balance, and a secret FlowKey elsewhere.
func FlowHash(b []byte, ip *IP) uint32 { return publicFlowKey.Hash(b, ip) }

// FlowKey is the key of a hash of flows. Four unpredictable words that stay secret prevent
// senders from choosing flows that collide.
type FlowKey [4]uint64

var publicFlowKey = FlowKey{0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3, 0x9e3779b97f4a7c15}

// Hash is FlowHash with this key.
func (k *FlowKey) Hash(b []byte, ip *IP) uint32 {
	var src, dst uint64
	if u := ip.Upper(b); ip.Fragment == Unfragmented && len(u) >= 4 {
		switch ip.Proto {
		case ProtoTCP, ProtoUDP, ProtoSCTP, ProtoDCCP, ProtoUDPLite:
			src = uint64(binary.BigEndian.Uint16(u))
			dst = uint64(binary.BigEndian.Uint16(u[2:]))
		}
	}
	h := k.mix(ip.Src, src) + k.mix(ip.Dst, dst) + uint64(ip.Proto)
	h = FoldMul(h, k[3])
	return uint32(h) ^ uint32(h>>32)
}

// FoldMul returns the XOR of the two halves of the 128-bit product a*b: the mixing step of
// wyhash, from which hash functions are built.
func FoldMul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func (k *FlowKey) mix(a netip.Addr, port uint64) uint64 {
	if a.Is4() {
		b := a.As4()
		return FoldMul(uint64(binary.BigEndian.Uint32(b[:]))^k[0], port^k[1])
	}
	b := a.As16()
	h := FoldMul(binary.BigEndian.Uint64(b[:8])^k[0], binary.BigEndian.Uint64(b[8:])^k[1])
	return FoldMul(h^port, k[2])
}
