//go:build lab || nightly

package forwarding

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/internal/netns"
	"strait.dev/strait/test/lab"
)

// Pod, node and gateway on one machine: the kernel's tunnel device passes inner TCP of up
// to 64 KiB with partial inner checksums to the gateway, because it expects a network card
// to complete both. The gateway must do it.
func TestGatewayOnTheNodesOwnMachine(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{SameMachine: true})
	sprung := [2]*trap{watch(t, top.A), watch(t, top.B)}
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		go lab.ServeEcho(w.To.ListenUDP(t, netip.AddrPortFrom(w.Real, 7)))
		c := w.From.Dial(t, "udp", netip.AddrPortFrom(w.Seen, 7))
		for _, size := range []int{0, 1, 100, 1200} {
			if err := lab.Echo(t, c, make([]byte, size)); err != nil {
				t.Error(err)
			}
		}
		l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
		lab.Transfer(t, w.From, l, netip.AddrPortFrom(w.Seen, 5001), lab.TransferBytes(t)/8, 2)
	})
	for i, trap := range sprung {
		if trap.superPackets.Load() == 0 || trap.unfinishedTCP.Load() == 0 || trap.unfinishedUDP.Load() == 0 {
			t.Errorf("the lab did not set its trap at gateway %d: %d super-packets, unfinished checksums: %d TCP, %d UDP; want some of each",
				i, trap.superPackets.Load(), trap.unfinishedTCP.Load(), trap.unfinishedUDP.Load())
		}
	}
}

// The counterpart: a simulated physical link carries only complete packets.
func TestGatewayOnAnotherMachineGetsCompletePackets(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	set := watch(t, top.A)
	l := top.B.Pod.ListenTCP(t, netip.AddrPortFrom(top.B.Pod4, 5001))
	lab.Transfer(t, top.A.Pod, l, netip.AddrPortFrom(top.A.Sees(top.B.Pod4), 5001), 4<<20, 1)
	if set.superPackets.Load()+set.unfinishedTCP.Load() != 0 {
		t.Errorf("%d super-packets and %d unfinished checksums crossed a wire", set.superPackets.Load(), set.unfinishedTCP.Load())
	}
}

// A program that passes one buffer to the kernel for segmentation into datagrams
// (UDP_SEGMENT, like QUIC) must find them segmented at the far end.
func TestUDPSegmentationOffloadKeepsDatagrams(t *testing.T) {
	t.Parallel()
	for name, sameMachine := range map[string]bool{"same machine": true, "another machine": false} {
		t.Run(name, func(t *testing.T) {
			top := lab.Build(t, lab.Options{SameMachine: sameMachine})
			lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
				const size, count = 1200, 20
				receiver := w.To.ListenUDP(t, netip.AddrPortFrom(w.Real, 443))
				c := w.From.Dial(t, "udp", netip.AddrPortFrom(w.Seen, 443)).(*net.UDPConn)
				if err := lab.Control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, size) }); err != nil {
					t.Fatal(err)
				}
				payload := make([]byte, size*count)
				for i := range count {
					payload[i*size] = byte(i)
				}
				if _, err := c.Write(payload); err != nil {
					t.Fatal(err)
				}
				for i := range count {
					buffer := make([]byte, 1<<16)
					n, err := receiver.Read(buffer)
					if err != nil {
						t.Fatalf("datagram %d of %d: %v", i, count, err)
					}
					if n != size || buffer[0] != byte(i) {
						t.Fatalf("datagram %d arrived with %d bytes, marked %d; want %d bytes", i, n, buffer[0], size)
					}
				}
			})
		})
	}
}

// trap counts packets that occur only for a gateway on the node's own machine.
type trap struct{ superPackets, unfinishedTCP, unfinishedUDP atomic.Int64 }

// watch counts at the gateway's end of the node link.
func watch(t *testing.T, s *lab.Site) *trap {
	t.Helper()
	set := new(trap)
	port := netns.TunnelPorts[s.Encapsulation]
	lab.ListenOn(t, s.GW, "eth0", func(frame []byte) bool {
		if !lab.ToPort(port)(frame) {
			return false
		}
		outer, _ := lab.IPOf(frame)
		if outer.Total > lab.LinkMTU {
			set.superPackets.Add(1)
		}
		inner, ok := lab.IPOf(outer.Payload[8+8:])
		if !ok || inner.Total > lab.LinkMTU {
			return false
		}
		pseudo := inner.PseudoSum(len(inner.Payload))
		switch field := checksumField(inner); {
		case field == nil || binary.BigEndian.Uint16(field) != pseudo:
		case lab.OnesSum(uint32(pseudo), inner.Payload) == 0xffff: // complete: one in 65 536 has the same value
		case inner.Proto == lab.ProtoTCP:
			set.unfinishedTCP.Add(1)
		case inner.Proto == lab.ProtoUDP:
			set.unfinishedUDP.Add(1)
		}
		return false
	})
	return set
}

// checksumField returns the offset of the TCP or UDP checksum.
func checksumField(p lab.IPPacket) []byte {
	switch {
	case p.Proto == lab.ProtoTCP && len(p.Payload) >= 20:
		return p.Payload[16:18]
	case p.Proto == lab.ProtoUDP && len(p.Payload) >= 8:
		return p.Payload[6:8]
	}
	return nil
}
