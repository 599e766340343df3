package packet_test

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

var broadcast = packet.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// arpFrame is who-has 10.80.0.1 tell 10.80.0.11, as Linux sends it.
func arpFrame() []byte {
	return ethernet(broadcast, nodeMAC, packet.EtherTypeARP, []byte{
		0, 1, // Ethernet
		0x08, 0x00, // IPv4
		6, 4, // address lengths
		0, 1, // request
		0x0a, 0x58, 10, 80, 0, 11, // sender
		10, 80, 0, 11,
		0, 0, 0, 0, 0, 0, // target, asked for
		10, 80, 0, 1,
	})
}

func TestARPRequestIsAnswered(t *testing.T) {
	t.Parallel()
	padded := append(arpFrame(), make([]byte, 18)...) // to Ethernet's least, 60 bytes
	for _, frame := range [][]byte{arpFrame(), padded} {
		request, ok := packet.ParseARP(frame)
		want := packet.ARP{SenderMAC: nodeMAC, Sender: netip.MustParseAddr("10.80.0.11"), Target: gateway}
		if !ok || request != want {
			t.Fatalf("%+v %v, want %+v", request, ok, want)
		}
		dst := bytes.Repeat([]byte{0xa5}, 60)
		n := packet.PutARPReply(dst, request, gatewayMAC)
		reply := []byte{
			0x0a, 0x58, 10, 80, 0, 11, // to the sender of the request
			0x0a, 0x58, 10, 80, 0, 1,
			0x08, 0x06,
			0, 1, 0x08, 0x00, 6, 4,
			0, 2, // reply
			0x0a, 0x58, 10, 80, 0, 1, 10, 80, 0, 1,
			0x0a, 0x58, 10, 80, 0, 11, 10, 80, 0, 11,
		}
		if n != packet.ARPReplyLen || !bytes.Equal(dst[:n], reply) {
			t.Errorf("% x, want % x", dst[:n], reply)
		}
		if !bytes.Equal(dst[n:], bytes.Repeat([]byte{0xa5}, 60-n)) {
			t.Error("written behind its end")
		}
		if packet.PutARPReply(frame, request, gatewayMAC); !bytes.Equal(frame[:n], reply) {
			t.Errorf("in place: % x", frame[:n])
		}
	}
}

// RFC 5227 section 1.1: the sender of a probe has no address yet.
func TestARPProbeIsAnswered(t *testing.T) {
	t.Parallel()
	frame := arpFrame()
	copy(frame[28:], []byte{0, 0, 0, 0})
	if request, ok := packet.ParseARP(frame); !ok || request.Sender != netip.IPv4Unspecified() || request.Target != gateway {
		t.Errorf("%+v %v", request, ok)
	}
}

func TestARPOtherFramesAreNotRequests(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(b []byte) []byte{
		"another EtherType":        func(b []byte) []byte { b[13] = 0; return b },
		"another hardware":         func(b []byte) []byte { b[15] = 6; return b },
		"another protocol":         func(b []byte) []byte { b[16] = 0x86; return b },
		"hardware length 8":        func(b []byte) []byte { b[18] = 8; return b },
		"protocol length 16":       func(b []byte) []byte { b[19] = 16; return b },
		"a reply":                  func(b []byte) []byte { b[21] = 2; return b },
		"a reverse request":        func(b []byte) []byte { b[21] = 3; return b },
		"a group as sender":        func(b []byte) []byte { b[22] |= 1; return b },
		"no sender":                func(b []byte) []byte { clear(b[22:28]); return b },
		"an announcement":          func(b []byte) []byte { copy(b[38:], b[28:32]); return b },
		"an announcement by reply": func(b []byte) []byte { b[21] = 2; copy(b[38:], b[28:32]); return b },
	} {
		if request, ok := packet.ParseARP(edit(arpFrame())); ok {
			t.Errorf("%s: %+v", name, request)
		}
	}
	for n := range arpFrame() {
		if _, ok := packet.ParseARP(arpFrame()[:n]); ok {
			t.Errorf("%d bytes are a request", n)
		}
	}
}

func FuzzARP(f *testing.F) {
	f.Add(arpFrame())
	f.Add(append(arpFrame(), make([]byte, 18)...))
	f.Add(ethernet(broadcast, nodeMAC, packet.EtherTypeIPv4, udp4(nil)))
	f.Fuzz(func(t *testing.T, frame []byte) {
		before := slices.Clone(frame)
		request, ok := packet.ParseARP(frame)
		if !bytes.Equal(frame, before) {
			t.Fatal("ParseARP edits")
		}
		if !ok {
			return
		}
		memory := make([]byte, packet.ARPReplyLen+8)
		n := packet.PutARPReply(memory[:packet.ARPReplyLen], request, gatewayMAC)
		if n != packet.ARPReplyLen || !bytes.Equal(memory[n:], make([]byte, 8)) {
			t.Fatalf("wrote %d bytes: % x", n, memory)
		}
		// The reply asked back is the request with its ends exchanged.
		memory[21] = 1
		back, ok := packet.ParseARP(memory[:n])
		if !ok || back != (packet.ARP{SenderMAC: gatewayMAC, Sender: request.Target, Target: request.Sender}) {
			t.Fatalf("%+v, reply %+v %v", request, back, ok)
		}
	})
}
