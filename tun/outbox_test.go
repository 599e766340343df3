package tun

import (
	"bytes"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/wait"
)

// aResult is one of the ingress journey, for the fixture's node.
func (f *fixture) aResult(t *testing.T) gateway.Result {
	t.Helper()
	r := f.device.Ingress.Packet(tcpPacket(netip.MustParseAddr("10.0.2.9"), pod, nil, false), time.Now())
	if r.Verdict != gateway.ToNode {
		t.Fatalf("verdict %d, reason %q", r.Verdict, r.Reason)
	}
	return r
}

// A datagram that a journey put together from fragments lies in the journey's memory, where
// the next will lie.
func TestAnOutboxKeepsWhatTheJourneyOverwrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.aResult(t)
	x := &f.device.write.out
	memory := make([]byte, packet.MaxLen)
	const packets = 100
	for i := range packets {
		r.Packet = memory[:copy(memory, tcpPacket(pod, remotePod, fmt.Appendf(nil, "packet %d", i), false))]
		r.Reassembled = true
		x.forward(&r)
	}
	x.flush()
	for i := range packets {
		if b := f.toNode(t); !bytes.HasSuffix(b, fmt.Appendf(nil, "packet %d", i)) {
			t.Fatalf("packet %d is %q", i, b[40:])
		}
	}
}

// What the journey was given stays where it is: no copy.
func TestAnOutboxCopiesNothingThatStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := tunnelBufs(tcpPacket(netip.MustParseAddr("10.0.2.9"), pod, nil, false))[0][readOffset:]
	r := f.device.Ingress.Packet(b, time.Now())
	x := &f.device.write.out
	x.forward(&r)
	if len(x.free) != 0 {
		t.Error("the slab is in use")
	}
	x.flush()
}

// More pieces than the slab holds: it is sent and used again.
func TestAnOutboxSendsMorePiecesThanItHolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.aResult(t)
	x := newOutbox(f.device.overlay, &f.device.Ingress.Counters, 2*packet.MaxLen)
	const packets, parts, size = 12, 44, 60000
	var arrived atomic.Int64 // bytes
	var taking sync.WaitGroup
	taking.Go(func() {
		b := make([]byte, 1<<16)
		for {
			n, err := f.node.Read(b)
			if err != nil {
				return
			}
			arrived.Add(int64(n - gateway.EncapLen - packet.IPv4HeaderLen))
		}
	})
	defer func() { f.node.Close(); taking.Wait() }()
	for i := range int64(packets) {
		b := ipv4Packet(netip.MustParseAddr("10.0.2.9"), pod, 253, make([]byte, size))
		b[6] = 0
		b = withTOS(b, 0)
		var ip packet.IP
		if fault := packet.Parse(b, &ip); fault != packet.FaultNone {
			t.Fatalf("fault %d", fault)
		}
		r.Pieces = new(packet.Pieces)
		r.Pieces.Fragments(b, &ip, 1400)
		x.forward(&r)
		// All but what the slab may hold; the node's queue has room for little more.
		wait.Until(t, "the node has what was sent", func() bool { return arrived.Load() >= (i-1)*size })
	}
	x.flush()
	wait.Until(t, "all pieces have arrived", func() bool { return arrived.Load() >= packets*size })
	if n := arrived.Load(); n != packets*size {
		t.Errorf("%d bytes arrived, want %d", n, packets*size)
	}
	if n, _ := f.device.Ingress.Forwarded(); n != packets*parts {
		t.Errorf("%d counted, want %d", n, packets*parts)
	}
}

// A packet is counted once: as forwarded if the kernel took it, else as dropped.
func TestWhatTheKernelRefusesIsNotCountedAsForwarded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.aResult(t)
	x, c := &f.device.write.out, &f.device.Ingress.Counters
	size := uint64(len(r.Packet))
	x.forward(&r)
	x.flush()
	for _, family := range f.device.overlay.senders {
		for _, s := range family {
			s.Close()
		}
	}
	const lost = 3
	for range lost {
		x.forward(&r)
	}
	x.flush()
	if packets, bytes := c.Forwarded(); packets != 1 || bytes != size {
		t.Errorf("%d packets, %d bytes forwarded; want 1 of %d", packets, bytes, size)
	}
	if n := c.Dropped(gateway.UnderlaySend); n != lost {
		t.Errorf("%d dropped, want %d", n, lost)
	}
	r.Answer, r.AnswerHeader = r.Packet, r.Node.Header(r.Version)
	x.answer(&r)
	x.flush()
	if n := c.Dropped(gateway.UnderlaySend); n != lost+1 {
		t.Errorf("%d dropped with a lost answer, want %d", n, lost+1)
	}
}
