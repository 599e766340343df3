package tun

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// markOuter gives all frames that the node sends from now on a TOS.
func (f *fixture) markOuter(t testing.TB, tos uint8) {
	t.Helper()
	f.nodeOption(t, unix.IP_TOS, int(tos))
}

func (f *fixture) nodeOption(t testing.TB, option, value int) {
	t.Helper()
	raw, err := f.node.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, option, value)
	}); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// toNodeTOS receives one frame at the node, which has been told to look at the TOS, and
// returns the outer TOS and the inner packet.
func (f *fixture) toNodeTOS(t testing.TB) (tos uint8, ip []byte) {
	t.Helper()
	b, control := make([]byte, 1<<16), make([]byte, 64)
	n, used, _, _, err := f.node.ReadMsgUDPAddrPort(b, control)
	if err != nil {
		t.Fatalf("nothing arrived at the node: %v", err)
	}
	messages, err := syscall.ParseSocketControlMessage(control[:used])
	if err != nil || len(messages) != 1 || messages[0].Header.Type != unix.IP_TOS {
		t.Fatalf("control messages %+v, %v", messages, err)
	}
	return messages[0].Data[0], b[gateway.EncapLen:n]
}

// withTOS gives an IPv4 packet a TOS.
func withTOS(b []byte, tos uint8) []byte {
	b[1] = tos
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], ^packet.Sum(b[:packet.IPv4HeaderLen], 0))
	return b
}

var allECN = []uint8{packet.NotECT, packet.ECT1, packet.ECT0, packet.CE}

const dscp = 46 << 2 // expedited forwarding, RFC 3246

// The cells of RFC 6040's figure 4, with the outer field set by a node's kernel and the
// inner one seen by WireGuard. An outer DSCP goes no further (RFC 2983, pipe model).
func TestRFC6040_G14_FramesLeaveTheirOuterFieldAsFigure4Says(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bufs, sizes := buffers(4)
	drops := uint64(0)
	for _, inner := range allECN {
		for _, outer := range allECN {
			t.Run(fmt.Sprintf("inner %02b outer %02b", inner, outer), func(t *testing.T) {
				f.markOuter(t, 10<<2|outer)
				f.fromNode(t, withTOS(tcpPacket(pod, remotePod, []byte("data"), false), dscp|inner))
				// What follows shows that what came before it is through.
				f.markOuter(t, 0)
				f.fromNode(t, tcpPacket(pod, remotePod, []byte("last"), false))
				var got []uint8
				for last := false; !last; {
					n, err := f.device.Read(bufs, sizes, readOffset)
					if err != nil {
						t.Fatal(err)
					}
					for i := range n {
						b := bufs[i][readOffset:][:sizes[i]]
						var ip packet.IP
						if fault := packet.Parse(b, &ip); fault != packet.FaultNone {
							t.Fatalf("fault %d", fault)
						}
						if last = bytes.HasSuffix(b, []byte("last")); !last {
							got = append(got, b[1])
						}
					}
				}
				var want []uint8
				if ecn, ok := packet.DecapsulateECN(inner, outer); ok {
					want = []uint8{dscp | ecn}
				} else {
					drops++
				}
				if !slices.Equal(got, want) {
					t.Errorf("TOS %#x, want %#x", got, want)
				}
				if n := f.device.Egress.Dropped(gateway.ECN); n != drops {
					t.Errorf("%d dropped as %q, want %d", n, gateway.ECN, drops)
				}
			})
		}
	}
}

// RFC 6040 section 4.1, normal mode: the outer field is the inner one. The outer DSCP is 0.
func TestRFC6040Compatibility_G14_FramesToNodesBearTheInnerField(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.nodeOption(t, unix.IP_RECVTOS, 1)
	remote := netip.MustParseAddr("10.0.2.9")
	var in [][]byte
	for i := range 20 {
		tos := dscp | allECN[i/3%4]
		in = append(in, withTOS(tcpPacket(remote, pod, fmt.Appendf(nil, "packet %d", i), false), tos))
	}
	if _, err := f.device.Write(tunnelBufs(in...), readOffset); err != nil {
		t.Fatal(err)
	}
	for i := range in {
		outer, b := f.toNodeTOS(t)
		if want := allECN[i/3%4]; outer != want || b[1] != dscp|want {
			t.Errorf("packet %d: outer TOS %#x, inner %#x, want %#x and %#x", i, outer, b[1], want, dscp|want)
		}
		if want := fmt.Appendf(nil, "packet %d", i); !bytes.HasSuffix(b, want) {
			t.Errorf("packet %d arrived out of order", i)
		}
	}
}

// G12: the flow chooses the source port, so a flow stays on one path and in order, and many
// flows use all ports.
func TestG12_AFlowKeepsItsPortAndManyUseAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	remote := netip.MustParseAddr("10.0.2.9")
	const flows, packets = 64, 6
	ports := make(map[uint16]map[uint16]bool) // by inner source port
	next := make(map[uint16]uint32)
	all := make(map[uint16]bool)
	for n := range uint32(packets) {
		var in [][]byte
		for flow := range uint16(flows) {
			b := tcpPacket(remote, pod, binary.BigEndian.AppendUint32(nil, n), false)
			u := b[packet.IPv4HeaderLen:]
			binary.BigEndian.PutUint16(u, 40000+flow)
			u[16], u[17] = 0, 0
			binary.BigEndian.PutUint16(u[16:], ^packet.Sum(u, packet.PseudoSum(remote, pod, packet.ProtoTCP, len(u))))
			in = append(in, withTOS(b, uint8(n))) // marks change in transit
		}
		if _, err := f.device.Write(tunnelBufs(in...), readOffset); err != nil {
			t.Fatal(err)
		}
	}
	b := make([]byte, 1<<16)
	for range flows * packets {
		n, from, err := f.node.ReadFromUDPAddrPort(b)
		if err != nil {
			t.Fatal(err)
		}
		u := b[gateway.EncapLen+packet.IPv4HeaderLen : n]
		flow, number := binary.BigEndian.Uint16(u), binary.BigEndian.Uint32(u[packet.TCPHeaderLen:])
		if number != next[flow] {
			t.Fatalf("flow %d: packet %d arrived when %d was due", flow, number, next[flow])
		}
		next[flow]++
		if ports[flow] == nil {
			ports[flow] = make(map[uint16]bool)
		}
		ports[flow][from.Port()], all[from.Port()] = true, true
	}
	for flow, used := range ports {
		if len(used) != 1 {
			t.Errorf("flow %d left from %d ports", flow, len(used))
		}
	}
	if len(all) != sourcePorts {
		t.Errorf("%d flows left from %d ports, want %d", flows, len(all), sourcePorts)
	}
}
