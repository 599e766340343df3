package packet_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/packet"
)

func TestReassemblyOfKnownFragments(t *testing.T) {
	t.Parallel()
	addresses := []byte{10, 0, 1, 5, 10, 71, 2, 9}
	first := slices.Concat([]byte{
		0x46, 0xb8, 0, 40, 0x12, 0x34, // 24 bytes of header, DSCP EF
		0x20, 0x00, // MF, offset 0
		63, 17, 0, 0,
	}, addresses, []byte{148, 4, 0, 0}, counting(40)[:16])
	last := slices.Concat([]byte{
		0x45, 0, 0, 29, 0x12, 0x34,
		0x00, 0x02, // last, offset 2 * 8
		9, 17, 0, 0,
	}, addresses, counting(40)[16:25])
	want := repair(slices.Concat([]byte{
		0x46, 0xb8, 0, 49, 0x12, 0x34,
		0x00, 0x00,
		63, 17, 0, 0,
	}, addresses, []byte{148, 4, 0, 0}, counting(40)[:25]))
	first, last = repair(first), repair(last)

	for _, order := range [][2][]byte{{first, last}, {last, first}} {
		r := ampleReassembly()
		hold(t, r, order[0], start)
		whole, largest, fault := add(t, r, order[1], start)
		if fault != packet.ReassemblyWhole || largest != 40 || !bytes.Equal(whole, want) {
			t.Errorf("fault %d, largest %d\n got % x\nwant % x", fault, largest, whole, want)
		}
		waiting(t, r, 0)
	}
}

func TestReassemblyOfKnownIPv6Fragments(t *testing.T) {
	t.Parallel()
	hop := []byte{44, 0, 5, 2, 0, 0, 1, 0} // router alert, then the fragment header
	fragment := func(offset uint16, more bool, next uint8, payload []byte) []byte {
		return ipv6{class: 0xb8, hopLimit: 63, next: 0, extensions: slices.Concat(hop,
			fragmentHeader(next, offset, more, 0x12345678))}.packet(payload)
	}
	first := fragment(0, true, 17, counting(40)[:16])
	last := fragment(16, false, 59, counting(40)[16:25]) // what later fragments say is next does not matter
	want := ipv6{class: 0xb8, hopLimit: 63, next: 0, extensions: append([]byte{17}, hop[1:]...)}.packet(counting(40)[:25])

	for _, order := range [][2][]byte{{first, last}, {last, first}} {
		r := ampleReassembly()
		hold(t, r, order[0], start)
		whole, largest, fault := add(t, r, order[1], start)
		if fault != packet.ReassemblyWhole || largest != 72 || !bytes.Equal(whole, want) {
			t.Errorf("fault %d, largest %d\n got % x\nwant % x", fault, largest, whole, want)
		}
	}
}

func TestRFC4787REQ14_RFC3022_FragmentsInEveryOrderMakeTheDatagramForMasquerade(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		b := randomDatagram(random(), v6, 7, 1280*4+100)
		fragments := cut(t, b, 1300, 7)
		if len(fragments) != 5 {
			t.Fatalf("%d fragments", len(fragments))
		}
		r := ampleReassembly()
		orders := 0
		permute(fragments, 0, func() {
			orders++
			for _, f := range fragments[:4] {
				hold(t, r, f, start)
			}
			if whole, largest, _ := add(t, r, fragments[4], start); !bytes.Equal(whole, b) || largest > 1300 {
				t.Fatalf("order %d does not make the datagram, largest %d", orders, largest)
			}
			waiting(t, r, 0)
		})
		if orders != 120 {
			t.Fatalf("%d orders", orders)
		}
	})
}

// permute calls f with every order of b[i:].
func permute(b [][]byte, i int, f func()) {
	if i == len(b) {
		f()
		return
	}
	for j := i; j < len(b); j++ {
		b[i], b[j] = b[j], b[i]
		permute(b, i+1, f)
		b[i], b[j] = b[j], b[i]
	}
}

// What goes on in pieces no longer than they came is again what the sender sent.
func TestRFC4787REQ14_DatagramsCutAgainAfterMasqueradeAreTheSame(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		b := randomDatagram(random(), v6, 7, 9000)
		fragments := cut(t, b, 1400, 7)
		r := ampleReassembly()
		for _, f := range fragments[1:] {
			hold(t, r, f, start)
		}
		whole, largest, _ := add(t, r, fragments[0], start)
		for i, f := range cut(t, slices.Clone(whole), largest, 7) {
			if !bytes.Equal(f, fragments[i]) {
				t.Fatalf("fragment %d is\n% x, was\n% x", i, f[:60], fragments[i][:60])
			}
		}
	})
}

