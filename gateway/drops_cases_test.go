package gateway_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
)

// frameDrops are datagrams from the underlay that are no frames of a node.
func frameDrops() []dropCase {
	good := flow{src: v4.podA, dst: v4.seenPodB}.udp(counting(20))
	geneve, vxlan := node1A.frame(good), node2A.frame(flow{src: v4.otherPodA, dst: v4.seenPodB}.udp(nil))
	with := func(b []byte, at int, values ...byte) []byte {
		b = slices.Clone(b)
		copy(b[at:], values)
		return b
	}
	options := func(o ...byte) []byte {
		return slices.Concat([]byte{byte(len(o) / 4)}, geneve[1:8], o, geneve[8:])
	}
	from := func(change func(*wire)) wire {
		w := node1A
		change(&w)
		return w
	}
	unknown := from(func(w *wire) { w.underlay = addr("192.0.2.99") })
	otherVNI := from(func(w *wire) { w.vni = 102 })
	otherKind := from(func(w *wire) { w.encapsulation = gateway.VXLAN })
	otherNode := from(func(w *wire) { w.underlay = node2A.underlay })
	multicastMAC := [6]byte{0x33, 0x33, 0xff, 0, 0, 1}

	cases := []dropCase{
		{gateway.UnknownSource, "T1_G9 outer source of no node", datagram(unknown, geneve), nil},
		{gateway.WrongVNI, "G8 VNI of another node", datagram(otherVNI, otherVNI.frame(good)), nil},
		{gateway.WrongVNI, "G8 outer source of another node", datagram(otherNode, geneve), nil},
		{gateway.WrongVNI, "G8 another encapsulation", datagram(otherKind, otherKind.frame(good)), nil},
		{gateway.FrameTruncated, "G5 nothing", datagram(node1A, nil), nil},
		{gateway.FrameTruncated, "G5 half a Geneve header", datagram(node1A, geneve[:7]), nil},
		{gateway.FrameTruncated, "G5 options behind the end", datagram(node1A, with(geneve[:8], 0, 1)), nil},
		{gateway.FrameTruncated, "half an Ethernet header", datagram(node1A, geneve[:8+13]), nil},
		{gateway.FrameTruncated, "half a VXLAN header", datagram(node2A, vxlan[:7]), nil},
		{gateway.GeneveVersion, "G1 version 1", datagram(node1A, with(geneve, 0, 0x40)), nil},
		{gateway.GeneveVersion, "G1 version 2", datagram(node1A, with(geneve, 0, 0x80)), nil},
		{gateway.GeneveVersion, "G1 version 3", datagram(node1A, with(geneve, 0, 0xc0)), nil},
		{gateway.GeneveControl, "G2 O bit", datagram(node1A, with(geneve, 1, 0x80)), nil},
		{gateway.GeneveCritical, "G3 C bit", datagram(node1A, with(geneve, 1, 0x40)), nil},
		{gateway.GeneveCritical, "G4 critical option", datagram(node1A, options(1, 2, 0x80, 0)), nil},
		{gateway.GeneveOptions, "G5 option longer than all options", datagram(node1A, options(1, 2, 3, 1)), nil},
		{gateway.GeneveProtocol, "G7 IPv4 without Ethernet", datagram(node1A, with(geneve, 2, 0x08, 0x00)), nil},
		{gateway.GeneveProtocol, "G7 IPv6 without Ethernet", datagram(node1A, with(geneve, 2, 0x86, 0xdd)), nil},
		{gateway.GeneveProtocol, "G7 junk", datagram(node1A, with(geneve, 2, 0xde, 0xad)), nil},
		{gateway.VXLANFlags, "RFC 7348 no I flag", datagram(node2A, with(vxlan, 0, 0xf7)), nil},
		{gateway.FrameLoop, "G10 from the gateway's own MAC", datagram(node1A, node1A.ethernet(gatewayMAC, gatewayMAC, 0x0800, good)), nil},
		{gateway.FrameEtherType, "VLAN tag", datagram(node1A, node1A.ethernet(gatewayMAC, node1A.mac, 0x8100, good)), nil},
		{gateway.FrameEtherType, "LLDP", datagram(node1A, node1A.ethernet(gatewayMAC, node1A.mac, 0x88cc, good)), nil},
		{gateway.FrameNeighbour, "ARP for another address", datagram(node1A, arpRequest(node1A, v4.node, v4.podA)), nil},
		{gateway.FrameNeighbour, "ARP cut short", datagram(node1A, arpRequest(node1A, v4.node, v4.gateway)[:8+14+27]), nil},
		{gateway.FrameNeighbour, "ARP reply", datagram(node1A, with(arpRequest(node1A, v4.node, v4.gateway), 8+14+7, 2)), nil},
		{gateway.FrameNeighbour, "solicitation for another address", datagram(node1A, solicitation(node1A, v6.node, v6.podA)), nil},
		{gateway.FrameNeighbour, "router solicitation", datagram(node1A, node1A.ethernet(multicastMAC, node1A.mac, 0x86dd,
			flow{src: v6.node, dst: "ff02::2", ttl: 255}.icmp(0, 133, 0, nil))), nil},
		{gateway.FrameNeighbour, "redirect", fromNode(flow{src: v6.node, dst: v6.gateway, ttl: 255}.icmp(0, 137, 0, make([]byte, 32))), nil},
	}
	for n := range 14 {
		cases = append(cases, dropCase{gateway.FrameTruncated, "inner frame cut short", datagram(node2A, vxlan[:8+n]), nil})
	}
	return cases
}

