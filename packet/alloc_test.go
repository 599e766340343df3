package packet_test

import (
	"slices"
	"testing"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/packet"
)

func TestNothingAllocates(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates by itself; run without -race")
	}
	var (
		ip, q  packet.IP
		p      packet.Pieces
		dst    = make([]byte, packet.MaxLen)
		plain  = udp4(counting(1400))
		plain6 = udp6(counting(1400))
		large  = ipv4{options: []byte{148, 4, 0, 0}}.packet(counting(9000))
		super  = tcp6(tcp{flags: ack, partial: true}, counting(60_000))
		stream = tcp4(tcp{flags: ack}, counting(1300))
		next   = tcp4(tcp{seq: 1300, flags: ack}, counting(1300))
		hello  = tcp4(tcp{flags: syn, options: []byte{1, 2, 4, 5, 0xb4, 0, 0, 0}}, nil)
		failed = quoting(plain[:548])
		asked  = arpFrame()
		asked6 = solicitation(node6, solicited6, linkOption)
	)
	var coalescer packet.Coalescer
	streamBefore := slices.Clone(stream)
	init := ipv4{proto: packet.ProtoSCTP}.packet(sctpMessage(1, slices.Concat(sctpFixed, sctpIPv4)))
	initBefore := slices.Clone(init)
	for name, f := range map[string]func(){
		"Parse":     func() { packet.Parse(plain, &ip); packet.Parse(plain6, &ip) },
		"Sum":       func() { packet.Sum(plain, 0) },
		"FlowHash":  func() { packet.Parse(plain6, &ip); packet.FlowHash(plain6, &ip) },
		"Checksums": func() { packet.Parse(plain, &ip); packet.IsPartial(plain, &ip); packet.Complete(plain, &ip) },
		"Rewriting": func() {
			packet.Parse(plain, &ip)
			packet.UpdateAddresses(plain, &ip, packet.DeltaOf(packet.SumAddr(ip.Src), packet.SumAddr(ip.Dst)))
		},
		"Whole": func() {
			p.Whole(plain)
			for p.Left() {
				p.Next(dst)
			}
		},
		"Fragments": func() {
			packet.Parse(large, &ip)
			p.Fragments(large, &ip, 1400)
			for p.Left() {
				p.Next(dst)
			}
		},
		"Segments": func() {
			packet.Parse(super, &ip)
			p.Segments(super, &ip, 1400)
			for p.Left() {
				p.Next(dst)
			}
		},
		"FragmentsBelowMinimum": func() {
			packet.Parse(plain6, &ip)
			p.FragmentsBelowMinimum(plain6, &ip, 1000, 1)
			for p.Left() {
				p.Next(dst)
			}
		},
		"SCTP": func() {
			copy(init, initBefore)
			packet.Parse(init, &ip)
			packet.HideSCTPAddresses(init, &ip)
		},
		"Coalescer": func() {
			packet.Parse(stream, &ip)
			coalescer.Start(stream, &ip)
			packet.Parse(next, &ip)
			coalescer.Append(next, &ip)
			coalescer.End()
			copy(stream, streamBefore)
		},
		"MSS": func() { packet.Parse(hello, &ip); packet.MSS(hello, &ip); packet.ClampMSS(hello, &ip, 1350) },
		"AppendICMPError": func() {
			packet.Parse(plain, &ip)
			if packet.MayAnswer(plain, &ip) {
				packet.AppendICMPError(dst[:0], packet.TooBig, 1350, gateway, plain, &ip)
			}
			packet.Parse(plain6, &ip)
			packet.AppendICMPError(dst[:0], packet.TooBig, 1350, gateway6, plain6, &ip)
		},
		"ParseQuote": func() {
			packet.Parse(failed, &ip)
			if packet.IsICMPError(failed, &ip) && packet.ICMPChecksumOK(failed, &ip) {
				packet.ParseQuote(failed, &ip, &q)
			}
		},
		"ARP":       func() { r, _ := packet.ParseARP(asked); packet.PutARPReply(dst, r, gatewayMAC) },
		"Neighbour": func() { s, _ := packet.ParseSolicitation(asked6); packet.PutAdvertisement(dst, s, gatewayMAC) },
		"Ethernet":  func() { packet.ParseEthernet(asked); packet.PutEthernet(dst, nodeMAC, packet.MACOf(gateway6), 0) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