func TestReassemblyKeepsDatagramsApartByAllThatNamesThem(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		r := ampleReassembly()
		base := piece{v6: v6, src: podA, id: 7, proto: packet.ProtoUDP, payload: counting(8), more: true}
		if v6 {
			base.src = podA6
		}
		hold(t, r, base.packet(), start)
		last := base
		last.offset, last.more = 8, false
		otherSource, otherID, otherProto := last, last, last
		otherSource.src, otherID.id, otherProto.proto = base.src.Next(), 8, 253
		hold(t, r, otherSource.packet(), start)
		hold(t, r, otherID.packet(), start)
		waiting(t, r, 3)
		// The protocol names an IPv4 datagram, RFC 791 section 3.2, and no IPv6 one:
		// its fragments may say what they like, RFC 8200 section 4.5.
		if _, _, fault := add(t, r, otherProto.packet(), start); (fault == packet.ReassemblyWhole) != v6 {
			t.Errorf("with another protocol: fault %d", fault)
		}
	})
}

func TestReassemblyTimesOut(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		first := piece{v6: v6, id: 7, payload: counting(8), more: true}.packet()
		last := piece{v6: v6, id: 7, offset: 8, payload: counting(8)}.packet()
		r := ampleReassembly()
		hold(t, r, first, start)
		if _, _, fault := add(t, r, last, start.Add(timeout-1)); fault != packet.ReassemblyWhole {
			t.Errorf("within time: fault %d", fault)
		}
		hold(t, r, first, start.Add(timeout))
		hold(t, r, last, start.Add(2*timeout)) // begins anew
		waiting(t, r, 1)
		r.Expire(start.Add(3*timeout - 1))
		waiting(t, r, 1)
		r.Expire(start.Add(3 * timeout))
		waiting(t, r, 0)
		if s := r.Stats(); s != (packet.ReassemblyStats{TimedOut: 2}) {
			t.Errorf("%+v", s)
		}
	})
}

// Time runs from the first fragment; later ones do not lengthen it (RFC 8200 section 4.5).
func TestReassemblyTimeIsNotLengthenedByFragments(t *testing.T) {
	t.Parallel()
	r := ampleReassembly()
	for i := range 30 {
		hold(t, r, piece{id: 7, offset: 8 * i, payload: counting(8), more: true}.packet(), start.Add(time.Duration(i)*time.Second))
	}
	hold(t, r, piece{id: 7, offset: 8 * 30, payload: counting(8)}.packet(), start.Add(timeout))
	if s := r.Stats(); s.TimedOut != 1 || s.Datagrams != 1 {
		t.Errorf("%+v", s)
	}
}

func TestReassemblyForgetsOldDatagramsWithoutBeingAsked(t *testing.T) {
	t.Parallel()
	r := ampleReassembly()
	for i := range uint32(300) {
		hold(t, r, piece{id: i, payload: counting(8), more: true}.packet(), start)
	}
	for i := range uint32(160) {
		hold(t, r, piece{id: 1000 + i, payload: counting(8), more: true}.packet(), start.Add(timeout))
	}
	waiting(t, r, 160)
	if s := r.Stats(); s.TimedOut != 300 || s.Evicted != 0 {
		t.Errorf("%+v", s)
	}
}

// step is one fragment and what has to come of it.
type step struct {
	piece
	fault packet.ReassemblyFault
}

// walk gives the fragments of one datagram to a Reassembly.
func walk(t *testing.T, v6 bool, steps []step) *packet.Reassembly {
	t.Helper()
	r := ampleReassembly()
	for i, s := range steps {
		s.v6, s.id = v6, 7
		if _, _, fault := add(t, r, s.packet(), start); fault != s.fault {
			t.Errorf("fragment %d: fault %d, want %d", i, fault, s.fault)
		}
		check(t, r)
	}
	return r
}

const (
	held    = packet.ReassemblyHeld
	overlap = packet.ReassemblyOverlap
	done    = packet.ReassemblyWhole
)