// malformedDrops are packets that a router must not touch, from any side.
func malformedDrops() []dropCase {
	udp, udp6 := flow{src: v4.podA, dst: v4.seenPodB}, flow{src: v6.podA, dst: v6.seenPodB}
	good, good6 := udp.udp(counting(20)), udp6.udp(counting(20))
	with := func(at int, values ...byte) []byte {
		b := slices.Clone(good)
		copy(b[at:], values)
		return sealIPv4(b)
	}
	options := func(o ...byte) []byte {
		f := udp
		f.options = o
		return f.udp(nil)
	}
	extensions := func(next byte, e ...byte) []byte {
		f := udp6
		f.next, f.extensions = next, e
		return f.udp(nil)
	}
	broken := slices.Clone(good)
	broken[8]-- // the TTL, without its checksum
	mapped := slices.Clone(good6)
	copy(mapped[8:], addr("::ffff:10.0.1.5").AsSlice())

	var cases []dropCase
	for _, c := range []struct {
		reason gateway.Reason
		name   string
		b      []byte
	}{
		{gateway.IPTruncated, "I1 nothing", nil},
		{gateway.IPTruncated, "I1 half a header", good[:19]},
		{gateway.IPTruncated, "I1 one byte less than it says", good[:len(good)-1]},
		{gateway.IPTruncated, "I1 half an IPv6 header", good6[:39]},
		{gateway.IPTruncated, "I1 IPv6, one byte less than it says", good6[:len(good6)-1]},
		{gateway.IPVersion, "I1 version 5", with(0, 0x55)},
		{gateway.IPHeader, "I1 header of 16 bytes", with(0, 0x44)},
		{gateway.IPHeader, "RFC 4942 section 2.2 IPv4-mapped address", mapped},
		{gateway.IPLength, "I1 total length 0", with(2, 0, 0)},
		{gateway.IPLength, "I1 total length below the header", with(2, 0, 19)},
		{gateway.IPChecksum, "I1 header checksum", broken},
		{gateway.IPOptions, "option of length 0", options(0x94, 0, 0, 0)},
		{gateway.IPOptions, "option behind the header", options(0x94, 5, 0, 0)},
		{gateway.IPSourceRoute, "I8 loose source route", options(131, 3, 4, 0)},
		{gateway.IPSourceRoute, "I8 strict source route", options(137, 3, 4, 0)},
		{gateway.IPSourceRoute, "I9 RFC 5095 type 0 routing header", extensions(43, packet.ProtoUDP, 0, 0, 0, 0, 0, 0, 0)},
		{gateway.IPExtension, "I9 chain that ends nowhere", extensions(60, 60, 200, 0, 0, 0, 0, 0, 0)},
		{gateway.IPExtension, "I9 chain too long", extensions(60, slices.Repeat([]byte{60, 0, 1, 4, 0, 0, 0, 0}, 9)...)},
		{gateway.IPFragment, "T11 fragment behind 65535", udp.piece(65528, false, counting(16))},
		{gateway.IPFragment, "T11 first fragment of 7 bytes", udp.piece(0, true, counting(7))},
		{gateway.IPFragment, "T11 IPv6 first fragment of 7 bytes", udp6.piece(0, true, counting(7))},
	} {
		cases = append(cases,
			dropCase{c.reason, c.name + " from a node", fromNode(c.b), nil},
			dropCase{c.reason, c.name + " from the tunnel", fromTunnel(c.b), nil},
			dropCase{c.reason, c.name + " from the host", fromHost(c.b), nil})
	}
	return cases
}

