package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/packet"
)

var (
	both = []Interface{{Name: "in", Description: "arrives"}, {Name: "out", Description: "leaves", Outbound: true}}
	noon = time.Unix(1_700_000_000, 123_456_789)
)

// ping is an IPv4 packet of so many bytes, at least 20.
func ping(size int) []byte {
	b := make([]byte, size)
	copy(b, []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, packet.ProtoICMP, 0, 0, 10, 0, 1, 5, 10, 71, 2, 9})
	binary.BigEndian.PutUint16(b[2:], uint16(size))
	binary.BigEndian.PutUint16(b[10:], ^packet.Sum(b[:20], 0))
	for i := 20; i < size; i++ {
		b[i] = byte(i)
	}
	return b
}

// file is everything that a recorder has.
func file(r *Recorder, now time.Time) []byte {
	b := r.AppendBeginning(nil)
	for more := true; more; {
		b, more = r.Append(b)
	}
	return r.AppendStatistics(b, now)
}

// packets reads a file, whose blocks must be as they were.
func packets(t testing.TB, file []byte) (found []Packet, r *Reader) {
	t.Helper()
	r = NewReader(bytes.NewReader(file))
	var again []byte
	for {
		raw, p, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		again = append(again, raw...)
		if p != nil {
			p.Data = bytes.Clone(p.Data)
			found = append(found, *p)
		}
	}
	if !bytes.Equal(again, file) {
		t.Error("the blocks are not the file")
	}
	return found, r
}

func TestPacketsComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	r := NewRecorder(both, Filter{}, 0, 0)
	for i, size := range []int{20, 21, 22, 23, 1500, packet.MaxLen} {
		r.Packet(i%2, noon.Add(time.Duration(i)), ping(size))
	}
	found, reader := packets(t, file(r, noon))
	if len(found) != 6 || reader.Total() != (Statistics{Received: 6}) {
		t.Fatalf("%d packets, %+v", len(found), reader.Total())
	}
	for i, p := range found {
		size := []int{20, 21, 22, 23, 1500, packet.MaxLen}[i]
		if !bytes.Equal(p.Data, ping(size)) || p.Original != size {
			t.Errorf("packet %d has %d of %d bytes, or others", i, len(p.Data), p.Original)
		}
		if p.Interface != both[i%2].Name || p.Outbound != both[i%2].Outbound || !p.Time.Equal(noon.Add(time.Duration(i))) {
			t.Errorf("packet %d was seen at %s, outbound %v, %v", i, p.Interface, p.Outbound, p.Time)
		}
	}
}

func TestTheFileIsWhatOtherProgramsRead(t *testing.T) {
	t.Parallel()
	r := NewRecorder(both[1:], Filter{}, 2, 0)
	r.Packet(0, time.Unix(1, 2), []byte{0x45, 0xaa, 0xbb})
	want := []byte{
		0x0a, 0x0d, 0x0d, 0x0a, 44, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, // section, 1.0
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		4, 0, 6, 0, 's', 't', 'r', 'a', 'i', 't', 0, 0, 0, 0, 0, 0, 44, 0, 0, 0,
		1, 0, 0, 0, 52, 0, 0, 0, 113, 0, 0, 0, 18, 0, 0, 0, // interface, cooked, 2 bytes of each packet
		2, 0, 3, 0, 'o', 'u', 't', 0, 3, 0, 6, 0, 'l', 'e', 'a', 'v', 'e', 's', 0, 0,
		9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 52, 0, 0, 0,
		6, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0xca, 0x9a, 0x3b, // packet, 1 s + 2 ns
		18, 0, 0, 0, 19, 0, 0, 0, 0, 4, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, // out, IPv4
		0x45, 0xaa, 0, 0, 2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0,
		5, 0, 0, 0, 52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xca, 0x9a, 0x3b, // statistics
		4, 0, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 52, 0, 0, 0,
	}
	if got := file(r, time.Unix(1, 0)); !bytes.Equal(got, want) {
		t.Errorf("\ngot  % x\nwant % x", got, want)
	}
}

func TestOnlyWhatTheFilterKeepsIsRecorded(t *testing.T) {
	t.Parallel()
	filter, err := ParseFilter("icmp and greater 100")
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecorder(both, filter, 0, 0)
	r.Packet(0, noon, ping(99))
	r.Packet(0, noon, ping(100))
	r.Packet(0, noon, []byte("no packet"))
	r.Packet(0, noon, nil)
	if found, reader := packets(t, file(r, noon)); len(found) != 1 || reader.Total().Received != 1 {
		t.Errorf("%d packets, %+v", len(found), reader.Total())
	}
}

func TestACaptureHasNoMorePacketsThanWereAskedFor(t *testing.T) {
	t.Parallel()
	r := NewRecorder(both, Filter{}, 0, 3)
	for range 5 {
		r.Packet(0, noon, ping(30))
	}
	if found, _ := packets(t, file(r, noon)); len(found) != 3 || !r.Done() {
		t.Errorf("%d packets, done: %v", len(found), r.Done())
	}
}

