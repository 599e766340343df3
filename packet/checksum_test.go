package packet_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

// checksumAt is where each protocol has its checksum.
var checksumAt = map[uint8]int{
	packet.ProtoTCP:     16,
	packet.ProtoUDP:     6,
	packet.ProtoUDPLite: 6,
	packet.ProtoDCCP:    6,
	packet.ProtoICMPv6:  2,
}

// upperOK verifies a checksum over the pseudo-header as a receiver does.
func upperOK(b []byte, ip packet.IP) bool {
	u := ip.Upper(b)
	return slowSum(pseudoHeader(ip.Src, ip.Dst, ip.Proto, len(u)), u) == 0xffff
}

func TestUpperChecksumIsWhatAReceiverAccepts(t *testing.T) {
	t.Parallel()
	r := random()
	for proto, at := range checksumAt {
		for n := at + 2; n < 200; n++ {
			for _, b := range [][]byte{
				ipv4{proto: proto}.packet(randomBytes(r, n)),
				ipv4{proto: proto, options: []byte{1, 1, 1, 0}}.packet(randomBytes(r, n)),
				ipv6{next: proto}.packet(randomBytes(r, n)),
			} {
				ip := parse(t, b)
				c, ok := packet.UpperChecksum(b, &ip)
				if !ok {
					t.Fatalf("protocol %d, %d bytes: not ok", proto, n)
				}
				binary.BigEndian.PutUint16(ip.Upper(b)[at:], c)
				if !upperOK(b, ip) {
					t.Fatalf("protocol %d, %d bytes: %#04x does not verify", proto, n, c)
				}
			}
		}
	}
}

func TestUpperChecksumIsNotForOtherProtocolsFragmentsOrCutHeaders(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"SCTP":           ipv4{proto: packet.ProtoSCTP}.packet(make([]byte, 40)),
		"ICMPv4":         ping4(nil),
		"first fragment": ipv4{proto: packet.ProtoUDP, fragment: mf}.packet(make([]byte, 40)),
		"later fragment": ipv4{proto: packet.ProtoUDP, fragment: 4}.packet(make([]byte, 40)),
		"cut TCP header": ipv4{proto: packet.ProtoTCP}.packet(make([]byte, 17)),
		"cut UDP header": ipv6{next: packet.ProtoUDP}.packet(make([]byte, 7)),
	} {
		ip := parse(t, b)
		if c, ok := packet.UpperChecksum(b, &ip); ok {
			t.Errorf("%s: %#04x, want none", name, c)
		}
	}
}

// RFC 768: a computed zero is sent as all ones, because zero means none.
func TestUDPChecksumIsNeverComputedAsZero(t *testing.T) {
	t.Parallel()
	b := udp4([]byte{0, 0})
	ip := parse(t, b)
	u := ip.Upper(b)
	binary.BigEndian.PutUint16(u[8:], ^slowSum(pseudoHeader(ip.Src, ip.Dst, packet.ProtoUDP, len(u)), u[:6], u[8:]))
	if c, ok := packet.UpperChecksum(b, &ip); !ok || c != 0xffff {
		t.Fatalf("checksum %#04x %v, want 0xffff", c, ok)
	}
	// TCP has no such rule.
	b = tcp4(tcp{}, []byte{0, 0})
	ip = parse(t, b)
	u = ip.Upper(b)
	binary.BigEndian.PutUint16(u[20:], ^slowSum(pseudoHeader(ip.Src, ip.Dst, packet.ProtoTCP, len(u)), u[:16], u[18:]))
	if c, ok := packet.UpperChecksum(b, &ip); !ok || c != 0 {
		t.Fatalf("checksum %#04x %v, want 0", c, ok)
	}
}

func TestCompleteTurnsAPartialChecksumIntoTheRightOne(t *testing.T) {
	t.Parallel()
	for n := range 100 {
		for _, partial := range [][]byte{
			tcp4(tcp{flags: ack, partial: true}, counting(n)),
			tcp6(tcp{flags: ack, partial: true}, counting(n)),
			partialUDP(udp4(counting(n))),
			partialUDP(udp6(counting(n))),
		} {
			ip := parse(t, partial)
			if !packet.IsPartial(partial, &ip) {
				t.Fatalf("%d bytes: partial checksum not recognised", n)
			}
			packet.Complete(partial, &ip)
			if !upperOK(partial, ip) {
				t.Fatalf("%d bytes: completed checksum does not verify", n)
			}
			if packet.IsPartial(partial, &ip) {
				t.Fatalf("%d bytes: still looks partial", n)
			}
		}
	}
}

func partialUDP(b []byte) []byte {
	var ip packet.IP
	packet.Parse(b, &ip)
	u := ip.Upper(b)
	binary.BigEndian.PutUint16(u[6:], slowSum(pseudoHeader(ip.Src, ip.Dst, ip.Proto, len(u))))
	return b
}

