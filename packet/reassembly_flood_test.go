package packet_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/packet"
)

// flood is fragments of datagrams that will never be whole.
type flood struct {
	v6      bool
	sources uint32
	n       uint32
	size    int
}

func (f *flood) next() []byte {
	f.n++
	p := piece{v6: f.v6, id: f.n / max(f.sources, 1), proto: packet.ProtoUDP, payload: make([]byte, f.size), more: true}
	var src [16]byte
	binary.BigEndian.PutUint32(src[12:], 0x0a090000+f.n%f.sources)
	if f.v6 {
		src[0] = 0xfd
		p.src = netip.AddrFrom16(src)
	} else {
		p.src = netip.AddrFrom4([4]byte(src[12:]))
	}
	if f.n%2 == 0 {
		p.offset = 8
	}
	return p.packet()
}

// A sender that floods takes only from itself: a datagram of another is whole even when a
// thousand fragments of the flood come between each two of its own.
func TestT11_AFloodFromFewAddressesDoesNotHarmOthers(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		for _, sources := range []uint32{1, 5} {
			r := newReassembly(1<<20, 64)
			f := flood{v6: v6, sources: sources, size: 1376}
			rnd := random()
			now := start
			for id := range uint32(8) {
				b := randomDatagram(rnd, v6, id, 6000)
				fragments := cut(t, b, 1400, id)
				for i, fragment := range fragments {
					for range 1000 {
						now = now.Add(30 * time.Microsecond) // 30 000 in a second
						add(t, r, f.next(), now)
					}
					whole, _, _ := add(t, r, fragment, now)
					if last := i == len(fragments)-1; last != (whole != nil) || last && !bytes.Equal(whole, b) {
						t.Fatalf("%d sources flood: datagram %d, fragment %d, whole %v", sources, id, i, whole != nil)
					}
				}
			}
			check(t, r)
			if s := r.Stats(); s.Datagrams > int64(sources)*64 || s.Evicted == 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}

// If every fragment of a flood has its own source, no source has more than another. The
// memory is then a queue, and who is done before it has gone round is not harmed:
// with 1 MiB and 30 000 fragments in a second that is 12 ms.
func TestT11_AFloodFromManyAddressesLeavesTimeToBeWhole(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		for _, size := range []int{8, 1376} {
			r := newReassembly(1<<20, 64)
			f := flood{v6: v6, sources: 1 << 16, size: size}
			rnd := random()
			for range 2000 {
				add(t, r, f.next(), start)
			}
			for id := range uint32(50) {
				b := randomDatagram(rnd, v6, id, 6000)
				for i, fragment := range cut(t, b, 1400, id) {
					for range 70 {
						add(t, r, f.next(), start)
					}
					if whole, _, _ := add(t, r, fragment, start); whole != nil != (i == 4) || i == 4 && !bytes.Equal(whole, b) {
						t.Fatalf("%d bytes: datagram %d, fragment %d, whole %v", size, id, i, whole != nil)
					}
				}
			}
			check(t, r)
		}
	})
}

// More at once than memory holds: some must go, but not all, and not by turns.
func TestT11_WhenMemoryIsShortMostThatFitComplete(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		r := newReassembly(1<<20, 64) // room for 12 datagrams of this size
		rnd := random()
		var senders [][][]byte
		for id := range uint32(20) {
			senders = append(senders, cut(t, randomDatagram(rnd, v6, id, 60_000), 1500, id))
		}
		complete, refused := 0, 0
		for i := range senders[0] {
			for _, fragments := range senders {
				if i >= len(fragments) {
					continue
				}
				switch _, _, fault := add(t, r, fragments[i], start); fault {
				case packet.ReassemblyWhole:
					complete++
				case packet.ReassemblyMemory:
					refused++
				}
			}
		}
		if complete < 10 || refused == 0 {
			t.Errorf("%d of 20 complete, %d fragments refused", complete, refused)
		}
		waiting(t, r, 0)
	})
}

