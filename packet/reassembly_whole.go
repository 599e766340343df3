package packet

import "encoding/binary"

// putWhole puts a complete datagram together in r.out.
func (r *Reassembly) putWhole(g *incomplete) []byte {
	header, n := int(g.header), int(g.header)+int(g.total)
	whole := r.out[:n]
	copy(whole[:header], r.blocks.bytes(g.headerBlock))
	for i, at := 0, header; at < n; i++ {
		at += copy(whole[at:], r.blocks.bytes(g.blocks[i]))
	}
	if g.ecn&(1<<CE) != 0 {
		SetECN(whole, &IP{Version: whole[0] >> 4}, CE)
	}
	if whole[0]>>4 == 6 {
		whole[nextHeaderField(whole, header)] = g.next
		binary.BigEndian.PutUint16(whole[4:], uint16(n-IPv6HeaderLen))
		return whole
	}
	flags := binary.BigEndian.Uint16(whole[6:]) &^ (ipv4MoreFragments | ipv4FragmentOffset)
	if g.df {
		flags |= ipv4DontFragment
	}
	binary.BigEndian.PutUint16(whole[2:], uint16(n))
	binary.BigEndian.PutUint16(whole[6:], flags)
	putIPv4Checksum(whole[:header])
	return whole
}

// putUnfragmented copies a packet that needs no other to r.out, without the
// fragment header it may have.
func (r *Reassembly) putUnfragmented(b []byte, ip *IP) []byte {
	b = b[:ip.Len]
	at := int(ip.fragOffset)
	if at == 0 {
		return r.out[:copy(r.out, b)]
	}
	n := copy(r.out, b[:at])
	n += copy(r.out[n:], b[at+fragmentHeaderLen:])
	r.out[nextHeaderField(r.out, at)] = b[at]
	binary.BigEndian.PutUint16(r.out[4:], uint16(n-IPv6HeaderLen))
	return r.out[:n]
}
