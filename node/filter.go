//go:build linux

package node

import (
	"encoding/binary"

	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The reverse path filter of a link is set and read over netlink: in an unprivileged
// container /proc/sys is read-only. vishvananda/netlink has no API for it.

// ipv4DevconfRPFilter is IPV4_DEVCONF_RP_FILTER of linux/ip.h.
const ipv4DevconfRPFilter = 8

// loose is the value of a filter that accepts any source that is reachable by some link
// (RFC 3704, section 2.4). The kernel uses the larger of the link's value and that of
// "all", so it takes effect for any value of "all".
const loose = 2

func (k *Kernel) setLoose(name string) error {
	index, known := k.links[name]
	if !known {
		return unix.ENODEV
	}
	e := mdlayher.NewAttributeEncoder()
	e.Nested(unix.IFLA_AF_SPEC, func(e *mdlayher.AttributeEncoder) error {
		e.Nested(unix.AF_INET, func(e *mdlayher.AttributeEncoder) error {
			e.Nested(unix.IFLA_INET_CONF, func(e *mdlayher.AttributeEncoder) error {
				e.Uint32(ipv4DevconfRPFilter, loose)
				return nil
			})
			return nil
		})
		return nil
	})
	attributes, err := e.Encode()
	if err != nil {
		return err
	}
	header := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(header[4:], uint32(index))
	_, err = k.raw.Execute(mdlayher.Message{
		Header: mdlayher.Header{Type: unix.RTM_SETLINK, Flags: mdlayher.Request | mdlayher.Acknowledge},
		Data:   append(header, attributes...),
	})
	return err
}

// isLoose reads the reverse path filter from the attributes of a link.
func isLoose(attributes []byte) bool {
	spec := attribute(attributes, unix.IFLA_AF_SPEC)
	values := attribute(attribute(spec, unix.AF_INET), unix.IFLA_INET_CONF)
	const at = 4 * (ipv4DevconfRPFilter - 1) // an array of the values, the first at index 1
	return len(values) >= at+4 && binary.NativeEndian.Uint32(values[at:]) == loose
}

// attribute returns the content of the first attribute of a type, or nil.
func attribute(attributes []byte, kind uint16) []byte {
	d, err := mdlayher.NewAttributeDecoder(attributes)
	if err != nil {
		return nil
	}
	for d.Next() {
		if d.Type() == kind {
			return d.Bytes()
		}
	}
	return nil
}