func TestIsPartialIsOnlyForWholeTCPAndUDP(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"complete TCP":   tcp4(tcp{flags: ack}, counting(9)),
		"complete UDP":   udp6(counting(9)),
		"ICMPv6":         ping6(nil),
		"cut TCP header": ipv4{proto: packet.ProtoTCP}.packet(make([]byte, 16)),
		"first fragment": ipv4{proto: packet.ProtoTCP, fragment: mf}.packet(tcp{partial: true}.message(podA, podB, counting(4))),
		"later fragment": ipv4{proto: packet.ProtoTCP, fragment: 2}.packet(make([]byte, 40)),
	} {
		ip := parse(t, b)
		if packet.IsPartial(b, &ip) {
			t.Errorf("%s counts as partial", name)
		}
	}
}

func TestRFC1624_AddressChangeKeepsChecksumsRight(t *testing.T) {
	t.Parallel()
	r := random()
	for range cases(200_000) {
		var b []byte
		to := netip.AddrFrom4([4]byte(randomBytes(r, 4)))
		payload := randomBytes(r, r.IntN(40))
		switch r.IntN(5) {
		case 0:
			b = tcp4(tcp{flags: ack}, payload)
		case 1:
			b = udp4(payload)
		case 2:
			b, to = tcp6(tcp{flags: ack}, payload), netip.AddrFrom16([16]byte(randomBytes(r, 16)))
		case 3:
			b, to = udp6(payload), netip.AddrFrom16([16]byte(randomBytes(r, 16)))
		case 4:
			b, to = ping6(payload), netip.AddrFrom16([16]byte(randomBytes(r, 16)))
		}
		ip := parse(t, b)
		if !packet.UpdateAddresses(b, &ip, packet.DeltaOf(packet.SumAddr(ip.Src), packet.SumAddr(to))) {
			t.Fatal("UpdateAddresses refuses a whole packet")
		}
		ip.Src = to
		if !upperOK(b, ip) {
			t.Fatalf("checksum does not verify for %v: % x", to, b)
		}
		if ip.Proto == packet.ProtoUDP && binary.BigEndian.Uint16(ip.Upper(b)[6:]) == 0 {
			t.Fatal("UDP checksum became 0, which means none")
		}
	}
}

func TestRFC1624_UDPWithoutChecksumStaysWithout(t *testing.T) {
	t.Parallel()
	b := udp4(counting(5))
	ip := parse(t, b)
	ip.Upper(b)[6], ip.Upper(b)[7] = 0, 0
	before := slices.Clone(b)
	if !packet.UpdateAddresses(b, &ip, 0x1234) || !bytes.Equal(b, before) {
		t.Fatal("a checksum appeared")
	}
}

// One update in 65536 is what the UDP rule is for.
func TestRFC1624_UDPUpdateThatGivesZeroIsSentAsAllOnes(t *testing.T) {
	t.Parallel()
	b := udp4(counting(4))
	ip := parse(t, b)
	u := ip.Upper(b)
	sum := binary.BigEndian.Uint16(u[6:])
	if !packet.UpdateUpper(u, packet.ProtoUDP, packet.Delta(sum)) {
		t.Fatal("not updated")
	}
	if got := binary.BigEndian.Uint16(u[6:]); got != 0xffff {
		t.Fatalf("checksum %#04x, want 0xffff", got)
	}
}

func TestAddressChangeLeavesOtherPayloadsAlone(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"SCTP":           ipv4{proto: packet.ProtoSCTP}.packet(counting(40)),
		"ICMPv4":         ping4(counting(4)),
		"ESP":            ipv6{next: 50}.packet(counting(40)),
		"later fragment": ipv4{proto: packet.ProtoTCP, fragment: 8}.packet(counting(40)),
		"no payload":     ipv4{proto: packet.ProtoSCTP}.packet(nil),
	} {
		ip := parse(t, b)
		before := slices.Clone(b)
		if !packet.UpdateAddresses(b, &ip, 0x1234) {
			t.Errorf("%s: refused", name)
		}
		if !bytes.Equal(b, before) {
			t.Errorf("%s: edited", name)
		}
	}
}

func TestAddressChangeIsRefusedWhenTheChecksumIsCutOff(t *testing.T) {
	t.Parallel()
	for proto, at := range checksumAt {
		for n := range at + 2 {
			for _, b := range [][]byte{
				ipv4{proto: proto}.packet(counting(n)),
				ipv4{proto: proto, fragment: mf}.packet(counting(n &^ 7)),
			} {
				var ip packet.IP
				if packet.Parse(b, &ip) != packet.FaultNone {
					continue // an empty fragment
				}
				before := slices.Clone(b)
				if packet.UpdateAddresses(b, &ip, 0x1234) || !bytes.Equal(b, before) {
					t.Errorf("protocol %d, %d bytes: translated by half", proto, n)
				}
			}
		}
	}
}
