package packet_test

import (
	"bytes"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

// pieces writes every piece into memory of exactly size bytes with a canary
// behind it.
func pieces(t testing.TB, p *packet.Pieces, size int) [][]byte {
	t.Helper()
	var all [][]byte
	canary := bytes.Repeat([]byte{0xa5}, 64)
	for p.Left() {
		memory := append(make([]byte, size), canary...)
		n := p.Next(memory[:size])
		if n <= 0 || n > size {
			t.Fatalf("piece %d has %d bytes, room for %d", len(all), n, size)
		}
		if !bytes.Equal(memory[size:], canary) {
			t.Fatalf("piece %d was written beyond its memory", len(all))
		}
		if !bytes.Equal(memory[n:size], make([]byte, size-n)) {
			t.Fatalf("piece %d was written behind its end", len(all))
		}
		all = append(all, memory[:n])
		if len(all) > packet.MaxLen {
			t.Fatal("no end of pieces")
		}
	}
	if n := p.Next(make([]byte, size)); n != 0 {
		t.Fatalf("Next wrote %d bytes with nothing left", n)
	}
	return all
}

// naiveOptions is what RFC 791 section 3.1 lets every fragment carry of options.
func naiveOptions(options []byte) []byte {
	var kept []byte
	for len(options) > 0 && options[0] != 0 {
		if options[0] == 1 {
			options = options[1:]
			continue
		}
		n := int(options[1])
		if options[0] >= 128 {
			kept = append(kept, options[:n]...)
		}
		options = options[n:]
	}
	for len(kept)%4 != 0 {
		kept = append(kept, 0)
	}
	return kept
}

// reassemble puts fragments of one datagram together by their offsets, in any
// order, and returns the bytes from the lowest offset on. more is the flag of
// the last one.
func reassemble(t testing.TB, fragments [][]byte) (start int, payload []byte, more bool) {
	t.Helper()
	type part struct {
		offset  int
		payload []byte
		more    bool
	}
	var parts []part
	for _, b := range fragments {
		ip := parse(t, b)
		if int(ip.Len) != len(b) {
			t.Fatalf("fragment of %d bytes says it has %d", len(b), ip.Len)
		}
		parts = append(parts, part{word(b, 6) % 8192 * 8, b[ip.Header:], b[6]&0x20 != 0})
	}
	slices.SortFunc(parts, func(x, y part) int { return x.offset - y.offset })
	start = parts[0].offset
	for i, part := range parts {
		if part.offset != start+len(payload) {
			t.Fatalf("fragment %d starts at %d, want %d", i, part.offset, start+len(payload))
		}
		if last := i == len(parts)-1; !last && !part.more {
			t.Fatalf("fragment %d of %d is marked as last", i, len(parts))
		}
		payload = append(payload, part.payload...)
		more = part.more
	}
	return start, payload, more
}

// checkFragments fragments b and verifies everything about the result. b is
// IPv4 with DF clear.
func checkFragments(t testing.TB, b []byte, mtu int) [][]byte {
	t.Helper()
	ip := parse(t, b)
	before := slices.Clone(b)
	var p packet.Pieces
	p.Fragments(b, &ip, mtu)
	fragments := pieces(t, &p, min(max(mtu, packet.MinIPv4MTU), max(int(ip.Len), 1)))
	if !bytes.Equal(b, before) {
		t.Fatal("the packet itself was edited")
	}
	if int(ip.Len) <= mtu {
		if len(fragments) != 1 || !bytes.Equal(fragments[0], b[:ip.Len]) {
			t.Fatal("a packet that fits was changed")
		}
		return fragments
	}

	start, payload, more := reassemble(t, fragments)
	if start != word(b, 6)%8192*8 || more != (b[6]&0x20 != 0) || !bytes.Equal(payload, b[ip.Header:ip.Len]) {
		t.Fatalf("reassembled from %d, more %v, %d bytes; want offset %d of % x", start, more, len(payload), word(b, 6), b)
	}
	for i, f := range fragments {
		header := int(f[0]%16) * 4
		options := b[20:ip.Header]
		if i > 0 {
			options = naiveOptions(options)
		}
		want := slices.Concat(b[:20], options)
		// What differs: header and total length, more-fragments and offset, checksum.
		want[0] = f[0]
		copy(want[2:4], f[2:4])
		want[6] = want[6]&0xc0 | f[6]&0x3f
		want[7] = f[7]
		copy(want[10:12], f[10:12])
		if !bytes.Equal(f[:header], want) {
			t.Fatalf("fragment %d has header % x, want % x", i, f[:header], want)
		}
		// No more fragments than needed: each takes what fits.
		if room := (max(mtu, packet.MinIPv4MTU) - header) &^ 7; i < len(fragments)-1 && len(f)-header != room {
			t.Fatalf("fragment %d has %d payload bytes, %d fit", i, len(f)-header, room)
		}
	}
	return fragments
}