// grantDrops are packets of hosts that may not talk to each other.
func grantDrops(w who) []dropCase {
	out := func(src, dst string) func(*side) (gateway.Result, *gateway.Counters) {
		return fromNode(flow{src: src, dst: dst}.udp(counting(20)))
	}
	in := func(src, dst string) func(*side) (gateway.Result, *gateway.Counters) {
		return fromTunnel(flow{src: src, dst: dst}.udp(counting(20)))
	}
	named := func(name string) string { return name + " of " + w.podA }
	cases := []dropCase{
		{gateway.SpoofedSource, named("I11_T2 pod of another node"), out(w.otherPodA, w.seenPodB), nil},
		{gateway.SpoofedSource, named("I11_T2 other node itself"), out(w.nodeWithout, w.seenPodB), nil},
		{gateway.SpoofedSource, named("I7 the gateway's address"), out(w.gateway, w.seenPodB), nil},
		{gateway.SpoofedSource, named("I7 the gateway's external address"), out(w.gateOut, w.seenPodB), nil},
		{gateway.SpoofedSource, named("I7 its own external address"), out(w.nodeOut, w.seenPodB), nil},
		{gateway.SpoofedSource, named("I7 the remote cluster"), out(w.seenPodB, w.podA), nil},
		{gateway.SpoofedSource, named("I7 from and to the remote cluster"), out(w.seenPodB, w.seenNodeB), nil},
		{gateway.SpoofedSource, named("RFC 2827 foreign source"), out(w.foreign, w.seenPodB), nil},
		{gateway.SpoofedSource, named("pod behind no node"), out(w.absentPod, w.seenPodB), nil},
		{gateway.SourceNotGranted, named("T3 pod outside of local.prefixes"), out(w.ungrantedPodA, w.seenPodB), &prohibited},
		{gateway.NoExternalAddress, named("node without external address"), datagram(node2A, node2A.frame(flow{src: w.nodeWithout, dst: w.seenPodB}.udp(nil))), &prohibited},
		{gateway.DestinationNotGranted, named("to the internet"), out(w.podA, w.foreign), &prohibited},
		{gateway.DestinationNotGranted, named("to a pod of this cluster"), out(w.podA, w.otherPodA), &prohibited},
		{gateway.DestinationNotGranted, named("to a node of this cluster"), out(w.podA, w.node), &prohibited},
		{gateway.Multicast, named("I3 to a group"), out(w.podA, w.multicast), nil},

		{gateway.SourceNotGranted, named("I11_T3 foreign source behind the tunnel"), in(w.foreign, w.podA), nil},
		{gateway.SourceNotGranted, named("I11_T3 remote's internal address"), in(w.gateway, w.podA), nil},
		{gateway.SourceNotGranted, named("T3 remote under the name it has here"), in(w.seenPodB, w.podA), nil},
		{gateway.DestinationNotGranted, named("I11_T3 to the internet"), in(w.podB, w.foreign), &prohibited},
		{gateway.DestinationNotGranted, named("T3 to an internal address"), in(w.podB, w.node), &prohibited},
		{gateway.DestinationNotGranted, named("T3 to the gateway's internal address"), in(w.podB, w.gateway), &prohibited},
		{gateway.DestinationNotGranted, named("T3 to a pod outside of local.prefixes"), in(w.podB, w.ungrantedPodA), &prohibited},
		{gateway.DestinationNotGranted, named("T3 back to the remote itself"), in(w.podB, w.seenPodB), &prohibited},
		{gateway.NoNode, named("to a pod behind no node"), in(w.podB, w.absentPod), &hostUnreachable},
		{gateway.Multicast, named("I3 from the tunnel to a group"), in(w.podB, w.multicast), nil},
		{gateway.Multicast, named("I3 from a foreign source to a group"), in(w.foreign, w.multicast), nil},
	}
	for _, m := range martians(w) {
		cases = append(cases,
			dropCase{gateway.Martian, named("I7 from " + m), out(m, w.seenPodB), nil},
			dropCase{gateway.Martian, named("I7 from " + m + " behind the tunnel"), in(m, w.podA), nil},
			dropCase{gateway.Martian, named("I7 to " + m), out(w.podA, m), oneHost(m)},
			dropCase{gateway.Martian, named("I7 to " + m + " from the tunnel"), in(w.podB, m), oneHost(m)})
	}
	return cases
}