// A sender that needs more than the free quota is not spared: its entry is the oldest of its equals.
func TestT11_TheOldestGoesAlsoWhenItIsTheOneThatAsks(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		r := newReassembly(0, 64) // 304 blocks
		sender := func(i int) piece {
			p := piece{v6: v6, src: podA, id: 7, more: true}
			if v6 {
				p.src = podA6
			}
			for range i {
				p.src = p.src.Next()
			}
			return p
		}
		asking := sender(0)
		asking.payload = counting(8)
		hold(t, r, asking.packet(), start)
		for i := range 3 {
			p := sender(i + 1)
			p.offset, p.payload = 8, make([]byte, 40_000)
			hold(t, r, p.packet(), start)
		}
		asking.offset, asking.payload = 8, make([]byte, 60_000)
		for range 2 {
			if _, _, fault := add(t, r, asking.packet(), start); fault != packet.ReassemblyMemory {
				t.Errorf("fault %d", fault)
			}
		}
		waiting(t, r, 3)
		if s := r.Stats(); s.Evicted != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestT11_ASourceHasNoMoreDatagramsThanItsShare(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		r := newReassembly(1<<20, 4)
		p := piece{v6: v6, payload: counting(8), more: true}
		for id := range uint32(6) {
			p.id = id
			hold(t, r, p.packet(), start)
		}
		waiting(t, r, 4)
		if s := r.Stats(); s.Evicted != 2 {
			t.Errorf("%+v", s)
		}
		// The newest four are there.
		p.offset, p.more = 8, false
		for id := range uint32(6) {
			p.id = id
			if id < 2 {
				continue
			}
			if _, _, fault := add(t, r, p.packet(), start); fault != done {
				t.Errorf("datagram %d: fault %d", id, fault)
			}
		}
	})
}

// What was refused is kept only to refuse more of it.
func TestT11_RefusedDatagramsGoBeforeThoseThatWait(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		r := newReassembly(0, 1000) // 76 datagrams
		p := piece{v6: v6, offset: 8, payload: counting(16), more: true}
		for id := range uint32(60) {
			p.id = id
			hold(t, r, p.packet(), start)
		}
		across := piece{v6: v6, offset: 16, payload: counting(16), more: true}
		for id := range uint32(200) {
			p.id, across.id = 100+id, 100+id
			hold(t, r, p.packet(), start)
			if _, _, fault := add(t, r, across.packet(), start); fault != packet.ReassemblyOverlap {
				t.Fatalf("fault %d", fault)
			}
		}
		waiting(t, r, 60)
		if s := r.Stats(); s.Evicted != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Whatever is left when a fragment comes, there is room for it or there is not.
func TestT11_FragmentsOfEverySizeFillMemoryToTheLastBlock(t *testing.T) {
	t.Parallel()
	rnd := random()
	for range cases(60) {
		r := newReassembly(0, 3+rnd.IntN(20))
		most := int64(0)
		for range 1000 {
			p := piece{src: podA, id: uint32(rnd.IntN(4)), more: true, payload: make([]byte, 8+rnd.IntN(600)*8)}
			for range rnd.IntN(30) {
				p.src = p.src.Next()
			}
			if rnd.IntN(2) == 0 {
				p.offset = rnd.IntN(7000) * 8
			}
			add(t, r, p.packet(), start)
			most = max(most, r.Stats().Bytes)
		}
		check(t, r)
		if most < 140<<10 {
			t.Fatalf("only %d bytes were ever taken", most)
		}
	}
}

// FragmentSmack: what a fragment costs must not grow with the fragments before
// it. Here they come from behind, one unit each.
func TestT11_ThousandsOfSmallFragmentsFromBehindMakeTheDatagram(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, v6 bool) {
		r := newReassembly(0, 1)
		payload := counting(packet.MaxLen - 61)
		last := len(payload) / 8 * 8
		hold(t, r, piece{v6: v6, id: 7, offset: last, payload: payload[last:]}.packet(), start)
		for at := last - 8; at > 0; at -= 8 {
			hold(t, r, piece{v6: v6, id: 7, offset: at, payload: payload[at : at+8], more: true}.packet(), start)
		}
		whole, _, fault := add(t, r, piece{v6: v6, id: 7, payload: payload[:8], more: true}.packet(), start)
		if fault != done || !bytes.HasSuffix(whole, payload) {
			t.Errorf("fault %d, %d bytes", fault, len(whole))
		}
	})
}

