package packet_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/packet"
)

// start is when every test of reassembly begins.
var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

const timeout = 30 * time.Second

func newReassembly(bytes, perSource int) *packet.Reassembly {
	return packet.NewReassembly(packet.ReassemblyConfig{
		Bytes: bytes, Timeout: timeout, PerSource: perSource, Seed: [2]uint64{5722, 6946},
	})
}

// ampleReassembly returns a reassembler that never evicts.
func ampleReassembly() *packet.Reassembly { return newReassembly(2<<20, 1000) }

// piece is a fragment in words. Zero fields get what an ordinary packet has.
type piece struct {
	v6       bool
	src      netip.Addr
	id       uint32
	proto    uint8 // 253
	offset   int   // bytes
	payload  []byte
	more, df bool
	ecn      uint8
	ttl      uint8
	options  []byte // IPv4: options, IPv6: hop-by-hop options with a next header to be set
}

func (p piece) packet() []byte {
	proto := or(p.proto, 253)
	if p.v6 {
		h := ipv6{class: p.ecn, hopLimit: p.ttl, src: p.src, next: 44}
		if p.options != nil {
			h.next = 0
			h.extensions = append([]byte{44}, p.options[1:]...)
		}
		h.extensions = append(h.extensions, fragmentHeader(proto, uint16(p.offset), p.more, p.id)...)
		return h.packet(p.payload)
	}
	field := uint16(p.offset / 8)
	if p.more {
		field |= mf
	}
	if p.df {
		field |= df
	}
	return ipv4{
		tos: p.ecn, ttl: p.ttl, src: p.src, id: uint16(p.id), proto: proto, fragment: field, options: p.options,
	}.packet(p.payload)
}

// cut is the fragments that a sender with an mtu makes of a packet; id is for IPv6.
func cut(t testing.TB, b []byte, mtu int, id uint32) [][]byte {
	t.Helper()
	ip := parse(t, b)
	var p packet.Pieces
	if ip.Version == 4 {
		p.Fragments(b, &ip, mtu)
	} else if !p.FragmentsV6(b, &ip, mtu, id) {
		t.Fatalf("cannot be cut: % x", b[:min(len(b), 120)])
	}
	return pieces(t, &p, min(mtu, int(ip.Len)))
}

// add gives r a packet that has to be well.
func add(t testing.TB, r *packet.Reassembly, b []byte, now time.Time) ([]byte, int, packet.ReassemblyFault) {
	t.Helper()
	ip := parse(t, b)
	return r.Add(b, &ip, now)
}

// hold gives r a fragment that it has to hold.
func hold(t testing.TB, r *packet.Reassembly, b []byte, now time.Time) {
	t.Helper()
	if whole, _, fault := add(t, r, b, now); fault != packet.ReassemblyHeld || whole != nil {
		t.Fatalf("fault %d and %d bytes for a fragment that is to be held", fault, len(whole))
	}
}

// waiting checks how many datagrams are.
func waiting(t testing.TB, r *packet.Reassembly, want int64) {
	t.Helper()
	if got := r.Stats().Datagrams; got != want {
		t.Fatalf("%d datagrams wait, want %d", got, want)
	}
	check(t, r)
}

// check looks for contradictions inside of r.
func check(t testing.TB, r *packet.Reassembly) {
	t.Helper()
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
}

// both runs a test for IPv4 and IPv6.
func both(t *testing.T, f func(t *testing.T, v6 bool)) {
	t.Run("IPv4", func(t *testing.T) { f(t, false) })
	t.Run("IPv6", func(t *testing.T) { f(t, true) })
}

// randomDatagram is a packet longer than an MTU, with headers of every kind now
// and then. IDs of IPv4 are in it.
func randomDatagram(r *rand.Rand, v6 bool, id uint32, size int) []byte {
	payload := randomBytes(r, size)
	if !v6 {
		h := ipv4{id: uint16(id), tos: 2, proto: packet.ProtoUDP}
		if r.IntN(3) == 0 {
			h.options = []byte{148, 4, 0, 0, 7, 3, 4, 0}
		}
		return h.packet(payload)
	}
	h := ipv6{class: 2, next: packet.ProtoUDP}
	switch r.IntN(4) {
	case 0: // hop-by-hop, destination options, routing, destination options
		h.next = 0
		h.extensions = append(h.extensions, extension(60)...)
		h.extensions = append(h.extensions, extension(43)...)
		h.extensions = append(h.extensions, 60, 0, 4, 0, 0, 0, 0, 0)
		h.extensions = append(h.extensions, extension(packet.ProtoUDP)...)
	case 1: // authentication, which is counted in other units, then routing
		h.next = 51
		h.extensions = []byte{
			43, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
			packet.ProtoUDP, 0, 4, 0, 0, 0, 0, 0,
		}
	}
	return h.packet(payload)
}
