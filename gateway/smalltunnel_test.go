package gateway_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// smallTunnel is what a tunnel carries that is too small for IPv6.
const smallTunnel = 1056

func newSmallTunnel(t *testing.T) *side {
	t.Helper()
	return sideOf(tableOf(t, configured(t, clusterA), gateway.MTUs{Overlay: overlayMTU, Tunnel: smallTunnel}), node1A)
}

// reassembled puts the fragments of one datagram together, as its destination does.
func reassembled(t *testing.T, fragments [][]byte) []byte {
	t.Helper()
	r := packet.NewReassembly(packet.ReassemblyConfig{Timeout: time.Minute})
	for i, b := range fragments {
		var ip packet.IP
		if f := packet.Parse(b, &ip); f != packet.FaultNone {
			t.Fatalf("fragment %d: fault %d", i, f)
		}
		whole, _, fault := r.Add(b, &ip, start)
		if fault != packet.ReassemblyHeld && whole == nil {
			t.Fatalf("fragment %d: %d", i, fault)
		}
		if whole != nil {
			return bytes.Clone(whole)
		}
	}
	t.Fatalf("%d fragments do not make a datagram", len(fragments))
	return nil
}

func TestRFC8200_ATunnelBelow1280FragmentsIPv6(t *testing.T) {
	t.Parallel()
	w := v6
	for _, s := range []struct {
		name string
		send func(*side, []byte) gateway.Result
		flow flow
	}{
		{"Geneve over IPv4", (*side).fromNode, flow{src: w.podA, dst: w.seenPodB}},
		{"VXLAN over IPv6", (*side).fromNode2, flow{src: w.otherPodA, dst: w.seenPodB}},
		{"with extension headers", (*side).fromNode, flow{src: w.podA, dst: w.seenPodB, next: 0, extensions: []byte{packet.ProtoUDP, 0, 5, 2, 0, 0, 0, 0}}},
	} {
		for _, size := range []int{smallTunnel - 1, smallTunnel, smallTunnel + 1, 1279, packet.MinIPv6MTU} {
			a := newSmallTunnel(t)
			payload := counting(size - 48 - len(s.flow.extensions))
			r := s.send(a, s.flow.udp(payload))
			expectVerdict(t, r, gateway.ToTunnel)
			all := pieces(t, r, smallTunnel)
			if size <= smallTunnel {
				if len(all) != 1 {
					t.Errorf("%s: %d bytes that fit in %d pieces", s.name, size, len(all))
				}
				continue
			}
			v := receive(t, reassembled(t, all))
			if v.dst != addr(w.podB) || !bytes.Equal(v.upper[8:], payload) {
				t.Errorf("%s: %d bytes became others, to %v", s.name, size, v.dst)
			}
		}
	}
}

// Any protocol, and every datagram with an identification of its own.
func TestRFC8200_ASmallTunnelFragmentsEveryProtocol(t *testing.T) {
	t.Parallel()
	a := newSmallTunnel(t)
	f := flow{src: v6.podA, dst: v6.seenPodB}
	ids := map[string]bool{}
	for name, b := range map[string][]byte{
		"ping": f.echo(counting(1200)), "TCP": f.tcp(ack, nil, counting(1200)), "SCTP": f.raw(packet.ProtoSCTP, counting(1200)),
		"UDP": f.udp(counting(1200)), "UDP again": f.udp(counting(1200)), "UDP with an unfinished checksum": partial(f).udp(counting(1200)),
	} {
		r := a.fromNode(b)
		expectVerdict(t, r, gateway.ToTunnel)
		all := pieces(t, r, smallTunnel)
		ids[string(all[0][44:48])] = true
		receive(t, reassembled(t, all))
		if len(all) != 2 {
			t.Errorf("%s: %d fragments", name, len(all))
		}
	}
	if len(ids) != 6 {
		t.Errorf("6 datagrams have %d identifications", len(ids))
	}
}

// A datagram that its sender fragmented to 1280 bytes.
func TestRFC8200_ASmallTunnelCutsFragmentsFurther(t *testing.T) {
	t.Parallel()
	f := flow{src: v6.podA, dst: v6.seenPodB, proto: packet.ProtoUDP}
	payload := counting(3000)
	message := f.udp(payload)[40:]
	const each = 1232 // a multiple of 8, with headers 1280 bytes
	a := newSmallTunnel(t)
	var all [][]byte
	for at := 0; at < len(message); at += each {
		end := min(at+each, len(message))
		r := a.fromNode(f.piece(at, end < len(message), message[at:end]))
		expectVerdict(t, r, gateway.ToTunnel)
		for _, b := range pieces(t, r, smallTunnel) {
			all = append(all, b)
			if id := binary.BigEndian.Uint32(b[44:]); id != 9 {
				t.Errorf("identification %d, want that of the sender", id)
			}
		}
	}
	if len(all) != 5 {
		t.Errorf("%d fragments", len(all))
	}
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 2, 0, 3, 1}} {
		var turned [][]byte
		for _, i := range order {
			turned = append(turned, slices.Clone(all[i]))
		}
		if v := receive(t, reassembled(t, turned)); !bytes.Equal(v.upper[8:], payload) {
			t.Error("the datagram became another")
		}
	}
}

func TestRFC8201_ASmallTunnelRefusesIPv6Above1280(t *testing.T) {
	t.Parallel()
	r := newSmallTunnel(t).fromNode(flow{src: v6.podA, dst: v6.seenPodB}.udp(counting(packet.MinIPv6MTU + 1 - 48)))
	expectDrop(t, r, gateway.TooBig)
	if _, mtu := expectError(t, r.Answer, v6.gateway, v6.podA, 64, tooBig); mtu != packet.MinIPv6MTU {
		t.Errorf("MTU %d", mtu)
	}
}
