//go:build linux

package node

import (
	"encoding/binary"
	"net/netip"

	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// rtaNHID is RTA_NH_ID of linux/rtnetlink.h: the nexthop that a route refers to. Neither
// x/sys/unix nor vishvananda/netlink has it.
const rtaNHID = 30

// routeMessage is a route as rtnetlink sends it.
type routeMessage struct {
	family   family
	kind     byte // RTN_UNICAST and others
	protocol byte
	table    int
	prefix   netip.Prefix
	metric   int
	nexthop  uint32 // ID; 0: none
	link     int    // index; 0: none
	via      netip.Addr
	hops     []hopMessage // of a multipath route
	source   netip.Addr
	mtu      int
}

type hopMessage struct {
	link int
	via  netip.Addr
}

// parseRoute reads a message about a route of IPv4 or IPv6.
func parseRoute(b []byte) (r routeMessage, ok bool) {
	if len(b) < unix.SizeofRtMsg || b[0] != unix.AF_INET && b[0] != unix.AF_INET6 {
		return r, false
	}
	to := netip.IPv4Unspecified()
	if b[0] == unix.AF_INET6 {
		r.family, to = ipv6, netip.IPv6Unspecified()
	}
	r.table, r.protocol, r.kind = int(b[4]), b[5], b[7]
	d, err := mdlayher.NewAttributeDecoder(b[unix.SizeofRtMsg:])
	if err != nil {
		return r, false
	}
	for d.Next() {
		value := d.Bytes()
		number := 0
		if len(value) == 4 {
			number = int(binary.NativeEndian.Uint32(value))
		}
		switch d.Type() {
		case unix.RTA_DST:
			if a := addressOf(value); a.IsValid() {
				to = a
			}
		case unix.RTA_TABLE:
			r.table = number
		case unix.RTA_PRIORITY:
			r.metric = number
		case unix.RTA_OIF:
			r.link = number
		case rtaNHID:
			r.nexthop = uint32(number)
		case unix.RTA_GATEWAY:
			r.via = addressOf(value)
		case unix.RTA_PREFSRC:
			r.source = addressOf(value)
		case unix.RTA_METRICS:
			if mtu := attribute(value, unix.RTAX_MTU); len(mtu) == 4 {
				r.mtu = int(binary.NativeEndian.Uint32(mtu))
			}
		case unix.RTA_MULTIPATH:
			r.hops = parseHops(value)
		}
	}
	r.prefix = netip.PrefixFrom(to, int(b[1]))
	return r, d.Err() == nil && r.prefix.IsValid()
}

// parseHops reads the next hops of a multipath route, each a struct rtnexthop with attributes.
func parseHops(b []byte) (hops []hopMessage) {
	for len(b) >= unix.SizeofRtNexthop {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofRtNexthop || length > len(b) {
			return hops
		}
		hops = append(hops, hopMessage{
			link: int(binary.NativeEndian.Uint32(b[4:])),
			via:  addressOf(attribute(b[unix.SizeofRtNexthop:length], unix.RTA_GATEWAY)),
		})
		b = b[min((length+3)&^3, len(b)):]
	}
	return hops
}

// groupRoute returns the request that sets a route to a nexthop group.
func groupRoute(r KernelRoute) (mdlayher.Message, error) {
	e := mdlayher.NewAttributeEncoder()
	e.Bytes(unix.RTA_DST, r.Prefix.Addr().AsSlice())
	e.Uint32(unix.RTA_TABLE, routeTable)
	e.Uint32(unix.RTA_PRIORITY, uint32(r.Metric))
	e.Bytes(unix.RTA_PREFSRC, r.Source.AsSlice())
	e.Uint32(rtaNHID, r.Group)
	e.Nested(unix.RTA_METRICS, func(e *mdlayher.AttributeEncoder) error {
		e.Uint32(unix.RTAX_MTU, uint32(r.MTU))
		return nil
	})
	attributes, err := e.Encode()
	header := make([]byte, unix.SizeofRtMsg)
	header[0], header[1] = byte(familyOf(r.Prefix.Addr()).number()), byte(r.Prefix.Bits())
	header[5], header[7] = routeProtocol, unix.RTN_UNICAST
	return mdlayher.Message{
		Header: mdlayher.Header{Type: unix.RTM_NEWROUTE, Flags: mdlayher.Request | mdlayher.Acknowledge | mdlayher.Create | mdlayher.Replace},
		Data:   append(header, attributes...),
	}, err
}

// ownRoutes returns the request for Strait's routes of a family. A kernel without strict checks
// (before 4.20) answers with all routes.
func ownRoutes(f family) mdlayher.Message {
	header := make([]byte, unix.SizeofRtMsg)
	header[0], header[5] = byte(f.number()), routeProtocol
	e := mdlayher.NewAttributeEncoder()
	e.Uint32(unix.RTA_TABLE, routeTable)
	attributes, _ := e.Encode() // cannot fail: there is no nested attribute
	return mdlayher.Message{
		Header: mdlayher.Header{Type: unix.RTM_GETROUTE, Flags: mdlayher.Request | mdlayher.Dump},
		Data:   append(header, attributes...),
	}
}