func TestPacketsThatDoNotFitTheRingAreCountedAndTheOthersAreComplete(t *testing.T) {
	t.Parallel()
	r := NewRecorder(both, Filter{}, 0, 0)
	const sent = 200
	for range sent {
		r.Packet(1, noon, ping(packet.MaxLen))
	}
	if !r.LostMore() {
		t.Fatal("nothing is lost")
	}
	found, reader := packets(t, file(r, noon))
	if total := reader.Total(); total.Received != sent || total.Lost != uint64(sent-len(found)) || total.Lost == 0 || len(found) < 100 {
		t.Errorf("%d packets, %+v", len(found), total)
	}
	if r.LostMore() {
		t.Error("the loss is told, and told again")
	}
	r.Packet(0, noon, ping(50))
	if b, _ := r.Append(nil); len(b) == 0 {
		t.Error("there is no room afterwards either")
	}
}

func TestDatagramsGetTheHeadersTheyHad(t *testing.T) {
	t.Parallel()
	outer := []Interface{{Name: "outer", Datagrams: true}}
	for _, c := range []struct{ src, dst string }{
		{"192.0.2.10:40000", "192.0.2.21:6091"},
		{"0.0.0.0:6091", "192.0.2.21:6091"},
		{"[2001:db8::10]:40000", "[2001:db8::21]:6091"},
		{"[::]:40000", "[2001:db8::21]:6091"},
	} {
		src, dst := netip.MustParseAddrPort(c.src), netip.MustParseAddrPort(c.dst)
		r := NewRecorder(outer, Filter{}, 0, 0)
		head, body := []byte("header--"), bytes.Repeat([]byte("x"), 101)
		r.Datagram(0, noon, src, dst, head, body)
		found, _ := packets(t, file(r, noon))
		if len(found) != 1 {
			t.Fatalf("%d packets", len(found))
		}
		b := found[0].Data
		v, ok := viewOf(b) // checks the IP header's checksum too
		if want := viewOfDatagram(src, dst, len(head)+len(body)); !ok || v != want {
			t.Errorf("%s: %+v, want %+v", c.src, v, want)
		}
		if !bytes.HasSuffix(b, append(head, body...)) {
			t.Errorf("%s: carries %q", c.src, b)
		}
		if v.Version == 6 && udp6Sum(b) != 0xffff {
			t.Errorf("%s: UDP checksum sums to %#x", c.src, udp6Sum(b))
		}
	}
}

// udp6Sum is 0xffff for a right checksum, RFC 8200 section 8.1, word by word.
func udp6Sum(b []byte) uint16 {
	udp := b[40:]
	sum := uint32(len(udp)) + packet.ProtoUDP
	for _, part := range [][]byte{b[8:40], udp} {
		for i, c := range part {
			sum += uint32(c) << (8 * (1 - i%2))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

func TestTheFilterSeesADatagramAsItIsWritten(t *testing.T) {
	t.Parallel()
	filter, err := ParseFilter("src host 192.0.2.10 and udp dst port 6091 and less 128")
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecorder([]Interface{{Name: "outer", Datagrams: true}}, filter, 0, 0)
	src, dst := netip.MustParseAddrPort("192.0.2.10:40000"), netip.MustParseAddrPort("192.0.2.21:6091")
	r.Datagram(0, noon, src, dst, nil, make([]byte, 100))
	r.Datagram(0, noon, src, dst, nil, make([]byte, 101))
	r.Datagram(0, noon, dst, src, nil, make([]byte, 100))
	if found, _ := packets(t, file(r, noon)); len(found) != 1 || found[0].Original != 128 {
		t.Errorf("%d packets", len(found))
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates")
	}
	filter, err := ParseFilter("(host 10.0.1.5 or net fd00::/8) and not port 443 or udp port 6091")
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecorder(both, filter, 0, 0)
	ip, head, body := ping(1400), make([]byte, 22), make([]byte, 1400)
	src, dst := netip.MustParseAddrPort("[2001:db8::10]:40000"), netip.MustParseAddrPort("[2001:db8::21]:6091")
	out := make([]byte, 0, 1<<20)
	if n := testing.AllocsPerRun(2000, func() {
		r.Packet(0, noon, ip)
		r.Datagram(1, noon, src, dst, head, body)
		out, _ = r.Append(out[:0])
	}); n != 0 {
		t.Errorf("%v allocations for two packets", n)
	}
	for range 20_000 { // a full ring too
		r.Packet(0, noon, ip)
	}
	if n := testing.AllocsPerRun(100, func() { r.Packet(0, noon, ip) }); n != 0 || !r.LostMore() {
		t.Errorf("%v allocations when there is no room", n)
	}
}

// Several goroutines record while one takes: every packet is whole, those of each are in
// order, and none is missing that is not counted.
func TestManyMayRecordAtOnce(t *testing.T) {
	t.Parallel()
	const writers, each = 4, 20_000
	r := NewRecorder(both, Filter{}, 0, 0)
	r.ring = NewRing(64 << 10) // full at times, and around often
	var busy sync.WaitGroup
	for w := range writers {
		busy.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 0))
			for i := range each {
				b := make([]byte, 9+random.IntN(2000))
				for j := 9; j < len(b); j++ {
					b[j] = byte(w + i)
				}
				b[0] = byte(w)
				binary.BigEndian.PutUint64(b[1:], uint64(i))
				r.Packet(w%2, noon, b)
			}
		})
	}
	ended := make(chan bool)
	go func() { busy.Wait(); close(ended) }()
	b := r.AppendBeginning(nil)
	var last [writers]int
	found, reader := 0, NewReader(nil)
	check := func(b []byte) {
		reader.from.Reset(bytes.NewReader(b))
		for {
			_, p, err := reader.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p == nil {
				continue
			}
			found++
			w, i := int(p.Data[0]), int(binary.BigEndian.Uint64(p.Data[1:]))
			if i+1 <= last[w] {
				t.Fatalf("packet %d of %d comes after %d", i, w, last[w]-1)
			}
			last[w] = i + 1
			for _, c := range p.Data[9:] {
				if c != byte(w+i) {
					t.Fatalf("packet %d of %d is damaged", i, w)
				}
			}
		}
	}
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
		}
		for more := true; more; {
			check(b)
			b, more = r.Append(b[:0])
		}
		check(b)
		b = b[:0]
	}
	check(r.AppendStatistics(nil, noon))
	if total := reader.Total(); total.Received != writers*each || total.Lost != uint64(writers*each-found) {
		t.Errorf("%d packets, %+v", found, total)
	}
}

