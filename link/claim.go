package link

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"strait.dev/strait/packet"
)

// Claims: a gateway has the state of the flows that it masquerades, and of the connections of its own
// host. So replies to its external addresses must reach this gateway and no other of its cluster. Each
// end of a link tells the other its external addresses, every second while the link is up, over UDP
// inside the tunnel, between the link addresses.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                        magic "STRO"                           |
//	+---------------+---------------+---------------+---------------+
//	|  version = 1  | IPv4 addresses| IPv6 addresses| reserved = 0  |
//	+---------------+---------------+---------------+---------------+
//	|            the addresses, IPv4 first, 4 or 16 bytes each      |
//
// A claim replaces the one before. Later versions may append fields; receivers ignore what they do not
// know. A gateway of a version without claims claims nothing, and its packets may use any link.
const (
	claimMagic     = 0x5354524f
	claimVersion   = 1
	claimHeaderLen = 8
	// maxClaims is the maximum number of addresses of each family that a gateway can claim.
	maxClaims = 16
	// MaxClaim is the maximum length of a claim of this version, bytes.
	MaxClaim = claimHeaderLen + maxClaims*(4+16)
)

// Claim is a claim as values.
type Claim []netip.Addr

// Append appends the bytes of a claim, of the first addresses of each family.
func (c Claim) Append(b []byte) []byte {
	var families [2][]netip.Addr
	for _, a := range c {
		if i := packet.FamilyIndex(a); len(families[i]) < maxClaims {
			families[i] = append(families[i], a)
		}
	}
	b = binary.BigEndian.AppendUint32(b, claimMagic)
	b = append(b, claimVersion, byte(len(families[0])), byte(len(families[1])), 0)
	for _, a := range slices.Concat(families[:]...) {
		b = append(b, a.AsSlice()...)
	}
	return b
}

// ParseClaim reads a claim. It reports false if b is none.
func ParseClaim(b []byte) (c Claim, ok bool) {
	if len(b) < claimHeaderLen || binary.BigEndian.Uint32(b) != claimMagic || b[4] < claimVersion {
		return nil, false
	}
	counts := [...]int{int(b[5]), int(b[6])}
	b = b[claimHeaderLen:]
	if counts[0] > maxClaims || counts[1] > maxClaims || len(b) < 4*counts[0]+16*counts[1] {
		return nil, false
	}
	for i, size := range [...]int{4, 16} {
		for range counts[i] {
			a, _ := netip.AddrFromSlice(b[:size])
			c, b = append(c, a), b[size:]
		}
	}
	return c, true
}