// martians are addresses that never cross a router.
func martians(w who) []string {
	if addr(w.podA).Is4() {
		return []string{"0.0.0.0", "0.1.2.3", "127.0.0.1", "169.254.169.254", "240.0.0.1", "255.255.255.254"}
	}
	return []string{"::", "::1", "fe80::1"}
}

// oneHost says what the sender is told about a destination: nothing, if it may
// be more than one host (RFC 1812 section 4.3.2.7).
func oneHost(dst string) *icmpMeaning {
	if a := addr(dst); a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 224) {
		return nil
	}
	return &prohibited
}

// forwardingDrops are packets that may go where they want to, but cannot.
func forwardingDrops(w who) []dropCase {
	out, in := flow{src: w.podA, dst: w.seenPodB}, flow{src: w.podB, dst: w.podA}
	out.df, in.df = true, true
	ttl := func(f flow, ttl uint8) []byte {
		f.ttl = ttl
		return f.udp(nil)
	}
	named := func(name string) string { return name + " of " + w.podA }
	cases := []dropCase{
		{gateway.TTLExceeded, named("I2 TTL 1"), fromNode(ttl(out, 1)), &timeExceeded},
		{gateway.TTLExceeded, named("I2 TTL 1 from the tunnel"), fromTunnel(ttl(in, 1)), &timeExceeded},
		{gateway.OwnerDown, named("to a gateway without a link"), func(a *side) (gateway.Result, *gateway.Counters) {
			a.SetOwners(gateway.Owners{netip.MustParseAddr(w.podB): nil})
			return fromNode(out.udp(nil))(a)
		}, &hostUnreachable},
		{gateway.OwnerDown, named("SYN-ACK to a gateway without a link"), func(a *side) (gateway.Result, *gateway.Counters) {
			a.SetOwners(gateway.Owners{netip.MustParseAddr(w.podB): nil})
			return fromNode(out.tcp(syn|ack, nil, nil))(a)
		}, nil},
		{gateway.TooBig, named("I6 one byte too many"), fromNode(sized(tunnelMTU+1, out)), &tooBig},
		{gateway.TooBig, named("I6 one byte too many from the tunnel"), fromTunnel(sized(overlayMTU+1, in)), &tooBig},
		{gateway.UpperHeader, named("TCP without its checksum"), fromNode(out.raw(packet.ProtoTCP, counting(17))), nil},
		{gateway.UpperHeader, named("UDP without its checksum from the tunnel"), fromTunnel(in.raw(packet.ProtoUDP, counting(7))), nil},
		{gateway.UpperHeader, named("super-packet with a data offset of 16"), fromNode(superPacket(out, func(m []byte) { m[12] = 4 << 4 })), nil},
		{gateway.UpperHeader, named("super-packet with a SYN"), fromNode(superPacket(out, func(m []byte) { m[13] |= syn })), nil},
	}
	return append(cases, errorDrops(w)...)
}