// weigh makes a Reassembly and tells what it allocated, bytes. Goroutines of the runtime
// allocate too, at any time: the smallest of several results is that of the Reassembly.
func weigh(size, perSource int) (r *packet.Reassembly, bytes int) {
	bytes = math.MaxInt
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r = newReassembly(size, perSource)
		runtime.ReadMemStats(&after)
		bytes = min(bytes, int(after.TotalAlloc-before.TotalAlloc))
	}
	return r, bytes
}

// Every kind of flood at once, and the memory is what it was.
func TestT11_RFC3022_MemoryIsBoundedWhateverComes(t *testing.T) {
	for _, size := range []int{0, 1 << 20, 4 << 20} {
		bound := max(size, 256<<10)
		r, got := weigh(size, 64)
		if got > bound || got < bound*9/10 {
			t.Errorf("%d bytes for a bound of %d", got, bound)
		}

		floods := []*flood{
			{sources: 1, size: 1376}, {v6: true, sources: 1 << 16, size: 1376}, {sources: 1 << 16, size: 8},
			{v6: true, sources: 3, size: 16}, {sources: 1 << 10, size: 60_000},
		}
		var stream [][]byte
		for range 1000 {
			for _, f := range floods {
				stream = append(stream, f.next())
			}
		}
		now, most := start, int64(0)
		pass := func() {
			var ip packet.IP
			for _, b := range stream {
				now = now.Add(100 * time.Microsecond)
				packet.Parse(b, &ip)
				r.Add(b, &ip, now)
				most = max(most, r.Stats().Bytes)
			}
		}
		if n := testing.AllocsPerRun(3, pass); n != 0 && !raceflag.Enabled {
			t.Errorf("%v allocations in a flood", n)
		}
		check(t, r)
		if most > int64(bound) || most < int64(bound)/4 {
			t.Errorf("%d bytes were taken at most, of %d", most, bound)
		}
		r.Expire(now.Add(timeout))
		if s := r.Stats(); s.Datagrams != 0 || s.Bytes != 0 {
			t.Errorf("after the flood: %+v", s)
		}
		check(t, r)
	}
}

func TestT11_AnyShareOfASourceIsBoundedByMemory(t *testing.T) {
	for _, perSource := range []int{-1, 0, 1, 1 << 20} {
		r, bytes := weigh(0, perSource)
		if bytes > 256<<10 {
			t.Errorf("a share of %d takes %d bytes", perSource, bytes)
		}
		for id := range uint32(100) {
			hold(t, r, piece{id: id, payload: counting(8), more: true}.packet(), start)
		}
		want := int64(1)
		if perSource > 1 {
			want = 76
		}
		waiting(t, r, want)
	}
}

func TestReassemblyAllocatesNothing(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates by itself; run without -race")
	}
	r := ampleReassembly()
	fragments := cut(t, ipv4{id: 7}.packet(counting(9000)), 1400, 0)
	fragments = append(fragments, cut(t, udp6(counting(9000)), 1400, 7)...)
	fragments = append(fragments, udp4(counting(100)))
	wholes, now := 0, start
	n := testing.AllocsPerRun(100, func() {
		var ip packet.IP
		for _, b := range fragments {
			now = now.Add(time.Second)
			packet.Parse(b, &ip)
			if _, _, fault := r.Add(b, &ip, now); fault == packet.ReassemblyWhole {
				wholes++
			}
		}
		r.Expire(now)
		r.Stats()
	})
	if n != 0 || wholes < 300 {
		t.Errorf("%v allocations, %d datagrams", n, wholes)
	}
}
