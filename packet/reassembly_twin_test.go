package packet_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/packet"
)

// slowReassembly is the slow twin of Reassembly, with no bounds: it collects all
// fragments, compares each with each, sorts and joins.
type slowReassembly struct{ datagrams map[string]*slowDatagram }

type slowDatagram struct {
	born    time.Time
	refused packet.ReassemblyFault
	parts   []slowPart
}

type slowPart struct {
	header, payload []byte
	next            byte // IPv6
	offset, size    int
	more, df        bool
	ecn             byte
}

func (p slowPart) end() int { return p.offset + len(p.payload) }

// readSlow takes a fragment apart; b has its own length.
func readSlow(b []byte, ip packet.IP) (key string, p slowPart) {
	p.size = len(b)
	if ip.Version == 4 {
		p.header, p.payload = b[:ip.Header], b[ip.Header:]
		p.offset, p.more, p.df = word(b, 6)%8192*8, b[6]&0x20 != 0, b[6]&0x40 != 0
		p.ecn = b[1] % 4
		return fmt.Sprint(ip.Src, ip.Dst, ip.Proto, word(b, 4)), p
	}
	at := 40
	for next := b[6]; next != 44; {
		size := (int(b[at+1]) + 1) * 8
		if next == 51 {
			size = (int(b[at+1]) + 2) * 4
		}
		next = b[at]
		at += size
	}
	p.header, p.payload, p.next = b[:at], b[at+8:], b[at]
	p.offset, p.more = word(b, at+2)/8*8, b[at+3]%2 == 1
	p.ecn = b[1] / 16 % 4
	return fmt.Sprint(ip.Src, ip.Dst, binary.BigEndian.Uint32(b[at+4:])), p
}

func (r *slowReassembly) add(t testing.TB, b []byte, now time.Time) ([]byte, int, packet.ReassemblyFault) {
	t.Helper()
	ip := parse(t, b)
	key, p := readSlow(b, ip)
	if slowTiny(b, ip, p) {
		return nil, 0, packet.ReassemblyTiny
	}
	for k, g := range r.datagrams {
		if now.Sub(g.born) >= timeout {
			delete(r.datagrams, k)
		}
	}
	g := r.datagrams[key]
	if g == nil {
		g = &slowDatagram{born: now}
		r.datagrams[key] = g
	}
	if g.refused != 0 {
		return nil, 0, g.refused
	}
	if slices.ContainsFunc(g.parts, func(q slowPart) bool {
		return q.offset == p.offset && q.more == p.more && bytes.Equal(q.payload, p.payload)
	}) {
		return nil, 0, packet.ReassemblyHeld
	}
	g.parts = append(g.parts, p)
	if g.refused = slowFault(g.parts); g.refused != 0 {
		return nil, 0, g.refused
	}
	whole, largest := slowWhole(g.parts)
	if whole == nil {
		return nil, 0, packet.ReassemblyHeld
	}
	delete(r.datagrams, key)
	return whole, largest, packet.ReassemblyWhole
}

func slowTiny(b []byte, ip packet.IP, p slowPart) bool {
	least := 8
	if ip.Proto == packet.ProtoTCP {
		least = 20
	}
	if p.offset != 0 {
		return p.offset < least
	}
	upper := b[ip.Header:]
	if len(upper) < least {
		return true
	}
	return ip.Proto == packet.ProtoTCP && len(upper) < int(upper[12]>>4)*4
}

func slowFault(parts []slowPart) packet.ReassemblyFault {
	for i, p := range parts {
		for _, q := range parts[:i] {
			if p.offset < q.end() && q.offset < p.end() {
				return packet.ReassemblyOverlap
			}
			for _, x := range [][2]slowPart{{p, q}, {q, p}} {
				if last, other := x[0], x[1]; !last.more && (!other.more || other.end() >= last.end()) {
					return packet.ReassemblyOverlap
				}
			}
		}
	}
	without := 0
	for _, p := range parts {
		if p.ecn == packet.NotECT {
			without++
		}
	}
	if without != 0 && without != len(parts) {
		return packet.ReassemblyECN
	}
	header, end := 0, 0
	for _, p := range parts {
		end = max(end, p.end())
		if p.offset == 0 {
			header = len(p.header)
		}
	}
	if header > 512 || header+end > 65535 {
		return packet.ReassemblyTooLong
	}
	return 0
}