func TestI9_RFC5722_OverlapEndsTheWholeDatagram(t *testing.T) {
	t.Parallel()
	some := func(offset, size int) piece {
		return piece{offset: offset, payload: counting(2000)[offset : offset+size], more: true}
	}
	final := func(offset, size int) piece {
		p := some(offset, size)
		p.more = false
		return p
	}
	other := some(16, 16)
	other.payload = bytes.Repeat([]byte{9}, 16)
	for name, steps := range map[string][]step{
		"into the front":                    {{some(16, 16), held}, {some(8, 16), overlap}},
		"into the end":                      {{some(16, 16), held}, {some(24, 16), overlap}},
		"inside":                            {{some(0, 80), held}, {some(16, 8), overlap}},
		"around":                            {{some(16, 8), held}, {some(0, 80), overlap}},
		"same place, other bytes":           {{some(16, 16), held}, {other, overlap}},
		"same bytes, shorter at the end":    {{some(16, 16), held}, {some(16, 8), overlap}},
		"same bytes, shorter in front":      {{some(16, 16), held}, {some(24, 8), overlap}},
		"same bytes of two":                 {{some(16, 8), held}, {some(24, 8), held}, {some(16, 16), overlap}},
		"same bytes across blocks":          {{some(0, 1024), held}, {some(0, 512), overlap}},
		"same bytes, the rear of two":       {{some(0, 1024), held}, {some(512, 512), overlap}},
		"more bytes across blocks":          {{some(0, 512), held}, {some(0, 1024), overlap}},
		"behind the last":                   {{final(16, 5), held}, {some(24, 8), overlap}},
		"the last before another":           {{some(24, 8), held}, {final(16, 5), overlap}},
		"the last in the midst of another":  {{some(16, 16), held}, {final(16, 12), overlap}},
		"two ends":                          {{final(16, 5), held}, {final(16, 6), overlap}},
		"two ends, apart":                   {{final(16, 5), held}, {final(32, 5), overlap}},
		"the last says that more will come": {{final(16, 8), held}, {some(16, 8), overlap}},
		"one says that it was the last":     {{some(16, 8), held}, {final(16, 8), overlap}},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, v6 bool) {
				// Nothing that comes afterwards makes a datagram of it.
				r := walk(t, v6, append(slices.Clone(steps),
					step{some(0, 16), overlap}, step{some(16, 16), overlap}, step{final(32, 8), overlap}))
				if s := r.Stats(); s != (packet.ReassemblyStats{}) {
					t.Errorf("still holds %+v", s)
				}
				// Its identification is free again when its time is over.
				first, last := some(0, 16), final(16, 5)
				first.v6, last.v6, first.id, last.id = v6, v6, 7, 7
				hold(t, r, first.packet(), start.Add(timeout))
				if _, _, fault := add(t, r, last.packet(), start.Add(timeout)); fault != done {
					t.Errorf("afterwards: fault %d", fault)
				}
				if s := r.Stats(); s.TimedOut != 0 {
					t.Errorf("a refused datagram counts as timed out: %+v", s)
				}
			})
		})
	}
}

func TestI9_RFC5722_ExactDuplicatesAreIgnored(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		b := randomDatagram(random(), v6, 7, 5000)
		fragments := cut(t, b, 1300, 7)
		r := ampleReassembly()
		last := len(fragments) - 1
		for range 3 {
			for _, f := range fragments[1:] {
				hold(t, r, f, start)
			}
		}
		if whole, _, _ := add(t, r, fragments[0], start); !bytes.Equal(whole, b) {
			t.Error("not the datagram")
		}
		hold(t, r, fragments[last], start) // late: the datagram is gone
		waiting(t, r, 1)
	})
}

func TestI9_RFC5722_DuplicatesOfTheFurthestFragmentAreIgnored(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		furthest := piece{offset: 65520, payload: counting(15)}
		r := walk(t, v6, []step{{furthest, held}, {furthest, held}})
		waiting(t, r, 1)
	})
}

func TestI9_RFC6946_AnAtomicFragmentNeverMeetsOthers(t *testing.T) {
	t.Parallel()
	r := ampleReassembly()
	message := udpMessage(podA6, podB6, counting(9))
	atomic := ipv6{next: 60, extensions: slices.Concat(extension(44), fragmentHeader(packet.ProtoUDP, 0, false, 5))}.packet(message)
	want := ipv6{next: 60, extensions: extension(packet.ProtoUDP)}.packet(message)

	hold(t, r, piece{v6: true, id: 5, proto: packet.ProtoUDP, payload: counting(8), more: true}.packet(), start)
	hold(t, r, piece{v6: true, id: 5, proto: packet.ProtoUDP, payload: counting(8), offset: 16}.packet(), start)
	for range 2 {
		whole, largest, fault := add(t, r, atomic, start)
		if fault != done || largest != len(atomic) || !bytes.Equal(whole, want) {
			t.Errorf("fault %d, largest %d\n got % x\nwant % x", fault, largest, whole, want)
		}
	}
	waiting(t, r, 1)
	if _, _, fault := add(t, r, piece{v6: true, id: 5, payload: counting(8), offset: 8, more: true}.packet(), start); fault != done {
		t.Errorf("what waited under its identification was harmed: fault %d", fault)
	}
}

