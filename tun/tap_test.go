package tun

import (
	"bytes"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/wait"
	"strait.dev/strait/underlay"
)

// sightings are what a tap has seen that ends in a text.
type sightings struct {
	mu     sync.Mutex
	suffix string
	seen   map[gateway.Stage][][]byte
	ends   map[gateway.Stage][2]netip.AddrPort // local, remote
}

func (s *sightings) tap(at gateway.Stage, local, remote netip.AddrPort, head, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.HasSuffix(body, []byte(s.suffix)) && at != gateway.WireGuardIn && at != gateway.WireGuardOut {
		return
	}
	if s.seen == nil {
		s.seen, s.ends = make(map[gateway.Stage][][]byte), make(map[gateway.Stage][2]netip.AddrPort)
	}
	s.seen[at] = append(s.seen[at], append(bytes.Clone(head), body...))
	s.ends[at] = [2]netip.AddrPort{local, remote}
}

func (s *sightings) at(p gateway.Stage) (packets [][]byte, ends [2]netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[p], s.ends[p]
}

var everywhere = []gateway.Stage{gateway.OverlayIn, gateway.FromNode, gateway.IntoTunnel, gateway.WireGuardOut, gateway.WireGuardIn, gateway.FromTunnel, gateway.IntoNode, gateway.OverlayOut}

func TestATapSeesAPacketAtEveryPlaceOfItsJourney(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	const text = "look at me"
	near, far := &sightings{suffix: text}, &sightings{suffix: text}
	defer a.fabric.Tap(near.tap, everywhere...)()
	defer b.fabric.Tap(far.tap, everywhere...)()
	sent := tcpPacket(pod, netip.MustParseAddr("10.71.2.9"), []byte(text), false)
	a.send(t, sent)
	b.receives(t, text)

	// Where it is seen, and with which addresses.
	for _, c := range []struct {
		by       *sightings
		at       gateway.Stage
		src, dst string
		ttl      uint8
	}{
		{near, gateway.FromNode, "10.0.1.5", "10.71.2.9", 64},
		{near, gateway.IntoTunnel, "10.0.1.5", "10.0.2.9", 63},
		{far, gateway.FromTunnel, "10.0.1.5", "10.0.2.9", 63},
		{far, gateway.IntoNode, "10.72.1.5", "10.0.2.9", 62},
	} {
		packets, _ := c.by.at(c.at)
		var ip packet.IP
		if len(packets) != 1 || packet.Parse(packets[0], &ip) != packet.FaultNone {
			t.Errorf("place %d: %d packets", c.at, len(packets))
			continue
		}
		if ip.Src.String() != c.src || ip.Dst.String() != c.dst || ip.TTL != c.ttl {
			t.Errorf("place %d: %v to %v with TTL %d", c.at, ip.Src, ip.Dst, ip.TTL)
		}
	}
	for _, c := range []struct {
		by   *sightings
		at   gateway.Stage
		end  *end
		head int
	}{{near, gateway.OverlayIn, a, 0}, {far, gateway.OverlayOut, b, gateway.EncapLen}} {
		datagrams, ends := c.by.at(c.at)
		node := c.end.node.LocalAddr().String()
		if len(datagrams) != 1 || ends[1].String() != node || ends[0].Addr() != c.end.gateway.Addr() {
			t.Errorf("place %d: %d datagrams between %v, want one with node %s", c.at, len(datagrams), ends, node)
			continue
		}
		if _, _, _, fault := geneve.Decode(datagrams[0]); fault != geneve.FaultNone {
			t.Errorf("place %d: no frame: %v", c.at, fault)
		}
	}
	for _, c := range []struct {
		by            *sightings
		at            gateway.Stage
		local, remote uint16
	}{{near, gateway.WireGuardOut, a.port, b.port}, {far, gateway.WireGuardIn, b.port, a.port}} {
		datagrams, ends := c.by.at(c.at)
		if len(datagrams) == 0 || ends[0].Port() != c.local || ends[1].Port() != c.remote {
			t.Errorf("place %d: %d datagrams between %v", c.at, len(datagrams), ends)
		}
		for _, d := range datagrams {
			if bytes.Contains(d, []byte(text)) {
				t.Errorf("place %d: not encrypted", c.at)
			}
		}
	}
	for _, at := range []gateway.Stage{gateway.IntoNode, gateway.OverlayOut, gateway.FromTunnel} {
		if packets, _ := near.at(at); len(packets) > 0 {
			t.Errorf("the near gateway sees it at place %d", at)
		}
	}
}

