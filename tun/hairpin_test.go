package tun

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// A node calls an external address of its own side: Read sends the packets back to nodes,
// even while nothing is for the tunnel, many receives' worth of them, whole and in pieces.
func TestRFC4787REQ9_ReadSendsPrefixMapsHairpinsToTheirNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.nodeOption(t, unix.IP_RECVTOS, 1)
	node, external := netip.MustParseAddr("10.80.0.11"), netip.MustParseAddr("10.70.0.11")
	large := ipv4Packet(node, external, 253, make([]byte, 4000))
	large[6] = 0 // may be fragmented
	large = withTOS(large, packet.ECT1)

	type read struct {
		b   []byte
		err error
	}
	tunnel := make(chan read)
	go func() {
		bufs, sizes := buffers(1)
		_, err := f.device.Read(bufs, sizes, readOffset)
		tunnel <- read{bufs[0][readOffset:][:sizes[0]], err}
	}()
	// Two full receives at a time, so that memory is reused.
	const rounds, each = 4, 2*underlay.ReceiveBatch + 5
	for round := range rounds {
		for i := range each {
			b := tcpPacket(node, external, fmt.Appendf(nil, "packet %d of %d", i, round), false)
			f.fromNode(t, withTOS(b, dscp|packet.CE))
		}
		for i := range each {
			outer, b := f.toNodeTOS(t)
			var ip packet.IP
			if fault := packet.Parse(b, &ip); fault != packet.FaultNone {
				t.Fatalf("fault %d", fault)
			}
			if want := fmt.Appendf(nil, "packet %d of %d", i, round); !bytes.HasSuffix(b, want) {
				t.Fatalf("%q arrived when %q was due", b[40:], want)
			}
			if ip.Src != external || ip.Dst != node || ip.TTL != 63 || outer != packet.CE {
				t.Errorf("%v to %v with TTL %d and outer TOS %#x", ip.Src, ip.Dst, ip.TTL, outer)
			}
		}
		f.fromNode(t, large)
		payload := 0
		for more := true; more; {
			outer, b := f.toNodeTOS(t)
			more = binary.BigEndian.Uint16(b[6:])&0x2000 != 0
			payload += len(b) - packet.IPv4HeaderLen
			if len(b) > 1450 || outer != packet.ECT1 {
				t.Errorf("a fragment of %d bytes with outer TOS %#x", len(b), outer)
			}
		}
		if payload != 4000 {
			t.Errorf("fragments of %d bytes in all", payload)
		}
	}
	f.fromNode(t, tcpPacket(pod, remotePod, []byte("for the tunnel"), false))
	if r := <-tunnel; r.err != nil || !bytes.HasSuffix(r.b, []byte("for the tunnel")) {
		t.Errorf("read %q, %v", r.b, r.err)
	}
	const forwarded = rounds*(each+3) + 1 // 4000 bytes are three fragments
	if n, _ := f.device.Egress.Forwarded(); n != forwarded {
		t.Errorf("%d counted as forwarded, want %d", n, forwarded)
	}
	for r := range gateway.Reasons {
		if n := f.device.Egress.Dropped(r); n != 0 {
			t.Errorf("%d dropped as %q", n, r)
		}
	}
}
