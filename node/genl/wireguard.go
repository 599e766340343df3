//go:build linux

package genl

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// WireGuardFamily is the name of the family that configures the kernel's WireGuard.
const WireGuardFamily = unix.WG_GENL_NAME

// WireGuard is the configuration of a WireGuard device with one peer.
type WireGuard struct {
	PrivateKey [unix.WG_KEY_LEN]byte
	ListenPort uint16

	PeerKey    [unix.WG_KEY_LEN]byte
	Endpoint   netip.AddrPort
	AllowedIPs []netip.Prefix
	Keepalive  uint16 // seconds between keepalives; 0: none
}

// SetWireGuard configures a WireGuard device of the kernel, and replaces all peers that it
// has. It needs CAP_NET_ADMIN.
func (c *Conn) SetWireGuard(device string, w WireGuard) error {
	_, err := c.execute(WireGuardFamily, unix.WG_CMD_SET_DEVICE, unix.WG_GENL_VERSION, netlink.Acknowledge,
		func(e *netlink.AttributeEncoder) error {
			e.String(unix.WGDEVICE_A_IFNAME, device)
			e.Bytes(unix.WGDEVICE_A_PRIVATE_KEY, w.PrivateKey[:])
			e.Uint16(unix.WGDEVICE_A_LISTEN_PORT, w.ListenPort)
			e.Uint32(unix.WGDEVICE_A_FLAGS, unix.WGDEVICE_F_REPLACE_PEERS)
			e.Nested(unix.WGDEVICE_A_PEERS, func(e *netlink.AttributeEncoder) error {
				e.Nested(0, w.peer)
				return nil
			})
			return nil
		})
	if err != nil {
		return fmt.Errorf("configure WireGuard device %s: %w", device, err)
	}
	return nil
}

func (w *WireGuard) peer(e *netlink.AttributeEncoder) error {
	e.Bytes(unix.WGPEER_A_PUBLIC_KEY, w.PeerKey[:])
	e.Bytes(unix.WGPEER_A_ENDPOINT, socketAddress(w.Endpoint))
	e.Uint16(unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, w.Keepalive)
	e.Nested(unix.WGPEER_A_ALLOWEDIPS, func(e *netlink.AttributeEncoder) error {
		for _, p := range w.AllowedIPs {
			e.Nested(0, func(e *netlink.AttributeEncoder) error {
				e.Uint16(unix.WGALLOWEDIP_A_FAMILY, addressFamily(p.Addr()))
				e.Bytes(unix.WGALLOWEDIP_A_IPADDR, p.Addr().AsSlice())
				e.Uint8(unix.WGALLOWEDIP_A_CIDR_MASK, uint8(p.Bits()))
				return nil
			})
		}
		return nil
	})
	return nil
}

// socketAddress is an endpoint as a struct sockaddr_in or sockaddr_in6.
func socketAddress(a netip.AddrPort) []byte {
	b := binary.NativeEndian.AppendUint16(nil, addressFamily(a.Addr()))
	b = binary.BigEndian.AppendUint16(b, a.Port())
	if a.Addr().Is4() {
		b = append(b, a.Addr().AsSlice()...)
		return append(b, make([]byte, unix.SizeofSockaddrInet4-len(b))...)
	}
	b = append(b, 0, 0, 0, 0) // flow information
	b = append(b, a.Addr().AsSlice()...)
	return append(b, 0, 0, 0, 0) // scope: of link-local addresses only
}

func addressFamily(a netip.Addr) uint16 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
