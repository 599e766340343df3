//go:build linux

package node

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"strait.dev/strait/config"
)

// The chains that set sources, in the syntax of nft:
//
//	chain unmark {
//		type filter hook postrouting priority srcnat - 2
//		oifname "cni-strait*" meta mark set 0
//	}
//	chain postrouting {
//		type nat hook postrouting priority srcnat - 1
//		oifname "cni-strait*" jump keep
//		oifname "cni-strait*" snat ip to INTERNAL
//		udp dport 6091 jump keep
//		udp dport 6092 jump keep
//		ct status & dnat == 0 ip saddr REMOTE-CIDR snat ip to ip saddr
//	}
//	chain keep {
//		ip saddr POD-CIDR snat ip to ip saddr
//	}
//
// A frame inherits the mark of its inner packet, and kube-proxy masquerades by mark:
// without the chain unmark the frame would be masqueraded, once its checksum is computed.
const (
	chainUnmark      = "unmark"
	chainPostrouting = "postrouting"
	chainKeep        = "keep"
)

// rules returns the rules that set sources.
func (s Sources) rules() []tableRule {
	rules := []tableRule{{chain: chainUnmark, expressions: append(ourLinks(expr.MetaKeyOIFNAME),
		&expr.Immediate{Register: 1, Data: make([]byte, 4)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
	)}}
	for _, e := range s.postrouting() {
		rules = append(rules, tableRule{chain: chainPostrouting, expressions: e})
	}
	for _, p := range s.Pods {
		rules = append(rules, tableRule{chain: chainKeep, expressions: keepSource(p)})
	}
	return rules
}

func (s Sources) postrouting() [][]expr.Any {
	ours := ourLinks(expr.MetaKeyOIFNAME)
	jump := &expr.Verdict{Kind: expr.VerdictJump, Chain: chainKeep}
	rules := [][]expr.Any{append(ours[:2:2], jump)}
	for _, a := range s.Internal {
		f := familyOf(a)
		rule := append(ours[:2:2], f.match()...)
		rules = append(rules, append(rule,
			&expr.Immediate{Register: 1, Data: a.AsSlice()},
			f.snat(),
		))
	}
	for _, port := range framePorts {
		rules = append(rules, append(frames(port), jump))
	}
	for _, p := range s.Remote {
		rules = append(rules, append(notDNATed(), keepSource(p)...))
	}
	return rules
}

// notDNATed matches connections whose destination was not translated.
func notDNATed() []expr.Any {
	const ipsDstNAT = 1 << 5 // IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binary.NativeEndian.AppendUint32(nil, ipsDstNAT), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: make([]byte, 4)},
	}
}

// framePorts are the UDP ports of frames, in Geneve and in VXLAN.
var framePorts = []uint16{config.DefaultOverlayPort, vxlanPort}

// frames matches frames to a port. A range of ports would cost each frame more: the kernel compares
// equal values of up to 4 bytes inline.
func frames(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, // destination port
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
	}
}

// keepSource returns the rule by which packets from a CIDR keep their source.
func keepSource(p netip.Prefix) []expr.Any {
	f := familyOf(p.Addr())
	return append(within(f.source(), p), f.source(), f.snat())
}

// snat binds the connection's source to the address in register 1.
func (f family) snat() expr.Any {
	return &expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(f.number()), RegAddrMin: 1}
}
