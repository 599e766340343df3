//go:build lab || nightly

package hostile

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"strait.dev/strait/test/lab"
)

// junk: T11, packets that are expensive to handle: fragments, options, extension headers,
// ICMP errors, echo requests. Pods and peers may send them; well-formed ones are forwarded
// for the receiver to judge.
func (h *hostile) junk() []attack {
	e := h.attackers
	const onward = "the well-formed ones are forwarded"
	on := func(sides []string, reasons ...string) (names []string) {
		for _, side := range sides {
			for _, reason := range reasons {
				names = append(names, "a/"+side+"/"+reason)
			}
		}
		return names
	}
	directions := []string{"egress", "ingress"}
	toHost := h.inBothDirections("fragments for the gateway itself, never complete and overlapping", "", 5000, nil,
		func(random *rand.Rand, n uint8, src4, _, src6, _ netip.Addr) []byte {
			dst4, dst6 := lab.GatewayExternal[0], lab.GatewayExternal[1]
			if src4 == e.pod4 {
				dst4, dst6 = lab.GatewayInternal[0], lab.GatewayInternal[1]
			}
			return anyFragment(random, n, src4, dst4, src6, dst6)
		})
	return []attack{
		h.inBothDirections("first fragments that are never completed", onward, 5000, nil,
			func(random *rand.Rand, n uint8, src4, dst4, src6, dst6 netip.Addr) []byte {
				if random.IntN(2) == 0 {
					return lab.Fragment4(src4, dst4, lab.ProtoUDP, uint16(random.Uint32()), 0, true, marked(n, 1200))
				}
				return lab.Fragment6(src6, dst6, lab.ProtoUDP, random.Uint32(), 0, true, marked(n, 1200))
			}),
		h.inBothDirections("overlapping, tiny, misplaced and endless fragments", onward, 5000, on(directions, "ip_fragment"), anyFragment),
		toHost,
		h.inBothDirections("IPv4 options of random bytes, source routes among them", onward, 5000, on(directions, "ip_options", "ip_source_route"),
			func(random *rand.Rand, n uint8, src4, dst4, _, _ netip.Addr) []byte {
				options := randomBytes(random, 4*(1+random.IntN(10)))
				if random.IntN(3) == 0 {
					options[0] = [2]byte{131, 137}[random.IntN(2)]
				}
				return withOptions(src4, dst4, options, marked(n, 64))
			}),
		h.inBothDirections("chains of IPv6 extension headers, type 0 routing headers among them", onward, 5000, on(directions, "ip_extension", "ip_source_route"),
			func(random *rand.Rand, n uint8, _, _, src6, dst6 netip.Addr) []byte {
				return extensionChain(random, src6, dst6, marked(n, 64))
			}),
		h.inBothDirections("invalid headers: lengths, versions, checksums, sizes", "", 5000,
			append(on(directions, "ip_header", "ip_checksum"), on(directions[:1], "ip_length", "ip_truncated")...),
			func(random *rand.Rand, n uint8, src4, dst4, _, _ netip.Addr) []byte {
				b := lab.UDPTo(netip.AddrPortFrom(src4, 9), netip.AddrPortFrom(dst4, 9), marked(n, 64))
				switch random.IntN(4) {
				case 0: // a header shorter than its fixed part, or longer than the packet
					b[0] = 0x40 | byte(random.IntN(5))
				case 1: // shorter than its header
					binary.BigEndian.PutUint16(b[2:], uint16(random.IntN(20)))
					lab.Sum4(b)
				case 2: // longer than received: WireGuard itself drops both of these from the tunnel
					binary.BigEndian.PutUint16(b[2:], uint16(len(b)+1+random.IntN(60000)))
					lab.Sum4(b)
				default:
					b[10] ^= byte(1 + random.IntN(255))
				}
				return b
			}),
		h.inBothDirections("ICMP errors about unknown packets, corrupted, and truncated", "", 5000,
			on(directions, "icmp_unrelated", "icmp_checksum", "icmp_quote"),
			func(random *rand.Rand, n uint8, src4, dst4, _, _ netip.Addr) []byte {
				quote := lab.UDPTo(netip.AddrPortFrom(nobodysAddr, 9), netip.AddrPortFrom(src4, 9), marked(n, 32))
				switch random.IntN(3) {
				case 0:
					return lab.ICMP4(src4, dst4, 3, 4, 68, quote)
				case 1:
					b := lab.ICMP4(src4, dst4, 11, 0, 0, quote)
					b[22] ^= 0x5a
					return b
				default:
					return lab.ICMP4(src4, dst4, 3, 1, 0, quote[:random.IntN(19)])
				}
			}),
	}
}

// mixture returns one of many packets, of either family, from an attacker to a victim.
type mixture func(random *rand.Rand, n uint8, src4, dst4, src6, dst6 netip.Addr) []byte

// inBothDirections sends a mixture from the attacker pod, through the node, and from the
// peer, through the tunnel.
func (h *hostile) inBothDirections(name, passes string, rate int, counted []string, mix mixture) attack {
	e, a := h.attackers, h.top.A
	return attack{
		threat: "T11", name: name, rate: rate, passes: passes, counted: counted,
		floods: func(t *testing.T, n uint8) []shots {
			random := rand.New(rand.NewPCG(11, uint64(n)))
			return []shots{
				{h.asNode(t, a.Encapsulation), pool(4096, func(int) []byte {
					return lab.FrameOf(a.Encapsulation, lab.VNI, mix(random, n, e.pod4, lab.Addr("10.71.2.9"), e.pod6, lab.Addr("fd00:71:0:2::9")))
				})},
				{h.attackers.peer.send, pool(4096, func(int) []byte { return mix(random, n, peerPod4, a.Pod4, peerPod6, a.Pod6) })},
			}
		},
	}
}

