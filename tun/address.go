package tun

import (
	"crypto/sha256"
	"net/netip"

	"golang.zx2c4.com/wireguard/device"
)

// linkAddress is the link-local IPv6 address under which the host at one end of
// a link is known inside the tunnel: fe80::/64 and 64 bits of the SHA-256 of its
// public key. Both ends can compute it, nothing else can own it, and it takes
// nothing from anybody's address plan; WireGuard's own source check makes it as
// trustworthy as the key.
func linkAddress(public device.NoisePublicKey) netip.Addr {
	sum := sha256.Sum256(public[:])
	a := [16]byte{0: 0xfe, 1: 0x80}
	copy(a[8:], sum[:8])
	return netip.AddrFrom16(a)
}
