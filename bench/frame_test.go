package bench

import (
	"bytes"
	"net/netip"
	"testing"

	"strait.dev/strait/bench/traffic"
	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/plan"
	"strait.dev/strait/packet"
)

var (
	example  = flow{netip.MustParseAddr("10.0.1.5"), netip.MustParseAddr("10.71.2.9"), 4711, port}
	example6 = flow{netip.MustParseAddr("fd10:0:0:1::5"), netip.MustParseAddr("fd71:0:0:2::9"), 4711, port}
)

// checked parses the packet of a frame and verifies both checksums.
func checked(t *testing.T, frame []byte) (ip packet.IP, udp []byte) {
	t.Helper()
	b := frame[gateway.EncapLen:]
	if f := packet.Parse(b, &ip); f != packet.FaultNone {
		t.Fatalf("the packet has fault %d", f)
	}
	udp = ip.Upper(b)
	if sum := packet.Sum(udp, packet.PseudoSum(ip.Src, ip.Dst, ip.Proto, len(udp))); sum != 0xffff {
		t.Errorf("its UDP checksum sums to %#x", sum)
	}
	return ip, udp
}

func TestMarkedPacketsHaveValidChecksums(t *testing.T) {
	t.Parallel()
	for _, f := range []flow{example, example6} {
		for _, size := range []int{64, 65, 570, 1400} {
			b := frame(101, nodeInternal, gatewayInternal, f.packet(size))
			if len(b) != gateway.EncapLen+size {
				t.Errorf("the frame of %d bytes has %d", size, len(b))
			}
			checked(t, b)
			traffic.Mark{Trial: 1, Number: 2, Due: 3}.Put(b)
			fixFrameChecksum(b)
			checked(t, b)
		}
	}
}

func TestResponseKeepsChecksumsAndMark(t *testing.T) {
	t.Parallel()
	for _, f := range []flow{example, example6} {
		b := frame(101, gatewayInternal, nodeInternal, f.packet(64)) // as the gateway sends it
		traffic.Mark{Trial: 7}.Put(b)
		fixFrameChecksum(b)
		if !makeResponse(b) {
			t.Fatal("no response was made")
		}
		ip, udp := checked(t, b)
		if ip.Src != f.dst || ip.Dst != f.src || !bytes.Equal(udp[:4], []byte{port >> 8, port & 0xff, 4711 >> 8, 4711 & 0xff}) {
			t.Errorf("from %v to %v, ports % x", ip.Src, ip.Dst, udp[:4])
		}
		want := frame(101, nodeInternal, gatewayInternal, f.packet(64))[:gateway.EncapLen]
		if !bytes.Equal(b[:gateway.EncapLen], want) {
			t.Errorf("headers are % x, want % x", b[:gateway.EncapLen], want)
		}
		if m, ok := traffic.MarkOf(b); !ok || m.Trial != 7 {
			t.Errorf("the mark is %+v", m)
		}
	}
}

func TestForeignDatagramsAreNotAnswered(t *testing.T) {
	t.Parallel()
	other := example
	other.dport++
	for name, b := range map[string][]byte{
		"other port": frame(101, gatewayInternal, nodeInternal, other.packet(64)),
		"short":      frame(101, gatewayInternal, nodeInternal, example.packet(64)[:20]),
		"short IPv6": frame(101, gatewayInternal, nodeInternal, example6.packet(64)[:47]),
		"no packet":  frame(101, gatewayInternal, nodeInternal, nil),
		"empty":      nil,
	} {
		if makeResponse(b) {
			t.Errorf("%s: answered", name)
		}
	}
}

func TestRequestsOfNewFlowsDiffer(t *testing.T) {
	t.Parallel()
	x := &ends{build: func(f flow, size int) []byte { return f.packet(size) }}
	seen := make(map[string]bool)
	const count = 2000
	next := x.requests(4, count, true)
	for i := range count {
		var ip packet.IP
		b := next(i)
		if packet.Parse(b, &ip) != packet.FaultNone || !plan.A.NodePods[plan.V4].Contains(ip.Src) {
			t.Fatalf("request %d is from %v", i, ip.Src)
		}
		seen[string(b[:example.headersLen()])] = true
	}
	if len(seen) != count {
		t.Errorf("%d flows, want %d", len(seen), count)
	}
}
