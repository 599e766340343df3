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
//		udp dport 6091-6092 goto frames
//	}
//	chain frames {
//		ip saddr . @th,96,24 { GATEWAY . VNI } accept
//		counter drop
//	}
//	chain ingress {
//		type filter hook prerouting priority mangle - 1
//		iifname != "cni-strait*" accept
//		iifname vmap { LINK : goto LINK }
//		counter drop
//	}
//	chain granted {
//		ip daddr { PODS-OF-THIS-NODE } fib daddr type unicast accept
//		ct state established ct direction reply accept
//		ct state related meta l4proto icmp accept
//	}
//	chain LINK {
//		ip saddr != { REMOTE-CIDRS, GATEWAY } counter drop
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
const (
	chainInput   = "input"
	chainFrames  = "frames"
	chainIngress = "ingress"
	chainGranted = "granted"
)

// rules returns the rules that refuse packets, in the order of their chains. It adds their sets
// to the transaction, which must have all chains already.
func (in Ingress) rules(sets *setAdder) (rules []tableRule) {
	add := func(chain, refused string, expressions ...expr.Any) {
		rules = append(rules, tableRule{chain, refused, expressions})
	}
	add(chainInput, "", append(frames(), &expr.Verdict{Kind: expr.VerdictGoto, Chain: chainFrames})...)

	accept := &expr.Verdict{Kind: expr.VerdictAccept}
	for _, f := range families {
		if from := in.framesOf(f, sets); from != nil {
			add(chainFrames, "", append(from, accept)...)
		}
	}
	add(chainFrames, RefusedFrame)

	others := ourLinks(expr.MetaKeyIIFNAME)
	others[1].(*expr.Cmp).Op = expr.CmpOpNeq
	add(chainIngress, "", append(others, accept)...)
	if len(in.Links) > 0 {
		add(chainIngress, "", &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, in.dispatch(sets))
	}
	add(chainIngress, RefusedLink)

	for _, f := range families {
		if to := f.in(sets, f.destination(), in.Pods, false); to != nil {
			add(chainGranted, "", slices.Concat(to, destinationType(unix.RTN_UNICAST), []expr.Any{accept})...)
		}
	}
	const reply = 1 // IP_CT_DIR_REPLY of linux/netfilter/nf_conntrack_tuple_common.h
	add(chainGranted, "", append(connectionState(expr.CtStateBitESTABLISHED),
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{reply}}, accept)...)
	for _, protocol := range []byte{unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6} {
		add(chainGranted, "", append(connectionState(expr.CtStateBitRELATED),
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}}, accept)...)
	}

	for _, l := range in.Links {
		for _, f := range families {
			from := f.in(sets, f.source(), l.Sources, true)
			if from == nil {
				from = f.match() // none is granted
			}
			add(l.Link, RefusedSource, from...)
		}
		add(l.Link, "", &expr.Verdict{Kind: expr.VerdictJump, Chain: chainGranted})
		if l.Nodes {
			for _, a := range in.Node {
				f := familyOf(a)
				add(l.Link, "", append(f.match(), f.destination(), &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: a.AsSlice()}, accept)...)
			}
		}
		add(l.Link, RefusedNode, destinationType(unix.RTN_LOCAL)...)
		add(l.Link, RefusedDestination)
	}
	return rules
}

// framesOf matches frames from gateways over one IP family, by source and VNI. It is nil if there
// is no such gateway.
func (in Ingress) framesOf(f family, sets *setAdder) []expr.Any {
	var keys []nftables.SetElement
	for _, s := range in.Frames {
		if familyOf(s.Underlay) == f {
			vni := binary.BigEndian.AppendUint32(nil, s.VNI<<8)
			keys = append(keys, nftables.SetElement{Key: append(s.Underlay.AsSlice(), vni...)})
		}
	}
	if keys == nil {
		return nil
	}
	lookup := sets.add(nftables.Set{KeyType: nftables.MustConcatSetType(f.keyType(), nftables.TypeMark)}, keys) // of 4 bytes, like a register
	// The parts of the key are in consecutive registers of 4 bytes, the first of which register 1
	// begins with. The VNI has 3 bytes, in Geneve and VXLAN at the same place (RFC 8926, RFC 7348).
	return append(f.match(), f.source(),
		&expr.Payload{DestRegister: unix.NFT_REG32_00 + f.size()/4, Base: expr.PayloadBaseTransportHeader, Offset: 8 + 4, Len: 3},
		lookup,
	)
}

// in matches packets of the family whose address, which load puts into register 1, is in one of
// the prefixes, or in none of them if inverted. It is nil if no prefix is of the family.
func (f family) in(sets *setAdder, load expr.Any, all []netip.Prefix, inverted bool) []expr.Any {
	elements := f.intervals(all)
	if len(elements) == 0 {
		return nil
	}
	lookup := sets.add(nftables.Set{KeyType: f.keyType(), Interval: true}, elements)
	lookup.Invert = inverted
	return append(f.match(), load, lookup)
}

// dispatch returns the expression that continues with the chain of the link whose name is in
// register 1.
func (in Ingress) dispatch(sets *setAdder) expr.Any {
	var chains []nftables.SetElement
	for _, l := range in.Links {
		name := make([]byte, unix.IFNAMSIZ)
		copy(name, l.Link)
		chains = append(chains, nftables.SetElement{Key: name, VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: l.Link}})
	}
	return sets.add(nftables.Set{KeyType: nftables.TypeIFName, DataType: nftables.TypeVerdict, IsMap: true}, chains)
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
