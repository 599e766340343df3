//go:build linux

package node

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The chains that refuse packets, in the syntax of nft:
//
//	chain input {
//		type filter hook input priority filter - 1
//		udp dport 6091 goto frames
//		udp dport 6092 goto frames
//	}
//	chain frames {
//		ip saddr GATEWAY @th,96,32 & 0xffffff00 == VNI << 8 accept
//		counter drop
//	}
//	chain ingress {
//		type filter hook prerouting priority mangle - 1
//		iifname != "cni-strait*" accept
//		iifname LINK goto LINK
//		counter drop
//	}
//	chain granted {
//		ip daddr { POD } fib daddr type unicast accept
//		ip daddr PODS-OF-THIS-NODE fib daddr type unicast accept
//		ct state established ct direction reply accept
//		ct state related meta l4proto icmp accept
//	}
//	chain LINK {
//		ip saddr REMOTE-CIDR goto LINK-to
//		ip saddr GATEWAY goto LINK-to
//		counter drop
//	}
//	chain LINK-to {
//		jump granted
//		ip daddr NODE accept (only if the Peering allows it)
//		fib daddr type local counter drop
//		counter drop
//	}
//
// The bridge of a network plugin gives the node an address among those of its pods, which is no
// pod: the type of the address decides.
//
// The chain ingress follows connection tracking (priority -200), which reassembles fragments, and
// precedes the translation of Service addresses (-100).
//
// What is not accepted is dropped, so no lookup in a set decides alone: while a table is replaced,
// the elements of a set and the rules that look it up do not become visible, or end, at exactly the same
// moment, and granted packets would be refused. The set of single pods only saves the comparison
// with each of them.
const (
	chainInput   = "input"
	chainFrames  = "frames"
	chainIngress = "ingress"
	chainGranted = "granted"
	suffixTo     = "-to" // of the chain of a link that checks destinations
)

// rules returns the rules that refuse packets, in the order of their chains. It adds their sets
// to the transaction, which must have all chains already.
func (in Ingress) rules(sets *setAdder) (rules []tableRule) {
	add := func(chain, refused string, expressions ...expr.Any) {
		rules = append(rules, tableRule{chain, refused, expressions})
	}
	for _, port := range framePorts {
		add(chainInput, "", append(frames(port), &expr.Verdict{Kind: expr.VerdictGoto, Chain: chainFrames})...)
	}

	accept := &expr.Verdict{Kind: expr.VerdictAccept}
	for _, f := range in.Frames {
		add(chainFrames, "", append(f.match(), accept)...)
	}
	add(chainFrames, RefusedFrame)

	others := ourLinks(expr.MetaKeyIIFNAME)
	others[1].(*expr.Cmp).Op = expr.CmpOpNeq
	add(chainIngress, "", append(others, accept)...)
	for _, l := range in.Links {
		name := append([]byte(l.Link), 0) // with its end: the whole name
		add(chainIngress, "", &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: name},
			&expr.Verdict{Kind: expr.VerdictGoto, Chain: l.Link})
	}
	add(chainIngress, RefusedLink)

	for _, f := range families {
		if to := f.oneOf(sets, f.destination(), hostsOf(in.Pods)); to != nil {
			add(chainGranted, "", slices.Concat(to, destinationType(unix.RTN_UNICAST), []expr.Any{accept})...)
		}
	}
	for _, p := range in.Pods {
		add(chainGranted, "", slices.Concat(within(familyOf(p.Addr()).destination(), p), destinationType(unix.RTN_UNICAST), []expr.Any{accept})...)
	}
	const reply = 1 // IP_CT_DIR_REPLY of linux/netfilter/nf_conntrack_tuple_common.h
	add(chainGranted, "", append(connectionState(expr.CtStateBitESTABLISHED),
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{reply}}, accept)...)
	for _, protocol := range []byte{unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6} {
		add(chainGranted, "", append(connectionState(expr.CtStateBitRELATED),
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}}, accept)...)
	}

	for _, l := range in.Links {
		to := l.Link + suffixTo
		for _, p := range l.Sources {
			add(l.Link, "", append(within(familyOf(p.Addr()).source(), p), &expr.Verdict{Kind: expr.VerdictGoto, Chain: to})...)
		}
		add(l.Link, RefusedSource)
		add(to, "", &expr.Verdict{Kind: expr.VerdictJump, Chain: chainGranted})
		if l.Nodes {
			for _, a := range in.Node {
				add(to, "", append(within(familyOf(a).destination(), host(a)), accept)...)
			}
		}
		add(to, RefusedNode, destinationType(unix.RTN_LOCAL)...)
		add(to, RefusedDestination)
	}
	return rules
}

// match matches frames of the gateway: their outer source, and the VNI, which has 3 bytes and is at the
// same place in Geneve and VXLAN (RFC 8926, section 3.4; RFC 7348, section 5). It is loaded with the
// byte after it: the kernel loads 4 aligned bytes inline, but not 3.
func (s FrameSource) match() []expr.Any {
	return append(within(familyOf(s.Underlay).source(), host(s.Underlay)),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 8 + 4, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: []byte{0xff, 0xff, 0xff, 0}, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint32(nil, s.VNI<<8)},
	)
}

// hostsOf returns the addresses in small prefixes.
func hostsOf(all []netip.Prefix) (hosts []netip.Addr) {
	const small = 4 // bits
	for _, p := range all {
		if p.Addr().BitLen()-p.Bits() <= small {
			for a := p.Addr(); p.Contains(a); a = a.Next() {
				hosts = append(hosts, a)
			}
		}
	}
	return hosts
}

// oneOf matches packets of the family whose address, which load puts into register 1, is one of
// the hosts. It is nil if no host is of the family.
func (f family) oneOf(sets *setAdder, load expr.Any, hosts []netip.Addr) []expr.Any {
	var elements []nftables.SetElement
	for _, a := range hosts {
		if familyOf(a) == f {
			elements = append(elements, nftables.SetElement{Key: a.AsSlice()})
		}
	}
	if elements == nil {
		return nil
	}
	return append(f.match(), load, sets.add(nftables.Set{KeyType: f.keyType()}, elements))
}

// destinationType matches packets by the type of their destination on this node (RTN_*).
func destinationType(kind uint32) []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagDADDR: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, kind)},
	}
}

// connectionState matches packets of connections in a state.
func connectionState(bit uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binary.NativeEndian.AppendUint32(nil, bit), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}