func TestReassemblyPassesWholePacketsOn(t *testing.T) {
	t.Parallel()
	r := ampleReassembly()
	for _, b := range everyKind() {
		if ip := parse(t, b); ip.Fragment != packet.Unfragmented || b[0]>>4 == 6 && b[6] == 44 {
			continue
		}
		whole, largest, fault := add(t, r, append(slices.Clone(b), 0xee), start)
		if fault != done || largest != len(b) || !bytes.Equal(whole, b) {
			t.Errorf("fault %d, % x for % x", fault, whole, b)
		}
	}
	waiting(t, r, 0)
}

func TestT11_RFC1858_FragmentsThatHideTheUpperHeaderAreRefused(t *testing.T) {
	t.Parallel()
	header := tcp{flags: syn, options: []byte{2, 4, 5, 0xb4}}.message(podA, podB, counting(16)) // 24 bytes of header
	both(t, func(t *testing.T, v6 bool) {
		for _, c := range []struct {
			name         string
			proto        uint8
			offset, size int
			want         packet.ReassemblyFault
		}{
			{"ports only", packet.ProtoTCP, 0, 8, packet.ReassemblyTiny},
			{"without the flags' neighbours", packet.ProtoTCP, 0, 16, packet.ReassemblyTiny},
			{"whole header", packet.ProtoTCP, 0, 24, held},
			{"RFC 3128: from the second unit", packet.ProtoTCP, 8, 16, packet.ReassemblyTiny},
			{"from the third", packet.ProtoTCP, 16, 16, packet.ReassemblyTiny},
			{"behind the least header", packet.ProtoTCP, 24, 16, held},
			{"UDP", packet.ProtoUDP, 0, 8, held},
			{"UDP's payload", packet.ProtoUDP, 8, 8, held},
		} {
			r := ampleReassembly()
			p := piece{v6: v6, id: 7, proto: c.proto, offset: c.offset, payload: header[c.offset : c.offset+c.size], more: true}
			if _, _, fault := add(t, r, p.packet(), start); fault != c.want {
				t.Errorf("%s: fault %d, want %d", c.name, fault, c.want)
			}
		}
		long := slices.Clone(header)
		long[12] = 15 << 4 // 60 bytes of header, of which 24 are here
		if _, _, fault := add(t, ampleReassembly(), piece{v6: v6, proto: packet.ProtoTCP, payload: long[:24], more: true}.packet(), start); fault != packet.ReassemblyTiny {
			t.Errorf("options cut off: fault %d", fault)
		}
	})
	// RFC 7112: the chain of headers ends where the fragment ends.
	chain := ipv6{next: 44, extensions: slices.Concat(fragmentHeader(60, 0, true, 7), extension(packet.ProtoUDP))}.packet(nil)
	if _, _, fault := add(t, ampleReassembly(), chain, start); fault != packet.ReassemblyTiny {
		t.Errorf("no upper header: fault %d", fault)
	}
}

func TestReassemblyNeverMakesMoreThanAPacketHolds(t *testing.T) {
	t.Parallel()
	rest := func(offset, size int) piece { return piece{offset: offset, payload: make([]byte, size)} }
	first := piece{payload: counting(16), more: true, options: []byte{7, 7, 4, 0, 0, 0, 0, 0}}
	first6 := piece{payload: counting(16), more: true, options: extension(0)}
	tooLong := packet.ReassemblyTooLong
	for _, c := range []struct {
		name  string
		v6    bool
		steps []step
	}{
		{"ends too far, first comes first", false, []step{{first, held}, {rest(65504, 4), tooLong}, {rest(24, 1), tooLong}}},
		{"ends too far, first comes last", false, []step{{rest(65504, 4), held}, {first, tooLong}, {rest(24, 1), tooLong}}},
		{"as far as can be", false, []step{{first, held}, {rest(65504, 3), held}, {rest(24, 1), overlap}}},
		{"IPv6, too far", true, []step{{first6, held}, {rest(65480, 8), tooLong}}},
		{"IPv6, too far, first comes last", true, []step{{rest(65480, 8), held}, {first6, tooLong}}},
		{"IPv6, as far as can be", true, []step{{first6, held}, {rest(65480, 7), held}}},
	} {
		t.Run(c.name, func(t *testing.T) { walk(t, c.v6, c.steps) })
	}

	long := piece{v6: true, id: 7, payload: counting(16), more: true, options: append([]byte{0, 59}, make([]byte, 478)...)}
	if _, _, fault := add(t, ampleReassembly(), long.packet(), start); fault != tooLong {
		t.Errorf("more headers than are kept: fault %d", fault)
	}
	long.options = append([]byte{0, 58}, make([]byte, 470)...)
	if _, _, fault := add(t, ampleReassembly(), long.packet(), start); fault != held {
		t.Errorf("as many headers as are kept: fault %d", fault)
	}
}

