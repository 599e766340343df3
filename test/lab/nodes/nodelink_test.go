//go:build lab || nightly

package nodes

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"

	"strait.dev/strait/internal/netns"
	"strait.dev/strait/test/lab"
)

// What a gateway receives from a node's kernel, captured by a plain UDP socket in the
// gateway's place: the assumptions of the gateway's decapsulation, and a check of the
// topology.
func TestNodeSendsFramesThatTheGatewayExpects(t *testing.T) {
	t.Parallel()
	top := lab.Wire(t, lab.Options{})
	a := top.A
	gateway := a.GW.ListenUDP(t, netip.AddrPortFrom(a.GW4, netns.TunnelPorts[a.Encapsulation]))
	pod := a.Pod.Dial(t, "udp", netip.MustParseAddrPort("10.71.2.9:7"))
	if _, err := pod.Write([]byte("over the strait")); err != nil {
		t.Fatal(err)
	}
	for {
		buffer := make([]byte, 1<<16)
		n, from, err := gateway.ReadFromUDPAddrPort(buffer)
		if err != nil {
			t.Fatal(err)
		}
		datagram := buffer[:n]
		if from.Addr() != a.Bridge4 {
			t.Errorf("outer source %s, want %s", from.Addr(), a.Bridge4)
		}
		if got := binary.BigEndian.Uint32(datagram[4:]) >> 8; got != lab.VNI {
			t.Errorf("VNI %d, want %d", got, lab.VNI)
		}
		frame := datagram[8:]
		inner, ok := lab.IPOf(frame)
		if !ok || inner.Proto != lab.ProtoUDP {
			continue // neighbour and router discovery of the kernel
		}
		if got, want := net.HardwareAddr(frame[:6]).String(), netns.TunnelMAC(lab.GatewayInternal[0]); got != want {
			t.Errorf("inner destination MAC %s, want %s", got, want)
		}
		if got, want := net.HardwareAddr(frame[6:12]).String(), netns.TunnelMAC(lab.NodeInternal[0]); got != want {
			t.Errorf("inner source MAC %s, want %s", got, want)
		}
		if inner.Src != a.Pod4 || inner.Dst != lab.Addr("10.71.2.9") {
			t.Errorf("inner addresses %s to %s, want %s to 10.71.2.9", inner.Src, inner.Dst, a.Pod4)
		}
		if got := string(inner.Payload[8:]); got != "over the strait" {
			t.Errorf("inner payload %q", got)
		}
		return
	}
}

// The outer UDP source port is derived from the inner flow: the underlay may spread flows
// without reordering any.
func TestEachFlowKeepsOneOuterPortAndFlowsAreSpread(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	b := top.B
	const flows, packets, firstPort = 32, 5, 7000
	ports := [flows]map[uint16]bool{} // outer source ports by flow
	frames := lab.ListenOn(t, b.Node, "gw0", func(frame []byte) bool {
		outer, ok := lab.IPOf(frame)
		return ok && outer.Src == b.GW4 && lab.ToPort(netns.TunnelPorts[b.Encapsulation])(frame) && toPod(outer, b.Pod4)
	})
	var senders [flows]io.Writer
	send := func(flow int) { _, _ = senders[flow].Write([]byte("one of a flow")) } // no process listens: a write may return the error of an earlier one
	for flow := range flows {
		senders[flow] = top.A.Pod.Dial(t, "udp", netip.AddrPortFrom(top.A.Sees(b.Pod4), uint16(firstPort+flow)))
		for range packets {
			send(flow)
		}
	}
	lab.Eventually(t, "packets of every flow have arrived", func() bool {
		for _, frame := range frames.Frames() {
			outer, _ := lab.IPOf(frame)
			inner, _ := lab.IPOf(outer.Payload[8+8:])
			flow := int(binary.BigEndian.Uint16(inner.Payload[2:])) - firstPort
			if ports[flow] == nil {
				ports[flow] = map[uint16]bool{}
			}
			ports[flow][binary.BigEndian.Uint16(outer.Payload)] = true
		}
		missing := false
		for flow, used := range ports {
			if used == nil { // a busy machine may lose all packets of a flow
				missing = true
				send(flow)
			}
		}
		return !missing
	})
	all := map[uint16]bool{}
	for flow, used := range ports {
		if len(used) != 1 {
			t.Errorf("flow %d came from %d outer ports, want 1", flow, len(used))
		}
		for port := range used {
			all[port] = true
		}
	}
	if len(all) < 2 {
		t.Errorf("%d flows came from a single outer port", flows)
	}
	t.Logf("%d flows over %d outer ports", flows, len(all))
}

// toPod reports whether an encapsulated frame carries UDP to a pod.
func toPod(outer lab.IPPacket, pod netip.Addr) bool {
	if len(outer.Payload) < 8+8 {
		return false
	}
	inner, ok := lab.IPOf(outer.Payload[8+8:])
	return ok && inner.Proto == lab.ProtoUDP && inner.Dst == pod && len(inner.Payload) >= 8
}
