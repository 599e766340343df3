//go:build lab || nightly

package lab

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Pod, node and gateway on one machine: the kernel's tunnel device passes inner TCP of up
// to 64 KiB with partial inner checksums to the gateway, because it expects a network card
// to complete both. The gateway must do it.
func TestGatewayOnTheNodesOwnMachine(t *testing.T) {
	t.Parallel()
	top := build(t, options{sameMachine: true})
	sprung := [2]*trap{watch(t, top.a), watch(t, top.b)}
	forEachDirection(t, top, func(t *testing.T, w direction) {
		go serveEcho(w.to.listenUDP(t, netip.AddrPortFrom(w.real, 7)))
		c := w.from.dial(t, "udp", netip.AddrPortFrom(w.seen, 7))
		for _, size := range []int{0, 1, 100, 1200} {
			if err := echo(t, c, make([]byte, size)); err != nil {
				t.Error(err)
			}
		}
		l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 5001))
		transfer(t, w.from, l, netip.AddrPortFrom(w.seen, 5001), transferBytes(t)/8, 2)
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
	top := build(t, options{})
	set := watch(t, top.a)
	l := top.b.pod.listenTCP(t, netip.AddrPortFrom(top.b.pod4, 5001))
	transfer(t, top.a.pod, l, netip.AddrPortFrom(top.a.sees(top.b.pod4), 5001), 4<<20, 1)
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
			top := build(t, options{sameMachine: sameMachine})
			forEachDirection(t, top, func(t *testing.T, w direction) {
				const size, count = 1200, 20
				receiver := w.to.listenUDP(t, netip.AddrPortFrom(w.real, 443))
				c := w.from.dial(t, "udp", netip.AddrPortFrom(w.seen, 443)).(*net.UDPConn)
				if err := control(c, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, size) }); err != nil {
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
func watch(t *testing.T, s *site) *trap {
	t.Helper()
	set := new(trap)
	port := overlayPort[s.encapsulation]
	listenOn(t, s.gw, "eth0", func(frame []byte) bool {
		if !toPort(port)(frame) {
			return false
		}
		outer, _ := ipOf(frame)
		if outer.total > linkMTU {
			set.superPackets.Add(1)
		}
		inner, ok := ipOf(outer.payload[8+8:])
		if !ok || inner.total > linkMTU {
			return false
		}
		pseudo := inner.pseudoSum(len(inner.payload))
		switch field := checksumField(inner); {
		case field == nil || binary.BigEndian.Uint16(field) != pseudo:
		case onesSum(uint32(pseudo), inner.payload) == 0xffff: // complete: one in 65 536 has the same value
		case inner.proto == protoTCP:
			set.unfinishedTCP.Add(1)
		case inner.proto == protoUDP:
			set.unfinishedUDP.Add(1)
		}
		return false
	})
	return set
}

// checksumField returns the offset of the TCP or UDP checksum.
func checksumField(p ipPacket) []byte {
	switch {
	case p.proto == protoTCP && len(p.payload) >= 20:
		return p.payload[16:18]
	case p.proto == protoUDP && len(p.payload) >= 8:
		return p.payload[6:8]
	}
	return nil
}
