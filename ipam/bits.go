package ipam

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
)

// check returns an error unless p is a valid prefix without host bits.
func check(p netip.Prefix) error {
	switch {
	case !p.IsValid():
		return fmt.Errorf("%v is not a prefix; write it like 10.71.0.0/16 or fd00:71::/48", p)
	case p.Addr().Is4In6():
		return fmt.Errorf("%v: an IPv4 address in IPv6 form; write it as IPv4", p)
	case p != p.Masked():
		return fmt.Errorf("%v: host bits are set; write %v", p, p.Masked())
	}
	return nil
}

func holds(outer, inner netip.Prefix) bool {
	return outer.Bits() < inner.Bits() && outer.Contains(inner.Addr())
}

// leading returns the number of bits that As16 adds in front of an address: 96 for IPv4.
func leading(a netip.Addr) int { return 128 - a.BitLen() }

func bit(a netip.Addr, i int) int {
	b := a.As16()
	i += leading(a)
	return int(b[i/8]>>(7-i%8)) & 1
}

// common returns the narrowest prefix that contains both, which must be of one family.
func common(p, q netip.Prefix) netip.Prefix {
	a, b := p.Addr().As16(), q.Addr().As16()
	n := bits.LeadingZeros64(binary.BigEndian.Uint64(a[:]) ^ binary.BigEndian.Uint64(b[:]))
	if n == 64 {
		n += bits.LeadingZeros64(binary.BigEndian.Uint64(a[8:]) ^ binary.BigEndian.Uint64(b[8:]))
	}
	return netip.PrefixFrom(p.Addr(), min(n-leading(p.Addr()), p.Bits(), q.Bits())).Masked()
}

// half returns the lower (0) or upper (1) half of a prefix with more than one address.
func half(p netip.Prefix, upper int) netip.Prefix {
	a := p.Addr()
	if upper == 1 {
		a = setBits(a, p.Bits(), p.Bits()+1)
	}
	return netip.PrefixFrom(a, p.Bits()+1)
}

func last(p netip.Prefix) netip.Addr { return setBits(p.Addr(), p.Bits(), p.Addr().BitLen()) }

func setBits(a netip.Addr, from, to int) netip.Addr {
	b := a.As16()
	for i := from + leading(a); i < to+leading(a); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	if a.Is4() {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(b)
}