// peerPod4 and peerPod6 are addresses that the peer may use: missing pods of B.
var peerPod4, peerPod6 = lab.Addr("10.0.2.66"), lab.Addr("fd00:10:0:2::66")

// echoFlood sends echo requests to the gateway, which answers.
func (h *hostile) echoFlood() attack {
	return h.inBothDirections("echo requests to the gateway itself", "its answers", 5000, nil,
		func(random *rand.Rand, n uint8, src4, _, _, _ netip.Addr) []byte {
			to := lab.GatewayExternal[0]
			if src4 == h.attackers.pod4 {
				to = lab.GatewayInternal[0]
			}
			return lab.ICMP4(src4, to, 8, 0, random.Uint32(), marked(n, 1200))
		})
}

// errorsAboutTheTransfer claims that the transfer's segments are too big, down to sizes
// that no link has: from another pod and from the tunnel, to test that neither gateway nor
// pod accepts it (RFC 5927).
func (h *hostile) errorsAboutTheTransfer() attack {
	e, a := h.attackers, h.top.A
	lie := func(random *rand.Rand, n uint8, src, dst, from, to netip.AddrPort) []byte {
		segment := make([]byte, 20, 64)
		binary.BigEndian.PutUint16(segment, from.Port())
		binary.BigEndian.PutUint16(segment[2:], to.Port())
		binary.BigEndian.PutUint32(segment[4:], random.Uint32())
		segment[12], segment[13] = 0x50, 0x10
		quote := lab.IP4(from.Addr(), to.Addr(), lab.ProtoTCP, append(segment, marked(n, 0)...))
		quote[3] += 200 // quotes are truncated
		lab.Sum4(quote)
		return lab.ICMP4(src.Addr(), dst.Addr(), 3, 4, uint32([]int{0, 67, 68, 552, 1000}[random.IntN(5)]), quote)
	}
	pod := netip.AddrPortFrom(a.Pod4, h.loads[0].port)
	far := netip.AddrPortFrom(h.top.B.Pod4, bulkPort)
	farSeen := netip.AddrPortFrom(a.Sees(far.Addr()), bulkPort)
	return attack{
		threat: "T11", name: "ICMP errors that claim the running transfer's segments were too big", rate: 5000, passes: "they quote packets that really cross, so they are forwarded; each is seen twice",
		floods: func(t *testing.T, n uint8) []shots {
			random := rand.New(rand.NewPCG(11, uint64(n)))
			return []shots{
				{h.asNode(t, a.Encapsulation), pool(1024, func(int) []byte {
					return lab.FrameOf(a.Encapsulation, lab.VNI, lie(random, n, netip.AddrPortFrom(e.pod4, 0), farSeen, farSeen, pod))
				})},
				{h.attackers.peer.send, pool(1024, func(int) []byte {
					return lie(random, n, netip.AddrPortFrom(peerPod4, 0), pod, pod, far)
				})},
			}
		},
	}
}

// anyFragment returns a fragment that overlaps another, is smaller than its header, leaves
// no space for the next one, or exceeds the longest datagram.
func anyFragment(random *rand.Rand, n uint8, src4, dst4, src6, dst6 netip.Addr) []byte {
	id, more, offset, payload := uint32(random.IntN(16)), true, 0, marked(n, 64)
	switch random.IntN(5) {
	case 0: // RFC 1858: a first fragment without the ports
		payload = append([]byte{0x13, 0x88, 0x13, 0x89, 0, 0, 0, 1}, marked(n, 0)[:0]...)
	case 1: // RFC 5722: overlaps other fragments
		offset = 8 * random.IntN(12)
	case 2: // Rose: the last fragment, without the previous ones
		offset, more = 8*(4000+random.IntN(4000)), random.IntN(2) == 0
	case 3: // beyond 65535 bytes
		offset, payload = 8*8190, marked(n, 600)
	default: // not a multiple of 8
		payload = marked(n, 61)
	}
	if random.IntN(2) == 0 {
		return lab.Fragment4(src4, dst4, lab.ProtoUDP, uint16(id), offset, more, payload)
	}
	return lab.Fragment6(src6, dst6, lab.ProtoUDP, id, offset, more, payload)
}

// withOptions returns an IPv4 packet with options.
func withOptions(src, dst netip.Addr, options, payload []byte) []byte {
	b := lab.IP4(src, dst, lab.ProtoUDP, append(append([]byte{}, options...), payload...))
	b[0] = byte(0x45 + len(options)/4)
	lab.Sum4(b)
	return b
}

// extensionChain returns an IPv6 packet with up to a dozen extension headers in any order,
// some with a wrong length.
func extensionChain(random *rand.Rand, src, dst netip.Addr, payload []byte) []byte {
	kinds := []byte{0, 43, 60, 51, 135, 44}
	chain, next := []byte{}, byte(59) // no next header
	for range 1 + random.IntN(12) {
		h := make([]byte, 8)
		kind := kinds[random.IntN(len(kinds))]
		h[0] = next
		if random.IntN(8) == 0 && kind != 44 {
			h[1] = byte(random.Uint32()) // length, in units of 8 bytes (of 4 for AH)
		}
		if kind == 43 {
			h[2] = byte(random.IntN(3)) // routing type
		}
		chain, next = append(h, chain...), kind
	}
	return lab.IP6(src, dst, next, append(chain, payload...))
}