func TestRFC3168_CongestionMarksSurviveReassembly(t *testing.T) {
	t.Parallel()
	const not, ect0, ect1, ce = packet.NotECT, packet.ECT0, packet.ECT1, packet.CE
	both(t, func(t *testing.T, v6 bool) {
		for _, c := range []struct {
			fields [3]uint8
			want   uint8
			fault  packet.ReassemblyFault
		}{
			{[3]uint8{not, not, not}, not, done},
			{[3]uint8{ect0, ect0, ect0}, ect0, done},
			{[3]uint8{ect1, ect1, ect1}, ect1, done},
			{[3]uint8{ce, ce, ce}, ce, done},
			{[3]uint8{ect0, ce, ect0}, ce, done},
			{[3]uint8{ce, ect1, ect1}, ce, done},
			{[3]uint8{ect0, ect1, ect0}, ect0, done},
			{[3]uint8{ect0, ect0, not}, 0, packet.ReassemblyECN},
			{[3]uint8{not, ce, not}, 0, packet.ReassemblyECN},
			{[3]uint8{not, not, ect1}, 0, packet.ReassemblyECN},
			{[3]uint8{ce, ce, not}, 0, packet.ReassemblyECN},
		} {
			r := ampleReassembly()
			var whole []byte
			var fault packet.ReassemblyFault
			for i, ecn := range c.fields {
				p := piece{v6: v6, id: 7, ecn: ecn | 0xb8, offset: 8 * i, payload: counting(8), more: i < 2}
				whole, _, fault = add(t, r, p.packet(), start)
			}
			if fault != c.fault {
				t.Errorf("%v: fault %d, want %d", c.fields, fault, c.fault)
				continue
			}
			if fault != done {
				waiting(t, r, 0)
				continue
			}
			checkParse(t, whole) // the checksum, too
			class := whole[1]
			if v6 {
				class = byte(binary.BigEndian.Uint16(whole) >> 4)
			}
			if class != c.want|0xb8 {
				t.Errorf("%v: traffic class %#02x", c.fields, class)
			}
		}
	})
}

func TestReassemblyKeepsDF(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, last bool }{{false, false}, {true, true}, {true, false}, {false, true}} {
		r := ampleReassembly()
		hold(t, r, piece{id: 7, payload: counting(80), more: true, df: c.first}.packet(), start)
		whole, largest, fault := add(t, r, piece{id: 7, offset: 80, payload: counting(8), df: c.last}.packet(), start)
		if fault != done {
			t.Fatalf("fault %d", fault)
		}
		ip := parse(t, whole)
		if ip.DF != (c.first || c.last) || ip.Fragment != packet.Unfragmented {
			t.Errorf("%+v: DF %v", c, ip.DF)
		}
		if !ip.DF {
			continue
		}
		// It goes on as it came: no piece may be cut further.
		var p packet.Pieces
		p.Fragments(whole, &ip, largest)
		for _, f := range pieces(t, &p, largest) {
			if ip := parse(t, f); !ip.DF {
				t.Errorf("a fragment without DF: % x", f)
			}
		}
	}
}

// RFC 6864 section 4: two senders chose the same identification, and now have the
// same address. Without another one their fragments would overlap.
func TestI10_MasqueradedSendersGetTheirOwnIdentifications(t *testing.T) {
	t.Parallel()
	r := ampleReassembly()
	for _, distinct := range []bool{false, true} {
		var fragments [][]byte
		var want [2][]byte
		for i := range want {
			b := ipv4{id: 7, proto: packet.ProtoUDP}.packet(bytes.Repeat([]byte{byte(i)}, 2000))
			if distinct {
				packet.SetID(b, uint16(100+i))
			}
			want[i] = b
			fragments = append(fragments, cut(t, b, 1300, 0)...)
		}
		var got [][]byte
		for _, i := range []int{0, 2, 1, 3} {
			if whole, _, _ := add(t, r, fragments[i], start); whole != nil {
				got = append(got, slices.Clone(whole))
			}
		}
		if distinct && (len(got) != 2 || !bytes.Equal(got[0], want[0]) || !bytes.Equal(got[1], want[1])) {
			t.Errorf("%d datagrams of two", len(got))
		}
		if !distinct && got != nil {
			t.Error("datagrams with one identification were told apart: the test tests nothing")
		}
	}
}