func TestATapSeesWhatTheGatewayItselfAnswers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var seen sightings
	f.fabric().Tap(seen.tap, gateway.IntoNode, gateway.OverlayOut)
	expired := tcpPacket(pod, remotePod, nil, false)
	expired[8] = 1 // TTL
	expired[10], expired[11] = 0, 0
	sum := ^packet.Sum(expired[:packet.IPv4HeaderLen], 0)
	expired[10], expired[11] = byte(sum>>8), byte(sum)
	f.fromNode(t, expired)
	go f.device.Read(readArguments())
	f.toNode(t)
	packets, _ := seen.at(gateway.IntoNode)
	var ip packet.IP
	if len(packets) != 1 || packet.Parse(packets[0], &ip) != packet.FaultNone || ip.Proto != packet.ProtoICMP || ip.Dst != pod {
		t.Errorf("saw % x", packets)
	}
	if datagrams, _ := seen.at(gateway.OverlayOut); len(datagrams) != 1 || !bytes.HasSuffix(datagrams[0], packets[0]) {
		t.Errorf("saw % x", datagrams)
	}
}

// fabric is as much of one as taps need.
func (f *fixture) fabric() *Fabric {
	return &Fabric{Gateway: f.device.gateway, Overlay: f.device.overlay, mux: underlay.NewMux(underlay.Options{})}
}

func TestOneTapIsRemovedAndOthersGoOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	fabric := f.fabric()
	var one, two sightings
	removeOne := fabric.Tap(one.tap, gateway.FromTunnel)
	removeTwo := fabric.Tap(two.tap, gateway.FromTunnel, gateway.IntoNode)
	write := func() {
		b := tcpPacket(netip.MustParseAddr("10.0.2.9"), pod, []byte("x"), false)
		f.device.Write(tunnelBufs(b), readOffset)
	}
	write()
	removeOne()
	removeOne() // a second call is a no-op
	write()
	removeTwo()
	write()
	first, _ := one.at(gateway.FromTunnel)
	second, _ := two.at(gateway.FromTunnel)
	if len(first) != 1 || len(second) != 2 {
		t.Errorf("saw %d and %d packets", len(first), len(second))
	}
	if f.device.overlay.tapping.now.Load() != nil {
		t.Error("packets still look for taps")
	}
}

func TestTappedReadAndWriteDoNotAllocate(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates; run without -race")
	}
	f := newFixture(t)
	var seen [gateway.Stages]atomic.Int64
	defer f.fabric().Tap(func(at gateway.Stage, _, _ netip.AddrPort, _, _ []byte) { seen[at].Add(1) }, everywhere...)()
	in := tunnelBufs(tcpPacket(netip.MustParseAddr("10.0.2.9"), pod, make([]byte, 1000), false))
	fresh := bytes.Clone(in[0])
	bufs, sizes := buffers(4)
	frame := f.frame(tcpPacket(pod, remotePod, make([]byte, 1000), false))
	if n := testing.AllocsPerRun(100, func() {
		copy(in[0], fresh)
		f.device.Write(in, readOffset)
		f.send(t, frame)
		f.device.Read(bufs, sizes, readOffset)
	}); n != 0 {
		t.Errorf("%v allocations for a packet each way", n)
	}
	for _, at := range []gateway.Stage{gateway.OverlayIn, gateway.FromNode, gateway.IntoTunnel, gateway.FromTunnel, gateway.IntoNode, gateway.OverlayOut} {
		if seen[at].Load() < 100 {
			t.Errorf("place %d: %d packets", at, seen[at].Load())
		}
	}
}

// Taps come and go while packets flow both ways.
func TestTapsMayChangeWhilePacketsFlow(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	var seen atomic.Int64
	ended := make(chan bool)
	var changing sync.WaitGroup
	for range 2 {
		changing.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					a.fabric.Tap(func(_ gateway.Stage, _, _ netip.AddrPort, head, body []byte) { seen.Add(int64(len(head) + len(body))) }, everywhere...)()
				}
			}
		})
	}
	rounds := 0
	wait.Until(t, "taps have seen something of 200 packets each way", func() bool {
		for range 20 {
			a.send(t, tcpPacket(pod, netip.MustParseAddr("10.71.2.9"), []byte("there"), false))
			b.send(t, tcpPacket(pod, netip.MustParseAddr("10.72.2.9"), []byte("back"), false))
		}
		rounds++
		return rounds >= 10 && seen.Load() > 0
	})
	close(ended)
	changing.Wait()
	if a.fabric.Overlay.tapping.now.Load() != nil {
		t.Error("a tap stays behind")
	}
}
