package gateway_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// sctpInit is an INIT (1) or INIT ACK (2) of a pod that lists an IPv4 and an IPv6 address, RFC 9260 section 3.3.2.1.
func sctpInit(f flow, kind byte) []byte {
	a4, a6 := addr(v4.podA).As4(), addr(v6.podA).As16()
	list := slices.Concat([]byte{0, 5, 0, 8}, a4[:], []byte{0, 6, 0, 20}, a6[:])
	m := slices.Concat([]byte{0x9c, 0x40, 0x8c, 0xa0, 0, 0, 0, 0, 0, 0, 0, 0, kind, 0, 0, byte(20 + len(list))},
		[]byte{0, 0, 0, 9, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1}, list)
	binary.LittleEndian.PutUint32(m[8:], crc32.Checksum(m, crc32.MakeTable(crc32.Castagnoli)))
	return f.raw(packet.ProtoSCTP, m)
}

func TestSCTPHandshakesCrossWithoutTheAddressesOfTheOtherCluster(t *testing.T) {
	t.Parallel()
	a4, a6 := addr(v4.podA).As4(), addr(v6.podA).As16()
	for _, w := range families {
		for _, kind := range []byte{1, 2} {
			r := newA(t).fromNode(sctpInit(flow{src: w.podA, dst: w.seenPodB}, kind))
			expectVerdict(t, r, gateway.ToTunnel)
			r = newB(t).fromTunnel(bytes.Clone(r.Packet))
			expectVerdict(t, r, gateway.ToNode)
			m := readWell(t, r.Packet).upper
			if bytes.Contains(m, a4[:]) || bytes.Contains(m, a6[:]) {
				t.Errorf("IPv%d, chunk %d: lists addresses that are other hosts' in cluster B", r.Version, kind)
			}
			sum := binary.LittleEndian.Uint32(m[8:])
			clear(m[8:12])
			if crc32.Checksum(m, crc32.MakeTable(crc32.Castagnoli)) != sum {
				t.Errorf("IPv%d, chunk %d: the CRC is wrong", r.Version, kind)
			}
		}
	}
}
