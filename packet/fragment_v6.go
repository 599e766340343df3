package packet

import "encoding/binary"

const (
	fragmentHeaderLen = 8    // RFC 8200 section 4.5
	ipv6MoreFragments = 0x01 // in byte 3 of that header
)

// FragmentsV6 cuts an IPv6 packet into fragments of at most mtu bytes with the
// identification id, RFC 8200 section 4.5. A packet that fits stays whole. Routers must
// not fragment IPv6: this is for packets that this machine sends or has reassembled. id
// must not be in use for another datagram between the same two addresses. An mtu below
// MinIPv6MTU counts as MinIPv6MTU.
//
// It reports false, with no piece left, for a packet that has a fragment header, and for
// headers that do not fit the first fragment, which must contain all of them (RFC 7112).
func (p *Pieces) FragmentsV6(b []byte, ip *IP, mtu int, id uint32) bool {
	return p.fragmentsV6(b, ip, max(mtu, MinIPv6MTU), id)
}

// FragmentsBelowMinimum is FragmentsV6 for a link that carries less than MinIPv6MTU, which
// has to fragment below IPv6 (RFC 8200 section 5): the mtu is not raised, and a packet that
// is a fragment itself is cut into smaller ones of the same datagram. The destination
// reassembles all of them.
func (p *Pieces) FragmentsBelowMinimum(b []byte, ip *IP, mtu int, id uint32) bool {
	if ip.fragOffset == 0 || int(ip.Len) <= mtu {
		return p.fragmentsV6(b, ip, mtu, id)
	}
	*p = Pieces{}
	header := int(ip.fragOffset)
	if mtu-header-fragmentHeaderLen < unitLen {
		return false
	}
	h := b[header:]
	*p = Pieces{
		b: b[:ip.Len], at: header + fragmentHeaderLen, mtu: mtu, kind: fragmentV6,
		header: header, next: nextHeaderField(b, header), id: binary.BigEndian.Uint32(h[4:]),
		first: header + fragmentHeaderLen, type6: h[0], word: binary.BigEndian.Uint16(h[2:]),
	}
	return true
}

func (p *Pieces) fragmentsV6(b []byte, ip *IP, mtu int, id uint32) bool {
	*p = Pieces{}
	if int(ip.Len) <= mtu {
		p.Whole(b[:ip.Len])
		return true
	}
	header, next := perFragmentHeaders(b, ip)
	room := (mtu - header - fragmentHeaderLen) &^ (unitLen - 1)
	headers := int(ip.Header) - header + upperHeader(ip.Upper(b), ip.Proto)
	if ip.fragOffset != 0 || headers > room {
		return false
	}
	*p = Pieces{
		b: b[:ip.Len], at: header, mtu: mtu, kind: fragmentV6,
		header: header, next: next, id: id,
		first: header, type6: b[next],
	}
	return true
}

func (p *Pieces) nextFragmentV6(dst []byte) int {
	word := p.word + uint16(p.at-p.first)
	payload := p.b[p.at:]
	var more uint16
	if room := p.mtu - p.header - fragmentHeaderLen; len(payload) > room {
		payload = payload[:room&^(unitLen-1)]
		more = ipv6MoreFragments
	}
	n := p.header + fragmentHeaderLen + len(payload)
	dst = dst[:n]
	copy(dst, p.b[:p.header])
	binary.BigEndian.PutUint16(dst[4:], uint16(n-IPv6HeaderLen))
	dst[p.next] = protoFragment
	h := dst[p.header:]
	h[0], h[1] = p.type6, 0
	binary.BigEndian.PutUint16(h[2:], word|more)
	binary.BigEndian.PutUint32(h[4:], p.id)
	copy(h[fragmentHeaderLen:], payload)

	p.at += len(payload)
	if p.at == len(p.b) {
		p.b = nil
	}
	return n
}

// perFragmentHeaders returns the number of bytes of headers that every fragment carries,
// up to the routing header or else the hop-by-hop options, and the offset of the
// next-header field of the last of them.
func perFragmentHeaders(b []byte, ip *IP) (size, next int) {
	size, next = IPv6HeaderLen, 6
	for kind, at := b[6], IPv6HeaderLen; at < int(ip.Header); {
		behind := at + extensionLen(kind, b[at:])
		if kind == protoHopByHop || kind == protoRouting {
			size, next = behind, at
		}
		kind, at = b[at], behind
	}
	return size, next
}

// nextHeaderField returns the offset of the field that holds the type of the header at
// offset at. b is IPv6 and Parse has walked it that far.
func nextHeaderField(b []byte, at int) int {
	field := 6
	for kind, i := b[6], IPv6HeaderLen; i < at; {
		field = i
		kind, i = b[i], i+extensionLen(kind, b[i:])
	}
	return field
}

// extensionLen returns the length in bytes of an extension header of the given kind.
func extensionLen(kind uint8, header []byte) int {
	switch kind {
	case protoFragment:
		return fragmentHeaderLen
	case protoAuth: // RFC 4302 section 2.2: in 4-byte units, minus 2
		return 8 + int(header[1])*4
	}
	return 8 + int(header[1])*8
}
