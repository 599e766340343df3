package userspace

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"strait.dev/strait/geneve"
	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/packet"
)

var (
	gatewayA = netip.MustParseAddr("192.0.2.10")
	gatewayB = netip.MustParseAddr("2001:db8::10")
	unknown  = netip.MustParseAddr("192.0.2.99")
)

// example has one device for each of two gateways.
func example() (t table, a, b *device) {
	t, a, b = table{}, new(device), new(device)
	t.add(Way{257, gatewayA}, a)
	t.add(Way{258, gatewayB}, b)
	return t, a, b
}

// datagram returns a frame in Geneve.
func datagram(vni uint32, frame []byte) []byte {
	b := make([]byte, geneve.HeaderLen)
	geneve.Put(b, vni)
	return append(b, frame...)
}

// udpFrame returns a frame from the gateway's side, from 10.80.0.1 to 10.80.0.11, with the
// text "hello" in UDP without a checksum.
func udpFrame(from, to uint16) []byte {
	b := make([]byte, packet.EthernetHeaderLen+20+8+5)
	packet.PutEthernet(b, packet.MAC{0x0a, 0x58, 10, 80, 0, 11}, packet.MAC{0x0a, 0x58, 10, 80, 0, 1}, packet.EtherTypeIPv4)
	ip := b[packet.EthernetHeaderLen:]
	copy(ip, []byte{0x45, 0, 0, byte(len(ip)), 0, 0, 0, 0, 64, packet.ProtoUDP, 0, 0, 10, 80, 0, 1, 10, 80, 0, 11})
	binary.BigEndian.PutUint16(ip[10:], ^packet.Sum(ip[:20], 0))
	binary.BigEndian.PutUint16(ip[20:], from)
	binary.BigEndian.PutUint16(ip[22:], to)
	binary.BigEndian.PutUint16(ip[24:], 13)
	copy(ip[28:], "hello")
	return b
}

func changed(b []byte, at int, to ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], to)
	return b
}

func TestOnlyFramesFromTheDevicesGatewayAreAccepted(t *testing.T) {
	t.Parallel()
	table, a, b := example()
	frame := make([]byte, 14+20)
	good := datagram(257, frame)
	for _, c := range []struct {
		name     string
		datagram []byte
		from     netip.Addr
		to       *device
		why      Reason
	}{
		{"of a", good, gatewayA, a, NoReason},
		{"of b", datagram(258, frame), gatewayB, b, NoReason},
		{"of a, with an option that is not critical", changed(datagram(257, append(make([]byte, 4), frame...)), 0, 1), gatewayA, a, NoReason},
		{"of an unknown source", good, unknown, nil, UnknownSource},
		{"of b, with the VNI of a", good, gatewayB, nil, WrongVNI},
		{"of a, with an unused VNI", datagram(1, frame), gatewayA, nil, WrongVNI},
		{"nothing", nil, gatewayA, nil, FrameTruncated},
		{"half a header", good[:7], gatewayA, nil, FrameTruncated},
		{"half an Ethernet header", good[:8+13], gatewayA, nil, FrameTruncated},
		{"another version", changed(good, 0, 0x40), gatewayA, nil, GeneveVersion},
		{"a control packet", changed(good, 1, 0x80), gatewayA, nil, GeneveControl},
		{"a critical option", changed(good, 1, 0x40), gatewayA, nil, GeneveCritical},
		{"inconsistent option lengths", changed(good, 0, 1, 0, 0x65, 0x58, 0, 1, 1, 0, 0, 0, 0, 9), gatewayA, nil, GeneveOptions},
		{"IPv4 without Ethernet", changed(good, 2, 0x08, 0x00), gatewayA, nil, GeneveProtocol},
	} {
		to, got, why := table.accept(c.datagram, c.from)
		if to != c.to || why != c.why {
			t.Errorf("%s: device %p, %v; want %p, %v", c.name, to, why, c.to, c.why)
		}
		if why == NoReason && !bytes.Equal(got, frame) {
			t.Errorf("%s: frame %x", c.name, got)
		}
	}
}

func TestReasonNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for why := UnknownSource; why < reasonsEnd; why++ {
		if name := why.String(); name == "" || seen[name] {
			t.Errorf("reason %d has the name %q", why, name)
		} else {
			seen[name] = true
		}
	}
}

func FuzzAccept(f *testing.F) {
	table, a, _ := example()
	f.Add(datagram(257, make([]byte, 60)))
	f.Add(datagram(258, make([]byte, 14)))
	f.Add(changed(datagram(257, make([]byte, 40)), 0, 2, 0, 0x65, 0x58, 0, 1, 1, 0, 1, 3, 0, 1))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		to, frame, why := table.accept(b, gatewayA)
		switch {
		case why != NoReason:
			if to != nil || frame != nil || why >= reasonsEnd {
				t.Errorf("dropped for %v, but returned %p, %x", why, to, frame)
			}
		case to != a:
			t.Error("a frame of one gateway went to another's device")
		case len(frame) < 14 || !bytes.HasSuffix(b, frame):
			t.Errorf("frame %x of %x", frame, b)
		}
		if to, _, why := table.accept(b, unknown); to != nil || why != UnknownSource {
			t.Errorf("of an unknown source: %p, %v", to, why)
		}
	})
}

func FuzzFlow(f *testing.F) {
	f.Add(udpFrame(1, 2))
	f.Add(make([]byte, 14))
	f.Add(append(udpFrame(1, 2)[:12], 0x86, 0xdd, 0x60))
	f.Fuzz(func(t *testing.T, frame []byte) {
		h := flowOf(frame)
		if padded := flowOf(append(bytes.Clone(frame), 0)); h != 0 && padded != h {
			t.Errorf("padding changed flow %#x to %#x", h, padded)
		}
	})
}

func TestAcceptAllocatesNothing(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates; run without -race")
	}
	table, _, _ := example()
	good, frame := datagram(257, udpFrame(1, 2)), udpFrame(1, 2)
	if n := testing.AllocsPerRun(100, func() {
		table.accept(good, gatewayA)
		table.accept(good, unknown)
		flowOf(frame)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
