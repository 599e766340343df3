package packet

import "encoding/binary"

// MinIPv4MTU is the smallest IPv4 MTU in bytes: a header of 60 bytes and one fragment
// unit of 8 (RFC 791 section 3.2).
const MinIPv4MTU = 68

const (
	ipv4DontFragment   = 0x4000
	ipv4MoreFragments  = 0x2000
	ipv4FragmentOffset = 0x1fff // in units of 8 bytes
	ipv4OptionCopied   = 0x80
)

// Fragments cuts an IPv4 packet into fragments of at most mtu bytes, RFC 791 section 3.2.
// A packet that fits stays whole. b may be a fragment itself. The caller has checked that
// the packet is IPv4 and that DF is clear, or that the packet was reassembled from
// fragments with DF: DF stays set in every piece. An mtu below MinIPv4MTU counts as
// MinIPv4MTU.
func (p *Pieces) Fragments(b []byte, ip *IP, mtu int) {
	if int(ip.Len) <= mtu {
		p.Whole(b[:ip.Len])
		return
	}
	*p = Pieces{b: b[:ip.Len], at: int(ip.Header), mtu: max(mtu, MinIPv4MTU), kind: fragment}
}

// SetID sets the identification of an IPv4 packet and updates the header checksum. It is
// needed when packets of several senders get one source address: a packet that may be
// fragmented later must not share its identification with another packet of the same
// addresses and protocol while fragments may live (RFC 6864 section 4.3). An unfragmented
// packet with DF may have any identification (section 4.1). All fragments of one datagram
// must get the same one.
func SetID(b []byte, id uint16) {
	d := DeltaOf(binary.BigEndian.Uint16(b[4:]), id)
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[10:], Update(binary.BigEndian.Uint16(b[10:]), d))
}

func (p *Pieces) nextFragment(dst []byte) int {
	header := ipv4HeaderLen(p.b)
	first := p.at == header
	done := p.at - header // payload bytes in the fragments before

	size := header
	if first {
		copy(dst[:header], p.b)
	} else {
		copy(dst[:IPv4HeaderLen], p.b)
		size = IPv4HeaderLen + copyOptions(dst[IPv4HeaderLen:], p.b[IPv4HeaderLen:header])
		dst[0] = 0x40 | byte(size/4)
	}

	field := binary.BigEndian.Uint16(p.b[6:])
	offset := field&ipv4FragmentOffset + uint16(done/8)
	flags := field &^ ipv4FragmentOffset // a fragment cut further keeps its own MF on its last piece
	payload := p.b[p.at:]
	if room := p.mtu - size; len(payload) > room {
		payload = payload[:room&^7]
		flags |= ipv4MoreFragments
		p.at += len(payload)
	} else {
		p.b = nil
	}

	n := size + copy(dst[size:size+len(payload)], payload)
	binary.BigEndian.PutUint16(dst[2:], uint16(n))
	binary.BigEndian.PutUint16(dst[6:], flags|offset)
	putIPv4Checksum(dst[:size])
	return n
}

// copyOptions writes the options that every fragment carries (RFC 791 section 3.1,
// "copied flag"), padded with end-of-list to whole words, and returns their length. Parse
// has checked the option lengths.
func copyOptions(dst, options []byte) int {
	n := 0
	for len(options) > 0 && options[0] != 0 {
		size := 1 // no operation
		if options[0] != 1 {
			size = int(options[1])
		}
		if options[0]&ipv4OptionCopied != 0 {
			n += copy(dst[n:n+size], options[:size])
		}
		options = options[size:]
	}
	for n%4 != 0 {
		dst[n] = 0
		n++
	}
	return n
}

// ipv4HeaderLen is the length in bytes that the header claims.
func ipv4HeaderLen(b []byte) int { return int(b[0]&0x0f) * 4 }

// putIPv4Checksum computes the checksum of a header.
func putIPv4Checksum(header []byte) {
	header[10], header[11] = 0, 0
	binary.BigEndian.PutUint16(header[10:], ^Sum(header, 0))
}