// sized is a packet of n bytes.
func sized(n int, f flow) []byte {
	return f.udp(make([]byte, n-len(f.udp(nil))))
}

// superPacket is TCP that its sender left to a network card to segment, changed
// by an edit of its TCP header, which the unfinished checksum does not cover.
func superPacket(f flow, edit func(tcp []byte)) []byte {
	f.partial = true
	b := f.tcp(ack, nil, counting(4000))
	edit(b[len(b)-4000-20:])
	return b
}

// errorDrops are ICMP errors that must not be believed.
func errorDrops(w who) []dropCase {
	out, in := flow{src: w.podA, dst: w.seenPodB}, flow{src: w.podB, dst: w.podA}
	// What the other side's packets looked like, here and in the tunnel.
	here, there := out.back().udp(counting(20)), in.back().udp(counting(20))
	damaged := func(b []byte) []byte {
		b[len(b)-1] ^= 1
		return b
	}
	named := func(name string) string { return name + " of " + w.podA }
	quoting := func(src, dst string) []byte { return flow{src: src, dst: dst}.udp(counting(20)) }
	other := v6
	if addr(w.podA).Is6() {
		other = v4
	}
	return []dropCase{
		{gateway.ICMPChecksum, named("RFC5508REQ3 wrong checksum"), fromNode(damaged(out.unreachable(here))), nil},
		{gateway.ICMPChecksum, named("RFC5508REQ3 wrong checksum from the tunnel"), fromTunnel(damaged(in.unreachable(there))), nil},
		{gateway.ICMPQuote, named("quote of nothing"), fromNode(out.unreachable(nil)), nil},
		{gateway.ICMPQuote, named("quote of 19 bytes"), fromTunnel(in.unreachable(there[:19])), nil},
		{gateway.ICMPQuote, named("quote of the other family"), fromTunnel(in.unreachable(quoting(other.podA, other.podB))), nil},
		{gateway.ICMPUnrelated, named("RFC5508REQ4 about what did not come from the remote"), fromNode(out.unreachable(quoting(w.foreign, w.podA))), nil},
		{gateway.ICMPUnrelated, named("RFC5508REQ4 about what did not go here"), fromNode(out.unreachable(quoting(w.seenPodB, w.foreign))), nil},
		{gateway.ICMPUnrelated, named("RFC5508REQ4 about what went to a node without external address"), fromNode(out.unreachable(quoting(w.seenPodB, w.nodeWithout))), nil},
		{gateway.ICMPUnrelated, named("RFC5508REQ4 about what went to a pod that is not granted"), fromNode(out.unreachable(quoting(w.seenPodB, w.ungrantedPodA))), nil},
		{gateway.ICMPUnrelated, named("RFC5508REQ4 about what did not go to the remote"), fromTunnel(in.unreachable(quoting(w.podA, w.foreign))), nil},
		{gateway.ICMPUnrelated, named("RFC5508REQ4 about what did not come from here"), fromTunnel(in.unreachable(quoting(w.foreign, w.podB))), nil},
		{gateway.ICMPUnrelated, named("RFC5508REQ4 about what came from a pod that is not granted"), fromTunnel(in.unreachable(quoting(w.ungrantedPodA, w.podB))), nil},
		{gateway.ICMPUnrelated, named("RFC5508REQ4 about what came from an internal address"), fromTunnel(in.unreachable(quoting(w.node, w.podB))), nil},
	}
}

