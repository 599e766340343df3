//go:build lab || nightly

package lab

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
)

// What a gateway receives from a node's kernel, captured by a plain UDP socket in the
// gateway's place: the assumptions of the gateway's decapsulation, and a check of the
// topology.
func TestNodeSendsFramesThatTheGatewayExpects(t *testing.T) {
	t.Parallel()
	top := wire(t, options{})
	a := top.a
	gateway := a.gw.listenUDP(t, netip.AddrPortFrom(a.gw4, overlayPort[a.encapsulation]))
	pod := a.pod.dial(t, "udp", netip.MustParseAddrPort("10.71.2.9:7"))
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
		if from.Addr() != a.bridge4 {
			t.Errorf("outer source %s, want %s", from.Addr(), a.bridge4)
		}
		if got := binary.BigEndian.Uint32(datagram[4:]) >> 8; got != vni {
			t.Errorf("VNI %d, want %d", got, vni)
		}
		frame := datagram[8:]
		inner, ok := ipOf(frame)
		if !ok || inner.proto != protoUDP {
			continue // neighbour and router discovery of the kernel
		}
		if got, want := net.HardwareAddr(frame[:6]).String(), overlayMAC(gatewayInternal[0]); got != want {
			t.Errorf("inner destination MAC %s, want %s", got, want)
		}
		if got, want := net.HardwareAddr(frame[6:12]).String(), overlayMAC(nodeInternal[0]); got != want {
			t.Errorf("inner source MAC %s, want %s", got, want)
		}
		if inner.src != a.pod4 || inner.dst != addr("10.71.2.9") {
			t.Errorf("inner addresses %s to %s, want %s to 10.71.2.9", inner.src, inner.dst, a.pod4)
		}
		if got := string(inner.payload[8:]); got != "over the strait" {
			t.Errorf("inner payload %q", got)
		}
		return
	}
}

// The outer UDP source port is derived from the inner flow: the underlay may spread flows
// without reordering any.
func TestEachFlowKeepsOneOuterPortAndFlowsAreSpread(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	b := top.b
	const flows, packets, firstPort = 32, 5, 7000
	ports := [flows]map[uint16]bool{} // outer source ports by flow
	frames := listenOn(t, b.node, "gw0", func(frame []byte) bool {
		outer, ok := ipOf(frame)
		return ok && outer.src == b.gw4 && toPort(overlayPort[b.encapsulation])(frame) && toPod(outer, b.pod4)
	})
	var senders [flows]io.Writer
	send := func(flow int) { _, _ = senders[flow].Write([]byte("one of a flow")) } // no process listens: a write may return the error of an earlier one
	for flow := range flows {
		senders[flow] = top.a.pod.dial(t, "udp", netip.AddrPortFrom(top.a.sees(b.pod4), uint16(firstPort+flow)))
		for range packets {
			send(flow)
		}
	}
	eventually(t, "packets of every flow have arrived", func() bool {
		for _, frame := range frames.frames() {
			outer, _ := ipOf(frame)
			inner, _ := ipOf(outer.payload[8+8:])
			flow := int(binary.BigEndian.Uint16(inner.payload[2:])) - firstPort
			if ports[flow] == nil {
				ports[flow] = map[uint16]bool{}
			}
			ports[flow][binary.BigEndian.Uint16(outer.payload)] = true
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
func toPod(outer ipPacket, pod netip.Addr) bool {
	if len(outer.payload) < 8+8 {
		return false
	}
	inner, ok := ipOf(outer.payload[8+8:])
	return ok && inner.proto == protoUDP && inner.dst == pod && len(inner.payload) >= 8
}