// slowWhole is nil while something is missing.
func slowWhole(parts []slowPart) (whole []byte, largest int) {
	parts = slices.SortedFunc(slices.Values(parts), func(p, q slowPart) int { return p.offset - q.offset })
	var payload []byte
	ce, anyDF := false, false
	for _, p := range parts {
		if p.offset != len(payload) {
			return nil, 0
		}
		payload = append(payload, p.payload...)
		largest = max(largest, p.size)
		ce, anyDF = ce || p.ecn == packet.CE, anyDF || p.df
	}
	if parts[len(parts)-1].more {
		return nil, 0
	}
	b := slices.Concat(parts[0].header, payload)
	header := len(parts[0].header)
	if b[0]>>4 == 4 {
		if ce {
			b[1] |= 3
		}
		b[2], b[3] = byte(len(b)>>8), byte(len(b))
		b[6], b[7] = b[6]&0x80, 0
		if anyDF {
			b[6] |= 0x40
		}
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], ^slowSum(b[:header]))
		return b, largest
	}
	if ce {
		b[1] |= 0x30
	}
	b[4], b[5] = byte((len(b)-40)>>8), byte(len(b)-40)
	field := 6
	for at, next := 40, b[6]; at < header; {
		field = at
		size := (int(b[at+1]) + 1) * 8
		if next == 51 {
			size = (int(b[at+1]) + 2) * 4
		}
		next = b[at]
		at += size
	}
	b[field] = parts[0].next
	return b, largest
}

// pair is a Reassembly and its twin.
type pair struct {
	fast *packet.Reassembly
	slow slowReassembly
	now  time.Time
}

func newPair() *pair {
	return &pair{fast: ampleReassembly(), slow: slowReassembly{map[string]*slowDatagram{}}, now: start}
}

// add gives a fragment to both and compares what they say.
func (p *pair) add(t *testing.T, b []byte) []byte {
	t.Helper()
	before := slices.Clone(b)
	got, largest, fault := add(t, p.fast, b, p.now)
	if !bytes.Equal(b, before) {
		t.Fatal("the fragment itself was edited")
	}
	want, wantLargest, wantFault := p.slow.add(t, b, p.now)
	if fault != wantFault || largest != wantLargest || !bytes.Equal(got, want) {
		t.Fatalf("fault %d, largest %d, want %d, %d, for % x\n got % x\nwant % x", fault, largest, wantFault, wantLargest, b, got, want)
	}
	if got != nil {
		checkParse(t, got)
		if ip := parse(t, got); ip.Fragment != packet.Unfragmented || int(ip.Len) != len(got) {
			t.Fatalf("the whole is no whole packet: % x", got)
		}
	}
	return got
}

// chaos turns bytes into fragments: few datagrams, whose fragments meet often.
// same makes all bytes of a datagram what their place says, so that whatever
// completes is known.
type chaos struct {
	script []byte
	same   bool
	id     uint32 // of the fragment that next gave last
}

const chaosStep = 6

func (c *chaos) next() (b []byte, step time.Duration, ok bool) {
	if len(c.script) < chaosStep {
		return nil, 0, false
	}
	s := c.script[:chaosStep]
	c.script = c.script[chaosStep:]
	p := piece{
		v6: s[0]&1 != 0, id: uint32(s[0]>>1&1) + 1, more: s[1]&1 != 0, df: s[1]&2 != 0,
		src: podA, proto: packet.ProtoUDP,
	}
	if p.v6 {
		p.src = podA6
	}
	if s[0]&4 != 0 {
		p.src = p.src.Next()
	}
	if s[0]&0x38 == 0x38 {
		p.proto = packet.ProtoTCP
	}
	if s[0]&0x40 != 0 {
		p.options = []byte{7, 7, 4, 0, 0, 0, 0, 0}
		if p.v6 {
			p.options = extension(0)
		}
	}
	p.ecn = [16]uint8{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 3, 3, 3, 0}[s[1]>>2&15]
	if c.same {
		p.proto, p.ecn = packet.ProtoUDP, 0
	}
	p.offset = int(s[2]&3) * 8
	size := int(s[3]&1)*8 + 8
	switch s[2] & 0xe0 {
	case 0xc0: // some way off
		p.offset = int(s[2]&31) * 8
		size = int(s[3]&7)*8 + 8
	case 0xe0: // anywhere
		p.offset = int(binary.BigEndian.Uint16(s[4:]) &^ 7)
		size = int(s[3])*8 + 8
	}
	if !p.more {
		size -= int(s[4] & 7)
	}
	if p.offset == 0 && !p.more {
		p.more = true
		size = max(size&^7, 8)
	}
	size = min(size, packet.MaxLen&^7-p.offset)
	if size <= 0 {
		p.offset, size = 8, 8
	}
	c.id, p.payload = p.id, chaosPayload(p.id, p.offset, size)
	if p.proto == packet.ProtoTCP && p.offset == 0 && len(p.payload) > 12 {
		p.payload[12] = s[5] // the length of the header
	}
	if !c.same && s[1]&0xc0 == 0xc0 {
		p.payload[0] ^= 1
	}
	return p.packet(), []time.Duration{0, 0, 0, 0, 0, time.Second, 5 * time.Second, timeout}[(s[5]&15)/2*(s[5]>>4&1)], true
}

func chaosPayload(id uint32, offset, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte((offset+i)*7 ^ (offset+i)>>8 ^ int(id)<<4)
	}
	return b
}
