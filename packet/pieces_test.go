package packet_test

import (
	"bytes"
	"testing"

	"strait.dev/strait/packet"
)

func TestPiecesZeroValueHasNothingLeft(t *testing.T) {
	t.Parallel()
	var p packet.Pieces
	if p.Left() || p.Next(nil) != 0 {
		t.Error("something is left")
	}
	p.Whole(nil)
	if p.Left() || p.Next(nil) != 0 {
		t.Error("something is left of nothing")
	}
}

func TestWholeIsOnePiece(t *testing.T) {
	t.Parallel()
	b := udp4(counting(100))
	var p packet.Pieces
	p.Whole(b)
	if got := pieces(t, &p, 1500); len(got) != 1 || !bytes.Equal(got[0], b) {
		t.Errorf("%d pieces, first % x", len(got), got[0])
	}
}

func TestPiecesForgetTheUnfinishedPacketBefore(t *testing.T) {
	t.Parallel()
	long, short := ipv4{}.packet(counting(3000)), udp6(counting(5))
	super := tcp4(tcp{flags: ack, partial: true}, counting(3000))
	longIP, superIP := parse(t, long), parse(t, super)
	dst := make([]byte, 1400)
	var p packet.Pieces
	for range 2 {
		p.Fragments(long, &longIP, 1400)
		p.Next(dst)
		p.Segments(super, &superIP, 1400)
		p.Next(dst)
		p.Whole(short)
		if n := p.Next(dst); !bytes.Equal(dst[:n], short) || p.Left() {
			t.Fatalf("got % x, left %v", dst[:n], p.Left())
		}
	}
}

// Memory that is too short is a programming error. It must not become a write
// into the neighbour's memory, even where the capacity would allow it.
func TestPiecesPanicRatherThanWriteBehindDst(t *testing.T) {
	t.Parallel()
	fragmented, super := ipv4{}.packet(counting(3000)), tcp6(tcp{flags: ack}, counting(3000))
	fragmentedIP, superIP := parse(t, fragmented), parse(t, super)
	for name, start := range map[string]func(p *packet.Pieces){
		"whole":    func(p *packet.Pieces) { p.Whole(fragmented[:1400]) },
		"fragment": func(p *packet.Pieces) { p.Fragments(fragmented, &fragmentedIP, 1400) },
		"segment":  func(p *packet.Pieces) { p.Segments(super, &superIP, 1400) },
	} {
		memory := make([]byte, 2000)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			var p packet.Pieces
			start(&p)
			p.Next(memory[:100])
		}()
		if !bytes.Equal(memory[100:], make([]byte, 1900)) {
			t.Errorf("%s: wrote behind its memory", name)
		}
	}
}

func FuzzPieces(f *testing.F) {
	for _, b := range everyKind() {
		for _, mtu := range []uint16{68, 576, 1280, 1390, 9000} {
			f.Add(b, mtu)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, mtu uint16) {
		if len(b) > packet.MaxLen {
			return
		}
		b = repair(b)
		var ip packet.IP
		if packet.Parse(b, &ip) != packet.FaultNone {
			return
		}
		if ip.Version == 4 && !ip.DF {
			checkFragments(t, b, int(mtu))
		}
		var p packet.Pieces
		if p.Segments(b, &ip, int(mtu)) {
			checkSegments(t, b, int(mtu))
		} else if p.Left() {
			t.Fatal("refused, but something is left")
		}
	})
}
