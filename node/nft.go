package node

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"strait.dev/strait/config"
)

// The table, in the syntax of nft:
//
//	table inet strait {
//		chain unmark {
//			type filter hook postrouting priority srcnat - 2
//			oifname "cni-strait*" meta mark set 0
//		}
//		chain postrouting {
//			type nat hook postrouting priority srcnat - 1
//			oifname "cni-strait*" jump keep
//			oifname "cni-strait*" snat ip to INTERNAL
//			udp dport 6091-6092 jump keep
//			ct status & dnat == 0 ip saddr REMOTE-CIDR snat ip to ip saddr
//		}
//		chain keep {
//			ip saddr POD-CIDR snat ip to ip saddr
//		}
//	}
//
// A frame inherits the mark of its inner packet, and kube-proxy masquerades by mark:
// without the chain unmark the frame would be masqueraded, once its checksum is computed.
const (
	chainUnmark      = "unmark"
	chainPostrouting = "postrouting"
	chainKeep        = "keep"
)

// transaction is the size in bytes of the largest transaction. The kernel processes it as a
// whole and acknowledges every rule before the acknowledgements are read.
const transaction = 4 << 20

func openTables() (*nftables.Conn, error) {
	return nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		if err := c.SetWriteBuffer(transaction); err != nil {
			return err
		}
		return c.SetReadBuffer(transaction)
	}))
}

// setSources replaces the table atomically.
func (k *Kernel) setSources(s Sources) error {
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
	k.tables.AddTable(table) // so that deleting it cannot fail
	k.tables.DelTable(table)
	k.tables.AddTable(table)
	keep := k.tables.AddChain(&nftables.Chain{Name: chainKeep, Table: table})
	postrouting := k.tables.AddChain(&nftables.Chain{
		Name: chainPostrouting, Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityRef(*nftables.ChainPriorityNATSource - 1),
	})
	unmark := k.tables.AddChain(&nftables.Chain{
		Name: chainUnmark, Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityRef(*nftables.ChainPriorityNATSource - 2),
	})
	rules := []*nftables.Rule{{Table: table, Chain: unmark, Exprs: append(ourLinks(),
		&expr.Immediate{Register: 1, Data: make([]byte, 4)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
	)}}
	for _, e := range s.postrouting() {
		rules = append(rules, &nftables.Rule{Table: table, Chain: postrouting, Exprs: e})
	}
	for _, p := range s.Pods {
		rules = append(rules, &nftables.Rule{Table: table, Chain: keep, Exprs: keepSource(p)})
	}
	for i, r := range rules {
		r.UserData = userdata.AppendString(nil, userdata.TypeComment, mark(s.fingerprint(), i, len(rules)))
		k.tables.AddRule(r)
	}
	return k.tables.Flush()
}

func (k *Kernel) deleteSources() error {
	k.tables.DelTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	return gone(k.tables.Flush())
}

// mark returns the comment of one of the rules: the complete, ordered set proves that the
// table is unchanged.
func mark(fingerprint string, i, of int) string {
	return fmt.Sprintf("%s %d/%d", fingerprint, i+1, of)
}

// damagedSources replaces the fingerprint of a table that was changed.
const damagedSources = "damaged"

// observeSources reads the fingerprint of the table.
func (k *Kernel) observeSources() (string, error) {
	chains, err := k.tables.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return "", fmt.Errorf("list nftables chains: %w", err)
	}
	ours := map[string]*nftables.Chain{}
	for _, c := range chains {
		if c.Table.Name == tableName {
			ours[c.Name] = c
		}
	}
	if len(ours) == 0 {
		return "", nil
	}
	hooked := func(name string) bool { return ours[name] != nil && ours[name].Hooknum != nil }
	if !hooked(chainUnmark) || !hooked(chainPostrouting) || ours[chainKeep] == nil || len(ours) != 3 {
		return damagedSources, nil
	}
	var marks []string
	for _, name := range []string{chainUnmark, chainPostrouting, chainKeep} {
		rules, err := k.tables.GetRules(ours[name].Table, ours[name])
		if err != nil {
			return "", fmt.Errorf("list nftables rules: %w", err)
		}
		for _, r := range rules {
			m, _ := userdata.GetString(r.UserData, userdata.TypeComment)
			marks = append(marks, m)
		}
	}
	return readMarks(marks, damagedSources), nil
}

// readMarks returns the fingerprint that all marks agree on, else otherwise.
func readMarks(marks []string, otherwise string) string {
	if len(marks) == 0 {
		return otherwise
	}
	var fingerprint string
	if _, err := fmt.Sscanf(marks[0], "%s", &fingerprint); err != nil {
		return otherwise
	}
	for i, m := range marks {
		if m != mark(fingerprint, i, len(marks)) {
			return otherwise
		}
	}
	return fingerprint
}

// ourLinks matches packets that leave by one of Strait's links.
func ourLinks() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte(LinkPrefix)}, // a shorter value than the name: a prefix match
	}
}

// postrouting returns the rules that set sources.
func (s Sources) postrouting() [][]expr.Any {
	ours := ourLinks()
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
	rules = append(rules, []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, // destination port
		&expr.Range{
			Op: expr.CmpOpEq, Register: 1,
			FromData: binary.BigEndian.AppendUint16(nil, config.DefaultOverlayPort),
			ToData:   binary.BigEndian.AppendUint16(nil, vxlanPort),
		},
		jump,
	})
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

// keepSource returns the rule by which packets from a CIDR keep their source.
func keepSource(p netip.Prefix) []expr.Any {
	f := familyOf(p.Addr())
	size, offset := uint32(4), uint32(12) // of the source in the header: RFC 791, section 3.1
	if f == ipv6 {
		size, offset = 16, 8 // RFC 8200, section 3
	}
	source := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}
	return append(f.match(),
		source,
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: net.CIDRMask(p.Bits(), int(size)*8), Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Addr().AsSlice()},
		source,
		f.snat(),
	)
}

// match matches packets of the family.
func (f family) match() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{byte(f.number())}}, // NFPROTO_* are AF_*
	}
}

// snat binds the connection's source to the address in register 1.
func (f family) snat() expr.Any {
	return &expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(f.number()), RegAddrMin: 1}
}