// hostDrops are packets of the gateway's own host that it should not have sent.
func hostDrops(w who) []dropCase {
	send := func(src, dst string) func(*side) (gateway.Result, *gateway.Counters) {
		return fromHost(flow{src: src, dst: dst}.udp(nil))
	}
	named := func(name string) string { return name + " of " + w.gateway }
	return []dropCase{
		{gateway.SpoofedSource, named("foreign source into the tunnel"), send(w.foreign, w.seenPodB), nil},
		{gateway.SourceNotGranted, named("pod that is not granted"), send(w.ungrantedPodA, w.seenPodB), nil},
		{gateway.NoExternalAddress, named("node without external address"), send(w.nodeWithout, w.seenPodB), nil},
		{gateway.DestinationNotGranted, named("to nowhere"), send(w.gateway, w.foreign), nil},
		{gateway.DestinationNotGranted, named("to itself"), send(w.gateway, w.gateOut), nil},
		{gateway.Multicast, named("to a group"), send(w.gateway, w.multicast), nil},
		{gateway.Martian, named("from nowhere"), send(martians(w)[0], w.seenPodB), nil},
		{gateway.UpperHeader, named("TCP without its checksum"), fromHost(flow{src: w.gateway, dst: w.seenPodB}.raw(packet.ProtoTCP, counting(17))), nil},
		{gateway.UpperHeader, named("UDP to segment"), superFromHost(flow{src: w.gateway, dst: w.seenPodB}.udp(nil)), nil},
		{gateway.DestinationNotGranted, named("TCP to segment, to nowhere"), superFromHost(flow{src: w.gateway, dst: w.foreign}.tcp(ack, nil, nil)), nil},
		{gateway.ICMPUnrelated, named("error about a foreign packet"), fromHost(flow{src: w.gateway, dst: w.seenPodB}.
			unreachable(flow{src: w.foreign, dst: w.gateway}.udp(nil))), nil},
	}
}

// ownDrops are packets from a node to the gateway itself that its host stack must not see.
func ownDrops(w who) []dropCase {
	named := func(name string) string { return name + " of " + w.podA }
	probe := flow{src: w.node, dst: w.gateway, to: nodeprobe.Port}
	fromPod, outside := probe, probe
	fromPod.src, outside.dst = w.podA, w.gateOut
	answer := request(7)
	nodeprobe.Message{Answer: true, State: nodeprobe.LinksUp, Sequence: 7}.Put(answer)
	damaged := probe.udp(request(7))
	damaged[len(damaged)-1] ^= 1
	short := probe.udp(request(7))
	short[len(short)-nodeprobe.Len-4+1]-- // the length in the UDP header
	// after sends as many packets before, at the same moment.
	after := func(n int, b []byte) func(*side) (gateway.Result, *gateway.Counters) {
		return func(a *side) (gateway.Result, *gateway.Counters) {
			for range n {
				a.fromNode(slices.Clone(b))
			}
			return a.fromNode(b), &a.egress.Counters
		}
	}
	cases := []dropCase{
		{gateway.ProbeMalformed, named("probe without a message"), fromNode(probe.udp(nil)), nil},
		{gateway.ProbeMalformed, named("probe cut short"), fromNode(probe.udp(request(7)[:nodeprobe.Len-1])), nil},
		{gateway.ProbeMalformed, named("probe that is an answer"), fromNode(probe.udp(answer)), nil},
		{gateway.ProbeMalformed, named("damaged probe"), fromNode(damaged), nil},
		{gateway.ProbeMalformed, named("probe with another length"), fromNode(short), nil},
		{gateway.ProbeBudget, named("T10 one probe too many"), after(25, probe.udp(request(7))), nil},
		{gateway.EchoBudget, named("T10 one ping too many"), after(100, flow{src: w.podA, dst: w.gateway}.echo(nil)), nil},
		{gateway.GatewayPort, named("probe of a pod"), fromNode(fromPod.udp(request(7))), &portUnreachable},
		{gateway.GatewayPort, named("probe of the external address"), fromNode(outside.udp(request(7))), &portUnreachable},
		{gateway.GatewayPort, named("echo reply"), fromNode(flow{src: w.podA, dst: w.gateway}.icmp(0, 129, 1, nil)), &prohibited},
		{gateway.GatewayPort, named("error"), fromNode(flow{src: w.podA, dst: w.gateway}.unreachable(flow{src: w.gateway, dst: w.podA}.udp(nil))), nil},
		{gateway.GatewayPort, named("another protocol"), fromNode(flow{src: w.podA, dst: w.gateway}.raw(253, counting(20))), &prohibited},
		{gateway.GatewayPort, named("later fragment of UDP"), fromNode(flow{src: w.node, dst: w.gateway, proto: packet.ProtoUDP}.piece(800, false, counting(8))), nil},
	}
	for _, port := range []uint16{9, 22, 6091, 6093, 6094, 8080} {
		for _, src := range []string{w.podA, w.node} {
			for _, dst := range []string{w.gateway, w.gateOut} {
				f := flow{src: src, dst: dst, to: port}
				name := named(fmt.Sprintf("port %d of %s from %s", port, dst, src))
				cases = append(cases,
					dropCase{gateway.GatewayPort, "UDP " + name, fromNode(f.udp(counting(16))), &portUnreachable},
					dropCase{gateway.GatewayPort, "TCP " + name, fromNode(f.tcp(syn, mss(1400), nil)), &portUnreachable})
			}
		}
	}
	return cases
}

