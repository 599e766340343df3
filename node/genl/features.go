//go:build linux

package genl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Features returns the offload features of a device, under the names that ethtool(8)
// prints, and whether each is on. Features that the kernel does not know are missing. It
// needs no privilege. Kernels before 5.8 return EOPNOTSUPP.
func (c *Conn) Features(device string) (map[string]bool, error) {
	replies, err := c.execute(unix.ETHTOOL_GENL_NAME, unix.ETHTOOL_MSG_FEATURES_GET, unix.ETHTOOL_GENL_VERSION, 0,
		func(e *netlink.AttributeEncoder) error {
			featuresHeader(e, device, 0)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read the features of %s: %w", device, err)
	}
	features := make(map[string]bool)
	for _, reply := range replies {
		d, err := netlink.NewAttributeDecoder(reply.Data)
		if err != nil {
			return nil, fmt.Errorf("read the features of %s: %w", device, err)
		}
		for d.Next() {
			switch d.Type() {
			case unix.ETHTOOL_A_FEATURES_HW: // lists every feature
				d.Nested(bits(func(name string) {
					if !features[name] {
						features[name] = false
					}
				}))
			case unix.ETHTOOL_A_FEATURES_ACTIVE: // lists those that are on
				d.Nested(bits(func(name string) { features[name] = true }))
			}
		}
		if err := d.Err(); err != nil {
			return nil, fmt.Errorf("read the features of %s: %w", device, err)
		}
	}
	return features, nil
}

// SetFeatures switches features of a device on and off, and checks that they are. It needs
// CAP_NET_ADMIN.
func (c *Conn) SetFeatures(device string, want map[string]bool) error {
	_, err := c.execute(unix.ETHTOOL_GENL_NAME, unix.ETHTOOL_MSG_FEATURES_SET, unix.ETHTOOL_GENL_VERSION, netlink.Acknowledge,
		func(e *netlink.AttributeEncoder) error {
			featuresHeader(e, device, unix.ETHTOOL_FLAG_OMIT_REPLY)
			e.Nested(unix.ETHTOOL_A_FEATURES_WANTED, func(e *netlink.AttributeEncoder) error {
				e.Nested(unix.ETHTOOL_A_BITSET_BITS, func(e *netlink.AttributeEncoder) error {
					for _, name := range slices.Sorted(maps.Keys(want)) {
						e.Nested(unix.ETHTOOL_A_BITSET_BITS_BIT, func(e *netlink.AttributeEncoder) error {
							e.String(unix.ETHTOOL_A_BITSET_BIT_NAME, name)
							e.Flag(unix.ETHTOOL_A_BITSET_BIT_VALUE, want[name])
							return nil
						})
					}
					return nil
				})
				return nil
			})
			return nil
		})
	if err != nil {
		return fmt.Errorf("set features of %s: %w", device, err)
	}
	// The kernel acknowledges also what the device or another feature does not permit.
	have, err := c.Features(device)
	if err != nil {
		return err
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have[name] != want[name] {
			wrong = append(wrong, name)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("set features of %s: the kernel did not change %s", device, strings.Join(wrong, ", "))
	}
	return nil
}

func featuresHeader(e *netlink.AttributeEncoder, device string, flags uint32) {
	e.Nested(unix.ETHTOOL_A_FEATURES_HEADER, func(e *netlink.AttributeEncoder) error {
		e.String(unix.ETHTOOL_A_HEADER_DEV_NAME, device)
		e.Uint32(unix.ETHTOOL_A_HEADER_FLAGS, flags)
		return nil
	})
}

// bits calls each with the name of every bit that a verbose bit set lists.
func bits(each func(name string)) func(*netlink.AttributeDecoder) error {
	return func(set *netlink.AttributeDecoder) error {
		for set.Next() {
			if set.Type() != unix.ETHTOOL_A_BITSET_BITS {
				continue
			}
			set.Nested(func(list *netlink.AttributeDecoder) error {
				for list.Next() {
					list.Nested(func(bit *netlink.AttributeDecoder) error {
						for bit.Next() {
							if bit.Type() == unix.ETHTOOL_A_BITSET_BIT_NAME && bit.String() != "" {
								each(bit.String())
							}
						}
						return nil
					})
				}
				return nil
			})
		}
		return nil
	}
}
