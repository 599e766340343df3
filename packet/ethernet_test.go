package packet_test

import (
	"bytes"
	"net/netip"
	"testing"

	"strait.dev/strait/packet"
)

var (
	gatewayMAC = packet.MACOf(gateway)
	nodeMAC    = packet.MACOf(netip.MustParseAddr("10.80.0.11"))
)

// ethernet is a frame around a payload.
func ethernet(dst, src packet.MAC, etherType uint16, payload []byte) []byte {
	b := make([]byte, packet.EthernetHeaderLen, packet.EthernetHeaderLen+len(payload))
	packet.PutEthernet(b, dst, src, etherType)
	return append(b, payload...)
}

func TestMACOfAnAddress(t *testing.T) {
	t.Parallel()
	for a, want := range map[string]packet.MAC{
		"10.80.0.1":         {0x0a, 0x58, 10, 80, 0, 1},
		"fd00:80::a00:5":    {0x0a, 0x58, 0x0a, 0x00, 0x00, 0x05},
		"2001:db8::1:2:3:4": {0x0a, 0x58, 0, 3, 0, 4},
	} {
		if got := packet.MACOf(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: % x, want % x", a, got, want)
		}
	}
}

func TestEthernetHeaderBytes(t *testing.T) {
	t.Parallel()
	got := ethernet(gatewayMAC, nodeMAC, packet.EtherTypeIPv6, []byte("payload"))
	want := append([]byte{
		0x0a, 0x58, 10, 80, 0, 1, // destination
		0x0a, 0x58, 10, 80, 0, 11, // source
		0x86, 0xdd, // IPv6
	}, "payload"...)
	if !bytes.Equal(got, want) {
		t.Fatalf("% x, want % x", got, want)
	}
	dst, src, etherType, payload, ok := packet.ParseEthernet(got)
	if !ok || dst != gatewayMAC || src != nodeMAC || etherType != packet.EtherTypeIPv6 || string(payload) != "payload" || &payload[0] != &got[14] {
		t.Errorf("% x % x %#x %q %v", dst, src, etherType, payload, ok)
	}
	if _, _, _, payload, ok := packet.ParseEthernet(got[:packet.EthernetHeaderLen]); !ok || len(payload) != 0 {
		t.Errorf("a header alone: %q %v", payload, ok)
	}
	for n := range packet.EthernetHeaderLen {
		if _, _, _, _, ok := packet.ParseEthernet(got[:n]); ok {
			t.Errorf("%d bytes are a frame", n)
		}
	}
}
