package nat

import (
	"encoding/binary"
	"net/netip"
)

// words are an address as tables keep it: IPv4 as 4in6, which no packet has.
type words struct{ hi, lo uint64 }

func wordsOf(a netip.Addr) words {
	b := a.As16()
	return words{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (w words) addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], w.hi)
	binary.BigEndian.PutUint64(b[8:], w.lo)
	return netip.AddrFrom16(b).Unmap()
}

// is4 reports whether the address is one of IPv4.
func (w words) is4() bool { return w.hi == 0 && w.lo>>32 == 0xffff }
