package underlay

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/ports"
)

// reopen opens a link again, as WireGuard does after a change of its port.
func (o *opened) reopen(t *testing.T, own bool) {
	t.Helper()
	o.Bind.(Bind).UseOwnPort(own)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	fns, actual, err := o.Open(o.port)
	if err != nil {
		t.Fatal(err)
	}
	if actual != o.port {
		t.Errorf("the port of the link is now %d, and was %d", actual, o.port)
	}
	o.receive = fns[0]
}

// WireGuard opens port 0 after it could not open its own.
func TestALinkKeepsItsPortAfterAFailure(t *testing.T) {
	t.Parallel()
	held := ports.Free(t, 1)[0]
	holder := open(t, netip.AddrPortFrom(netip.IPv4Unspecified(), held), Options{})
	l := NewMux(Options{}).Link(anyKey, otherKey, nil)
	for _, number := range []uint16{held, 0} {
		if _, at, err := l.Open(number); !errors.Is(err, unix.EADDRINUSE) {
			t.Fatalf("Open(%d) while port %d is in use: port %d, %v", number, held, at, err)
		}
	}
	holder.Close()
	if at := openLink(t, l, 0).port; at != held {
		t.Errorf("the link is at port %d, want %d", at, held)
	}
}

func TestALinkSendsFromANewPortAndReceivesAtBoth(t *testing.T) {
	t.Parallel()
	m := NewMux(Options{})
	peer, one := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, m.Link(anyKey, otherKey, nil), 0)
	to, shared := peer.endpoint(t, "127.0.0.1"), one.endpoint(t, "127.0.0.1")
	seen := map[string]bool{shared.DstToString(): true}
	for index := uint32(3000); index < 3003; index++ {
		one.reopen(t, true)
		one.send(t, to, initiation(index))
		peer.next(t, 1)
		from := peer.senders[0]
		if seen[from.DstToString()] {
			t.Errorf("a datagram comes from %s, as earlier ones did", from.DstToString())
		}
		seen[from.DstToString()] = true
		peer.send(t, from, response(1, index))
		equal(t, one.next(t, 1), [][]byte{response(1, index)})
		peer.send(t, shared, transport(index, 32))
		equal(t, one.next(t, 1), [][]byte{transport(index, 32)})
	}
	two := openLink(t, m.Link(anyKey, otherKey, nil), one.port)
	two.send(t, to, initiation(2002))
	peer.next(t, 1)
	if from := peer.senders[0].DstToString(); from != shared.DstToString() {
		t.Errorf("another link sends from %s, want %s", from, shared.DstToString())
	}

	one.reopen(t, false)
	one.send(t, to, initiation(3003))
	peer.next(t, 1)
	if from := peer.senders[0].DstToString(); from != shared.DstToString() {
		t.Errorf("a datagram comes from %s, want the port of all links, %s", from, shared.DstToString())
	}
	if c := m.Counters(); c != (Counters{}) {
		t.Errorf("counted %+v", c)
	}
}

// Only the peer of a link knows its own port, so nothing else is expected there.
func TestAnOwnPortDeliversNothingToOtherLinks(t *testing.T) {
	t.Parallel()
	m, peer, one, _ := trio(t)
	one.reopen(t, true)
	one.send(t, peer.endpoint(t, "127.0.0.1"), initiation(1001))
	peer.next(t, 1)
	peer.send(t, peer.senders[0], transport(2002, 64), transport(1001, 64))
	equal(t, one.next(t, 1), [][]byte{transport(1001, 64)})
	peer.send(t, peer.senders[0], initiation(7)) // for the key of both links
	equal(t, one.next(t, 1), [][]byte{initiation(7)})
	if c := m.Counters(); c != (Counters{Unknown: 1}) {
		t.Errorf("counted %+v", c)
	}
}

// The reader of the port of all links has one of its own, as after an outage of all remote gateways, and receives at full speed.
func TestAnOwnPortThatIsNeverEmptyDoesNotKeepOtherLinksWaiting(t *testing.T) {
	t.Parallel()
	_, peer, one, two := trio(t)
	one.reopen(t, true)
	two.reopen(t, false)
	to := peer.endpoint(t, "127.0.0.1")
	one.send(t, to, initiation(1001))
	two.send(t, to, initiation(2002))
	peer.next(t, 2)
	s, waiting := one.Bind.(*linkBind).session.Load(), &two.Bind.(*linkBind).session.Load().queue
	if !s.reads.Load() {
		t.Fatal("the link does not read the port of all links")
	}
	own, err := parseEndpoint(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.own.number).String())
	if err != nil {
		t.Fatal(err)
	}
	peer.send(t, two.endpoint(t, "127.0.0.1"), transport(2002, 64))
	untilItHolds(t, s.port.sockets()[0])
	for range 2 {
		peer.send(t, own, transport(1001, 64))
		untilItHolds(t, s.own.sockets()[0])
		one.next(t, 1)
	}
	if _, _, ok := waiting.take(); !ok {
		t.Error("the datagram of another link is not read")
	}
}
