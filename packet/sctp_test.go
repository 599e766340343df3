package packet_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

// slowCRC32c is RFC 9260 appendix A, a bit at a time.
func slowCRC32c(b []byte) uint32 {
	crc := ^uint32(0)
	for _, v := range b {
		crc ^= uint32(v)
		for range 8 {
			low := crc & 1
			crc >>= 1
			if low != 0 {
				crc ^= 0x82f63b78
			}
		}
	}
	return ^crc
}

// sctpMessage is a common header with its CRC, and one chunk.
func sctpMessage(kind byte, body []byte) []byte {
	m := []byte{0x9c, 0x40, 0x8c, 0xa0, 0, 0, 0, 1, 0, 0, 0, 0, kind, 0, 0, 0}
	binary.BigEndian.PutUint16(m[14:], uint16(4+len(body)))
	m = append(m, body...)
	binary.LittleEndian.PutUint32(m[8:], slowCRC32c(m))
	return m
}

func sctpOK(m []byte) bool {
	zeroed := slices.Clone(m)
	clear(zeroed[8:12])
	return slowCRC32c(zeroed) == binary.LittleEndian.Uint32(m[8:])
}

var (
	sctpFixed  = []byte{0, 0, 0, 9, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1} // tag, window, streams, TSN
	sctpIPv4   = []byte{0, 5, 0, 8, 10, 0, 1, 5}
	sctpIPv6   = append([]byte{0, 6, 0, 20}, counting(16)...)
	sctpCookie = []byte{0, 7, 0, 7, 0, 5, 0, 0} // contains what looks like an address parameter; one byte of padding
	sctpTypes  = []byte{0, 12, 0, 8, 0, 5, 0, 6}
)

func TestAddressesInSCTPHandshakesAreHidden(t *testing.T) {
	t.Parallel()
	for _, kind := range []byte{1, 2} {
		body := slices.Concat(sctpFixed, sctpTypes, sctpIPv4, sctpCookie, sctpIPv6)
		want := slices.Concat(sctpFixed, sctpTypes, []byte{0x80, 5, 0, 8, 0, 0, 0, 0}, sctpCookie, []byte{0x80, 5, 0, 20}, make([]byte, 16))
		for name, b := range map[string][]byte{
			"IPv4": ipv4{proto: packet.ProtoSCTP}.packet(sctpMessage(kind, body)),
			"IPv6": ipv6{next: packet.ProtoSCTP}.packet(sctpMessage(kind, body)),
		} {
			ip := parse(t, b)
			if !packet.HideSCTPAddresses(b, &ip) {
				t.Fatalf("%s: nothing hidden", name)
			}
			m := ip.Upper(b)
			if got := m[16:]; !bytes.Equal(got, want) {
				t.Errorf("%s, chunk %d: % x, want % x", name, kind, got, want)
			}
			if !sctpOK(m) {
				t.Errorf("%s, chunk %d: the CRC is wrong", name, kind)
			}
			if packet.HideSCTPAddresses(b, &ip) {
				t.Errorf("%s: hidden twice", name)
			}
		}
	}
}

func TestADamagedSCTPHandshakeStaysDamaged(t *testing.T) {
	t.Parallel()
	m := sctpMessage(1, slices.Concat(sctpFixed, sctpIPv4))
	m[20] ^= 4
	b := ipv4{proto: packet.ProtoSCTP}.packet(m)
	ip := parse(t, b)
	if !packet.HideSCTPAddresses(b, &ip) || sctpOK(ip.Upper(b)) {
		t.Error("the CRC was repaired")
	}
}

func TestOtherSCTPPacketsAreLeftAlone(t *testing.T) {
	t.Parallel()
	list := slices.Concat(sctpFixed, sctpIPv4)
	tooLong := sctpMessage(1, list)
	tooLong[15]++
	for name, b := range map[string][]byte{
		"DATA":                          ipv4{proto: packet.ProtoSCTP}.packet(sctpMessage(0, list)),
		"INIT without addresses":        ipv4{proto: packet.ProtoSCTP}.packet(sctpMessage(1, slices.Concat(sctpFixed, sctpTypes))),
		"INIT cut short":                ipv4{proto: packet.ProtoSCTP}.packet(sctpMessage(1, sctpFixed[:15])),
		"INIT longer than the packet":   ipv4{proto: packet.ProtoSCTP}.packet(tooLong),
		"parameter of length 3":         ipv4{proto: packet.ProtoSCTP}.packet(sctpMessage(1, slices.Concat(sctpFixed, []byte{0, 5, 0, 3, 1, 2, 3, 4}))),
		"parameter beyond the chunk":    ipv4{proto: packet.ProtoSCTP}.packet(sctpMessage(1, slices.Concat(sctpFixed, []byte{0, 5, 0, 12, 1, 2, 3, 4}))),
		"a fragment":                    ipv4{proto: packet.ProtoSCTP, fragment: mf}.packet(sctpMessage(1, list)),
		"the same bytes in UDP":         ipv4{proto: 17}.packet(sctpMessage(1, list)),
		"a common header and no chunks": ipv4{proto: packet.ProtoSCTP}.packet(sctpMessage(1, nil)[:12]),
	} {
		before := slices.Clone(b)
		ip := parse(t, b)
		if packet.HideSCTPAddresses(b, &ip) || !bytes.Equal(b, before) {
			t.Errorf("%s: changed", name)
		}
	}
}
