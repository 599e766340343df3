package tun

import (
	"crypto/sha256"
	"net/netip"

	"golang.zx2c4.com/wireguard/device"
)

// linkAddress returns the link-local IPv6 address of the host at one end of a link: fe80::/64
// and 64 bits of the SHA-256 of its public key. Both ends can compute it, and it uses no address of
// either cluster. WireGuard's own source check binds it to the key.
func linkAddress(public device.NoisePublicKey) netip.Addr {
	sum := sha256.Sum256(public[:])
	a := [16]byte{0: 0xfe, 1: 0x80}
	copy(a[8:], sum[:8])
	return netip.AddrFrom16(a)
}
