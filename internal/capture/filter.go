package capture

import (
	"net/netip"

	"strait.dev/strait/packet"
)

// Filter selects the packets that a capture keeps. The zero value keeps all. Immutable.
type Filter struct{ root *node }

// KeepsAll reports whether the filter is empty.
func (f Filter) KeepsAll() bool { return f.root == nil }

// Match reports whether a packet is kept. It does not allocate.
func (f Filter) Match(v *View) bool { return f.root == nil || f.root.match(v) }

// node is a test or an operator. One type for all of them allows a View to stay on the stack of the packet path.
type node struct {
	test        test
	left, right *node // and, or; not has only left
	side        side

	prefix    netip.Prefix // address
	low, high uint16       // ports, both included
	size      int          // less, greater: bytes, included
	version   uint8        // version, protocol; 0 = any
	proto     uint8        // protocol
}

type test uint8

const (
	and test = iota
	or
	not
	address
	ports
	version
	protocol
	less
	greater
)

// side is the end of a packet that a test is about.
type side uint8

const (
	either side = iota
	source
	destination
)

func (n *node) match(v *View) bool {
	switch n.test {
	case and:
		return n.left.match(v) && n.right.match(v)
	case or:
		return n.left.match(v) || n.right.match(v)
	case not:
		return !n.left.match(v)
	case address:
		return n.side != destination && n.prefix.Contains(v.Src) || n.side != source && n.prefix.Contains(v.Dst)
	case ports:
		return v.HasPorts && (n.side != destination && n.holds(v.SrcPort) || n.side != source && n.holds(v.DstPort))
	case version:
		return v.Version == n.version
	case protocol:
		return v.Proto == n.proto && (n.version == 0 || v.Version == n.version)
	case less:
		return v.Len <= n.size
	default: // greater
		return v.Len >= n.size
	}
}

func (n *node) holds(port uint16) bool { return n.low <= port && port <= n.high }

// kinds are the tests that consist of one keyword.
var kinds = map[string]node{
	"ip":    {test: version, version: 4},
	"ip6":   {test: version, version: 6},
	"tcp":   {test: protocol, proto: packet.ProtoTCP},
	"udp":   {test: protocol, proto: packet.ProtoUDP},
	"icmp":  {test: protocol, proto: packet.ProtoICMP, version: 4},
	"icmp6": {test: protocol, proto: packet.ProtoICMPv6, version: 6},
}
