package tun

import (
	"net"
	"net/netip"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/underlay"
)

// Nodes with different encapsulations send to different sockets.
func TestABusySocketDelaysFramesOfAnotherByFewBatches(t *testing.T) {
	t.Parallel()
	local := netip.MustParseAddr("127.0.0.1")
	free := ports.Free(t, 2)
	overlay, err := OpenOverlay(OverlayConfig{Geneve: netip.AddrPortFrom(local, free[0]), VXLAN: netip.AddrPortFrom(local, free[1])})
	if err != nil {
		t.Fatal(err)
	}
	defer overlay.Close()
	node, err := net.ListenUDP("udp4", &net.UDPAddr{IP: local.AsSlice()})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	const maxStreak = 8 // of underlay.Turns
	in := &overlay.incoming
	p, err := underlay.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	send := func(s *source) {
		if _, err := node.WriteToUDPAddrPort([]byte("a frame"), s.socket.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	filled := func() (gateway.Encapsulation, int) {
		messages := in.turns.FillAny(p, func(err error) { t.Fatal(err) })
		for range messages {
			in.turns.Next()
		}
		return in.current().encapsulation, messages
	}
	for _, busy := range in.sources {
		for _, other := range in.sources {
			if other == busy {
				continue
			}
			send(busy)
			filled() // from here on it is asked first
			send(other)
			batches := 0
			for from := busy.encapsulation; from != other.encapsulation; batches++ {
				if send(busy); batches > maxStreak {
					t.Fatalf("%v has waited for %d batches of %v", other.encapsulation, batches, busy.encapsulation)
				}
				from, _ = filled()
			}
			if batches < maxStreak {
				t.Errorf("%v was asked after %d batches of %v, want %d", other.encapsulation, batches, busy.encapsulation, maxStreak)
			}
			for messages := 1; messages > 0; {
				_, messages = filled()
			}
		}
	}
}