func TestATruncatedFileIsDistinguishedFromACompleteOne(t *testing.T) {
	t.Parallel()
	r := NewRecorder(both, Filter{}, 0, 0)
	r.Packet(0, noon, ping(100))
	whole := file(r, noon)
	ends := map[int]bool{} // where blocks end
	reader, at := NewReader(bytes.NewReader(whole)), 0
	for {
		raw, _, err := reader.Next()
		if err != nil {
			break
		}
		at += len(raw)
		ends[at] = true
	}
	for n := 1; n < len(whole); n++ {
		reader := NewReader(bytes.NewReader(whole[:n]))
		var err error
		for err == nil {
			_, _, err = reader.Next()
		}
		if want := map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[ends[n]]; !errors.Is(err, want) {
			t.Fatalf("after %d bytes: %v, want %v", n, err, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	r := NewRecorder(both, Filter{}, 0, 0)
	r.Packet(0, noon, ping(100))
	r.Packet(1, noon, ping(21))
	whole := file(r, noon)
	f.Add(whole)
	f.Add(whole[:len(whole)-5])
	f.Add(bytes.Repeat([]byte{0}, 12))
	f.Add([]byte("strait: no gateway listens"))
	f.Fuzz(func(t *testing.T, b []byte) {
		reader, read := NewReader(bytes.NewReader(b)), 0
		for {
			raw, p, err := reader.Next()
			if err != nil {
				break
			}
			if !bytes.HasPrefix(b[read:], raw) {
				t.Fatal("a block is not what was read")
			}
			if read += len(raw); p != nil && len(p.Data) > len(raw) {
				t.Fatal("a packet is longer than its block")
			}
		}
		reader.Total()
	})
}

// Whatever the packet path sees, malformed too, is in the file as it was.
func FuzzRecorder(f *testing.F) {
	f.Add(ping(40), 0, []byte("head"))
	f.Add([]byte{}, 10, []byte{})
	f.Add([]byte{0x60}, 30, make([]byte, 70))
	f.Fuzz(func(t *testing.T, b []byte, limit int, head []byte) {
		interfaces := append(both[:2:2], Interface{Name: "outer", Datagrams: true})
		r := NewRecorder(interfaces, Filter{}, limit, 0)
		src, dst := netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.2:2")
		r.Packet(0, noon, b)
		r.Datagram(2, noon, src, dst, head, b)
		found, _ := packets(t, file(r, noon))
		if len(found) != 2 || found[0].Original != len(b) || !bytes.HasPrefix(b, found[0].Data) {
			t.Fatalf("%+v", found)
		}
		if limit <= 0 && (!bytes.Equal(found[0].Data, b) || !bytes.Equal(found[1].Data[28:], append(head[:len(head):len(head)], b...))) {
			t.Fatalf("%+v", found)
		}
	})
}

func BenchmarkRecordingAPacket(b *testing.B) {
	filter, err := ParseFilter("host 10.0.1.5 and not port 443")
	if err != nil {
		b.Fatal(err)
	}
	r, ip, out := NewRecorder(both, filter, 0, 0), ping(1400), make([]byte, 0, 2*room)
	for b.Loop() {
		r.Packet(0, noon, ip)
		if r.ring.head.Load()-r.ring.tail.Load() > uint64(len(r.ring.marks)/2) {
			b.StopTimer() // the reader is not measured
			for more := true; more; {
				out, more = r.Append(out[:0])
			}
			b.StartTimer()
		}
	}
}
