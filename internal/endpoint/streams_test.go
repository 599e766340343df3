package endpoint

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/wait"
)

func TestAStreamCountsWhatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStream(UDP, netip.AddrPortFrom(loopback, Port))
		s.next = 5
		for _, number := range []uint64{0, 2, 4, 2, 5} { // 2 twice, 5 is not sent yet
			s.answers(number)
		}
		time.Sleep(streamHit)
		s.answer()
		time.Sleep(streamHit / 2)
		var r StreamsResult
		s.addTo(&r, 4) // the last one was sent after the question
		if want := (StreamsResult{Flows: 1, Hit: 1, Gap: streamHit, Sent: 4, Lost: 2, Duplicated: 1}); r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
		s.answer()
		s.answers(2) // too late to count
		s.broken = 1
		r = StreamsResult{}
		s.addTo(&r, s.sentUntil())
		if want := (StreamsResult{Flows: 1, Gap: streamHit / 2, Sent: 1, Broken: 1}); r != want {
			t.Errorf("then %+v, want %+v", r, want)
		}
		time.Sleep(time.Hour)
		r = StreamsResult{}
		s.addTo(&r, s.sentUntil())
		if want := (StreamsResult{Flows: 1, Hit: 1, Gap: time.Hour}); r != want {
			t.Errorf("without answers %+v, want %+v", r, want)
		}
	})
}

func TestStreamsAreKeptBusyUntilTheyAreStopped(t *testing.T) {
	t.Parallel()
	at := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	ask, told, ended := make(chan struct{}), make(chan StreamsResult, 1), make(chan struct{})
	go func() {
		defer close(ended)
		Streams(ctx, StreamsOrder{Marker: marker, To: []netip.AddrPort{at}, TCP: 1, UDP: 3, Longest: time.Hour}, ask, func(r StreamsResult) { told <- r })
	}()
	wait.Until(t, "datagrams are answered", func() bool {
		ask <- struct{}{}
		r := <-told
		if r.Flows != 4 {
			t.Fatalf("%d flows, want 4", r.Flows)
		}
		return r.Sent > r.Lost
	})
	cancel()
	<-ended
}

func TestAStreamHasMovedIfAnotherGatewayCarriedIt(t *testing.T) {
	t.Parallel()
	s := newStream(UDP, netip.AddrPortFrom(loopback, Port))
	by := func(hop int, gateway string) {
		s.passes(discarded{netip.MustParseAddr(gateway), s.packet(marker, askHop(hop))})
	}
	expect := func(what string, moved int) {
		t.Helper()
		var r StreamsResult
		if s.addTo(&r, 0); r.Moved != moved {
			t.Errorf("%s: %d flows moved, want %d", what, r.Moved, moved)
		}
	}
	by(gatewayHop, "10.80.0.1")
	by(gatewayHop+1, "10.73.0.1")
	by(gatewayHop, "10.80.0.1")
	expect("always the same", 0)
	by(gatewayHop, "10.80.0.2")
	by(gatewayHop, "10.80.0.1")
	expect("another gateway, and back", 1)
	expect("since then", 0)
	by(gatewayHop+1, "10.73.0.2")
	expect("another gateway of the remote cluster", 1)
	by(gatewayHop+2, "10.73.0.1") // nothing asked for it
	s.passes(discarded{netip.MustParseAddr("10.80.0.2"), []byte("cut")})
	s.passes(discarded{netip.MustParseAddr("10.80.0.2"), s.packet(marker, 3)}) // a datagram that went round in circles
	expect("not an answer", 0)
}

// The default buffer holds 277 datagrams: less than a second of those of strait verify --disrupt.
func TestAServerHasMoreThanTheDefaultReceiveBuffer(t *testing.T) {
	t.Parallel()
	s, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	other, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback.AsSlice()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	usual := receiveBufferOf(t, other)
	for _, c := range s.udp {
		if is := receiveBufferOf(t, c); is <= usual {
			t.Errorf("the buffer of %v has %d bytes, and %d by default", c.LocalAddr(), is, usual)
		}
	}
}

// receiveBufferOf returns the size of the receive buffer of a socket in bytes.
func receiveBufferOf(t *testing.T, c *net.UDPConn) (size int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	failed := raw.Control(func(fd uintptr) { size, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF) })
	if err := errors.Join(failed, err); err != nil {
		t.Fatal(err)
	}
	return size
}