// masqueradeDrops are packets of masqueraded sources, and of senders that would be taken for their
// answers.
func masqueradeDrops(t *testing.T, w who) []dropCase {
	// after makes a the gateway of clusterA with room for as many flows, which some
	// packets from node-1 have met before.
	after := func(flows int, before [][]byte, send func(*side) (gateway.Result, *gateway.Counters)) func(*side) (gateway.Result, *gateway.Counters) {
		return func(a *side) (gateway.Result, *gateway.Counters) {
			a.masqueradeForeign(t, flows)
			for _, b := range before {
				a.fromNode(b)
			}
			return send(a)
		}
	}
	f := flow{src: w.foreign, dst: w.seenPodB, proto: packet.ProtoUDP}
	other := f
	other.from = 99
	congested := flow{src: w.podA, dst: w.seenPodB}.udp(nil)
	marked := func(a *side) (gateway.Result, *gateway.Counters) {
		from := node1A.outer()
		from.ECN = packet.CE
		return a.egress.Frame(node1A.frame(congested), from, a.now), &a.egress.Counters
	}
	return []dropCase{
		{gateway.ECN, "RFC 6040 a mark for who cannot read it", marked, nil},
		{gateway.NATProtocol, "SCTP", after(4, nil, fromNode(f.raw(packet.ProtoSCTP, counting(20)))), nil},
		{gateway.NATQuota, "one flow too many of one source", after(4, [][]byte{f.udp(nil)}, fromNode(other.udp(nil))), oneHost(w.foreign)},
		{gateway.NATExhausted, "one flow too many of all", after(1, [][]byte{f.udp(nil)}, fromNode(flow{src: addr(w.foreign).Next().String(), dst: w.seenPodB}.udp(nil))), oneHost(w.foreign)},
		{gateway.NATNoMapping, "an unsolicited reply", after(4, nil, fromTunnel(flow{src: w.podB, dst: w.gateOut}.udp(nil))), nil},
		{gateway.FragmentOverlap, "RFC 5722 fragments that overlap", after(4, [][]byte{f.piece(0, true, counting(80))}, fromNode(f.piece(40, true, counting(80)))), nil},
	}
}
