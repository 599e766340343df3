package packet_test

import (
	"bytes"
	"testing"

	"strait.dev/strait/packet"
)

// checkDatagrams cuts b and holds the pieces against what a network card would
// have made: the payload in order, size bytes each but the last, all headers right.
func checkDatagrams(t testing.TB, b []byte, size int) [][]byte {
	t.Helper()
	ip := parse(t, b)
	var p packet.Pieces
	if !p.Datagrams(b, &ip, size) {
		t.Fatalf("refused to cut % x into %d", b, size)
	}
	want := ip.Upper(b)[packet.UDPHeaderLen:]
	all := pieces(t, &p, min(len(b), int(ip.Header)+packet.UDPHeaderLen+size))
	for i, d := range all {
		got := parse(t, d)
		u := got.Upper(d)
		payload := u[packet.UDPHeaderLen:]
		switch {
		case int(got.Len) != len(d) || word(u, 4) != len(u):
			t.Fatalf("datagram %d: lengths %d and %d of %d bytes", i, got.Len, word(u, 4), len(d))
		case got.Src != ip.Src || got.Dst != ip.Dst || !bytes.Equal(u[:4], ip.Upper(b)[:4]) || got.TTL != ip.TTL:
			t.Fatalf("datagram %d belongs to another flow", i)
		case ip.Version == 4 && uint16(word(d, 4)) != uint16(word(b, 4)+i):
			t.Fatalf("datagram %d has ID %#x", i, word(d, 4))
		case word(u, 6) == 0 || !upperOK(d, got):
			t.Fatalf("datagram %d has a wrong checksum", i)
		case len(payload) != min(size, len(want)) || !bytes.Equal(payload, want[:len(payload)]):
			t.Fatalf("datagram %d carries other %d bytes", i, len(payload))
		}
		want = want[len(payload):]
	}
	if len(want) != 0 {
		t.Fatalf("%d bytes never came", len(want))
	}
	return all
}

func TestDatagramsOfASegmentedSend(t *testing.T) {
	t.Parallel()
	r := random()
	for range cases(2000) {
		payload := randomBytes(r, 1+r.IntN(20_000))
		size := 1 + r.IntN(1500)
		checkDatagrams(t, partialUDP(udp4(payload)), size)
		checkDatagrams(t, partialUDP(udp6(payload)), size)
	}
	if n := len(checkDatagrams(t, partialUDP(udp4(counting(24_000))), 1200)); n != 20 {
		t.Errorf("%d datagrams, want 20", n)
	}
}

func TestDatagramsRefusesWhatIsNoWholeUDPPacket(t *testing.T) {
	t.Parallel()
	fragmented := ipv4{proto: packet.ProtoUDP, fragment: 0x2000}.packet(udpMessage(podA, podB, counting(24))[:32])
	for name, c := range map[string]struct {
		b    []byte
		size int
	}{
		"TCP":            {tcp4(tcp{flags: ack}, counting(100)), 10},
		"a fragment":     {fragmented, 10},
		"no payload":     {udp4(nil), 10},
		"cut UDP header": {ipv4{proto: packet.ProtoUDP}.packet([]byte{1, 2, 3}), 10},
		"size 0":         {udp4(counting(100)), 0},
	} {
		ip := parse(t, c.b)
		var p packet.Pieces
		if p.Datagrams(c.b, &ip, c.size) || p.Left() {
			t.Errorf("%s: cut into %d", name, c.size)
		}
	}
}

func FuzzDatagrams(f *testing.F) {
	for _, b := range everyKind() {
		f.Add(b, uint16(500))
	}
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		var ip packet.IP
		if packet.Parse(b, &ip) != packet.FaultNone {
			return
		}
		var p packet.Pieces
		if p.Datagrams(b, &ip, int(size)) {
			checkDatagrams(t, b, int(size))
		}
	})
}
