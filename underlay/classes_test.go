package underlay

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"

	"strait.dev/strait/geneve"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/wait"
)

// classified is a socket with the classes of a program, and a receiver.
func classified(t *testing.T, addr netip.AddrPort, p Program) (*Socket, *Receiver) {
	t.Helper()
	s := open(t, addr, Options{})
	s.Classify(p)
	return s, NewReceiver(s)
}

// class returns the socket of a class.
func (s *Socket) class(i int) *Socket {
	if i == 0 {
		return s
	}
	return s.classes.others()[i-1]
}

// spread makes s sort datagrams, as after an overflow.
func spread(t *testing.T, s *Socket) {
	t.Helper()
	if !s.classes.spread() {
		t.Fatal("the kernel does not sort datagrams")
	}
	s.classes.calm, s.classes.checked = time.Now().Add(time.Hour), time.Now().Add(time.Hour) // no review
}

// holds waits until a class has received something.
func holds(t *testing.T, s *Socket, class int) {
	t.Helper()
	untilItHolds(t, s.class(class))
}

// sendsTo returns a function that sends messages to s, each as a datagram.
func sendsTo(t *testing.T, s *Socket) func(message []byte, count int) {
	sender, b := open(t, loopback4, Options{DisableGSO: true}), NewBatch(conn.IdealBatchSize)
	return func(message []byte, count int) {
		for range count {
			b.Add(sender, destination(s), nil, message)
		}
		b.Flush()
	}
}

func TestMessagesAreClassifiedByTypeAndLength(t *testing.T) {
	t.Parallel()
	for _, addr := range []netip.AddrPort{loopback4, loopback6} {
		s, r := classified(t, addr, byMessage)
		spread(t, s)
		sender, b := open(t, addr, Options{}), NewBatch(1)
		for i, c := range []struct {
			message []byte
			class   int
		}{
			{transport(1, 1452), 0}, {transport(1, initiationSize+1), 0}, {transport(1, initiationSize), 1}, {transport(1, 32), 1},
			{transport(1, ControlSize), 2}, {initiation(1), 2}, {response(1, 2), 2}, {wireguard(messageCookie, 64, 4, 1), 2},
			{[]byte("?"), 2}, {nil, 0},
		} {
			b.Add(sender, destination(s), nil, c.message)
			b.Flush()
			holds(t, s, c.class)
			if n, err := r.Fill(); n != 1 || err != nil {
				t.Fatalf("message %d: received %d, %v", i, n, err)
			}
			r.Next()
		}
	}
}

// Senders are in several classes, and one of them always in the same.
func TestSendersAreSpreadOverClasses(t *testing.T) {
	t.Parallel()
	s, r := classified(t, netip.MustParseAddrPort("0.0.0.0:0"), BySource)
	spread(t, s)
	to := NewDestination(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.LocalAddr().Port()))
	used := make(map[int]bool)
	b := NewBatch(1)
	for i := range 32 {
		sender := open(t, netip.MustParseAddrPort(fmt.Sprintf("127.77.0.%d:0", i+1)), Options{})
		of := -1
		for range 2 {
			b.Add(sender, &to, nil, []byte("hello"))
			b.Flush()
			class := -1
			wait.Until(t, "a class has received the datagram", func() bool {
				for k := range BySource.classes {
					if n, _ := r.take(s.class(k), 0, ReceiveBatch); n == 1 {
						class = k
					}
				}
				return class >= 0
			})
			if of >= 0 && class != of {
				t.Errorf("a sender is in the classes %d and %d", of, class)
			}
			of = class
		}
		used[of] = true
	}
	if len(used) < sourceClasses/2 {
		t.Errorf("32 senders are in the classes %v", used)
	}
}

// frameOf is a frame of a node with a UDP packet, in Geneve without options or in VXLAN: the headers have equal lengths.
func frameOf(src, dst netip.AddrPort, payload []byte) []byte {
	etherType := uint16(packet.EtherTypeIPv4)
	if dst.Addr().Is6() {
		etherType = packet.EtherTypeIPv6
	}
	b := make([]byte, geneve.HeaderLen+packet.EthernetHeaderLen)
	packet.PutEthernet(b[geneve.HeaderLen:], packet.MACOf(dst.Addr()), packet.MACOf(src.Addr()), etherType)
	return append(b, packet.AppendUDP(nil, src, dst, payload)...)
}

func TestProbesOfNodesHaveQueuesOfTheirOwn(t *testing.T) {
	t.Parallel()
	node, gateway := netip.MustParseAddrPort("10.80.0.11:40000"), netip.MustParseAddrPort("10.80.0.1:6095")
	node6, gateway6 := netip.MustParseAddrPort("[fd00:80::11]:40000"), netip.MustParseAddrPort("[fd00:80::1]:6095")
	request := make([]byte, nodeprobe.Len)
	tcp := frameOf(node, gateway, request)
	tcp[geneve.HeaderLen+packet.EthernetHeaderLen+9] = packet.ProtoTCP
	tcp6 := frameOf(node6, gateway6, request)
	tcp6[geneve.HeaderLen+packet.EthernetHeaderLen+6] = packet.ProtoTCP
	arp := frameOf(node, gateway, request)
	arp[geneve.HeaderLen+13] = 6
	for _, addr := range []netip.AddrPort{loopback4, loopback6} {
		s, r := classified(t, addr, BySource)
		spread(t, s)
		sender, b := open(t, addr, Options{}), NewBatch(1)
		of := classIn(sender.LocalAddr())
		if got := s.class(sourceClasses).Features().ReceiveBuffer; got > urgentBuffer {
			t.Errorf("a queue of probes holds %d bytes", got)
		}
		for name, c := range map[string]struct {
			frame []byte
			probe bool
		}{
			"IPv4":                       {frameOf(node, gateway, request), true},
			"IPv6":                       {frameOf(node6, gateway6, request), true},
			"IPv4, of a later version":   {frameOf(node, gateway, make([]byte, 100)), true},
			"IPv6, of a later version":   {frameOf(node6, gateway6, make([]byte, 100)), true},
			"IPv4, too short":            {frameOf(node, gateway, request[1:]), false},
			"IPv6, too short":            {frameOf(node6, gateway6, request[1:]), false},
			"another port, IPv4":         {frameOf(node, netip.AddrPortFrom(gateway.Addr(), 53), request), false},
			"another port, IPv6":         {frameOf(node6, netip.AddrPortFrom(gateway6.Addr(), 53), request), false},
			"another protocol, IPv4":     {tcp, false},
			"another protocol, IPv6":     {tcp6, false},
			"another type of frame":      {arp, false},
			"a datagram without a frame": {[]byte("?"), false},
			"an empty datagram":          {nil, false},
		} {
			class := of
			if c.probe {
				class += sourceClasses
			}
			b.Add(sender, destination(s), nil, c.frame)
			b.Flush()
			holds(t, s, class)
			wait.Until(t, name+": it is received", func() bool { n, _ := r.Fill(); return n == 1 })
			r.Next()
		}
	}
}

// urgentRound is the number of batches after which every urgent queue was read.
const urgentRound = sourceClasses / urgentTurns

var (
	dataFrame  = frameOf(netip.MustParseAddrPort("10.0.1.5:1"), netip.MustParseAddrPort("10.71.0.1:1"), nil)
	probeFrame = frameOf(netip.MustParseAddrPort("10.80.0.11:40000"), netip.MustParseAddrPort("10.80.0.1:6095"), make([]byte, nodeprobe.Len))
)

// probesIn receives a full batch and returns how many of its messages are probes.
func probesIn(t *testing.T, r *Receiver) (probes int) {
	t.Helper()
	if n, err := r.Fill(); n != ReceiveBatch || err != nil {
		t.Fatalf("received %d, %v", n, err)
	}
	for d, _, ok := r.Next(); ok; d, _, ok = r.Next() {
		if bytes.Equal(d, probeFrame) {
			probes++
		}
	}
	return probes
}

// A node that sends more than is received gets answers all the same, so it does not take the gateway for dead.
func TestF19_ProbesOfANodeAreReceivedBeforeItsFlood(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, BySource)
	spread(t, s)
	sender, b := open(t, loopback4, Options{DisableGSO: true}), NewBatch(conn.IdealBatchSize)
	for range (urgentRound + 1) * ReceiveBatch {
		b.Add(sender, destination(s), nil, dataFrame)
	}
	b.Add(sender, destination(s), nil, probeFrame)
	b.Flush()
	holds(t, s, sourceClasses+classIn(sender.LocalAddr()))
	probes := 0
	for range urgentRound {
		probes += probesIn(t, r)
	}
	if probes != 1 {
		t.Error("the probe waits behind the flood")
	}
}

// Messages that are as urgent as probes leave most of each batch to the others.
func TestT10_AFloodOfProbesTakesAPartOfEachBatch(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, BySource)
	spread(t, s)
	sender, b := open(t, loopback4, Options{DisableGSO: true}), NewBatch(conn.IdealBatchSize)
	for range urgentRound * ReceiveBatch {
		b.Add(sender, destination(s), nil, dataFrame)
	}
	for range 2 * ReceiveBatch {
		b.Add(sender, destination(s), nil, probeFrame)
	}
	b.Flush()
	holds(t, s, sourceClasses+classIn(sender.LocalAddr()))
	all := 0
	for range urgentRound {
		probes := probesIn(t, r)
		if probes > urgentTurns*urgentMost {
			t.Errorf("%d of %d messages are probes", probes, ReceiveBatch)
		}
		all += probes
	}
	if all == 0 {
		t.Error("no probe was received")
	}
}

// While one queue is never empty, the others are read in turn, one per batch.
func TestAQueueThatWasEmptyIsReadWithinARound(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, byMessage)
	spread(t, s)
	send := sendsTo(t, s)
	flood := func() (all [][]byte) { // receives a batch, and leaves the queue of class 0 full
		send(transport(1, 1000), ReceiveBatch)
		if n, err := r.Fill(); n != ReceiveBatch || err != nil {
			t.Fatalf("received %d, %v", n, err)
		}
		for d, _, ok := r.Next(); ok; d, _, ok = r.Next() {
			all = append(all, bytes.Clone(d))
		}
		return all
	}
	if n, err := r.Fill(); n != 0 || err != nil { // all are empty
		t.Fatalf("received %d, %v", n, err)
	}
	send(transport(1, 1000), ReceiveBatch)
	flood()
	for class, message := range [][]byte{1: transport(1, 32), 2: initiation(1)} {
		if message == nil {
			continue
		}
		send(message, 1)
		holds(t, s, class)
		var all [][]byte
		for range byMessage.classes {
			all = append(all, flood()...)
		}
		if !slices.ContainsFunc(all, func(d []byte) bool { return bytes.Equal(d, message) }) {
			t.Errorf("class %d is not read while class 0 is never empty", class)
		}
	}
}

// Nothing reads again until more arrives: a probe that a batch left would wait.
func TestF19_ABatchThatIsNotFullLeavesNoProbe(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, BySource)
	spread(t, s)
	sender, b := open(t, loopback4, Options{}), NewBatch(1)
	for range 2 * urgentRound {
		b.Add(sender, destination(s), nil, probeFrame)
		b.Flush()
		holds(t, s, sourceClasses+classIn(sender.LocalAddr()))
		if n, err := r.Fill(); n != 1 || err != nil {
			t.Fatalf("received %d, %v", n, err)
		}
		r.Next()
	}
}

func TestIPv6SendersAreClassified(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback6, BySource)
	spread(t, s)
	sender, b := open(t, loopback6, Options{}), NewBatch(1)
	b.Add(sender, destination(s), nil, []byte("hello"))
	b.Flush()
	wait.Until(t, "it is received", func() bool { n, _ := r.Fill(); return n == 1 })
}

// A flood fills the queue of its own class. When it is over, everything arrives in one queue again,
// and nothing that waits in the others is lost.
func TestT8_AFloodFillsOnlyTheQueueOfItsClass(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, byMessage)
	send := sendsTo(t, s)
	drain := func(of byte) (count int) {
		for n, _ := r.Fill(); n > 0; n, _ = r.Fill() {
			for d, _, ok := r.Next(); ok; d, _, ok = r.Next() {
				if d[0] == of {
					count++
				}
			}
		}
		return count
	}
	overflow := func() {
		before := s.Overflows()
		for s.Overflows() == before {
			send(transport(1, 1400), conn.IdealBatchSize)
		}
	}
	overflow()
	if drain(messageTransport); s.classes.phase == oneQueue {
		t.Fatal("an overflow does not spread datagrams")
	}
	overflow()
	const handshakes = 10
	send(initiation(1), handshakes)
	if n := drain(messageInitiation); n != handshakes {
		t.Errorf("%d of %d handshake messages survived the flood", n, handshakes)
	}

	k, now := s.classes, time.Now().Add(time.Hour)
	review := func() { s.classes.review(now, false) }
	send(initiation(1), 1)
	holds(t, s, 2)
	k.overflows = s.Overflows()
	review()
	if k.phase != draining {
		t.Error("still spread after the flood")
	}
	now = now.Add(spreadDrain)
	review()
	if n := drain(messageInitiation); n != 1 || s.classes.phase == oneQueue { // drain reviews at the present time
		t.Errorf("%d messages of another queue, want 1", n)
	}
	now = now.Add(spreadCheck)
	review()
	if s.classes.phase != oneQueue || len(s.classes.others()) > 0 {
		t.Error("the other queues are still open")
	}
	if before := k.overflows; s.Overflows() < before {
		t.Errorf("%d overflows, %d before", s.Overflows(), before)
	}
	send(initiation(1), 1)
	holds(t, s, 0)
}

// The kernel may refuse a program.
func TestASocketWhoseProgramTheKernelRefusesIsRead(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, Program{3, 0, func(bool) []unix.SockFilter { return []unix.SockFilter{{Code: bpfLoad8}} }, nil})
	if s.classes.spread() || len(s.classes.others()) > 0 || s.classes.phase != oneQueue {
		t.Fatal("the kernel takes a program without a result")
	}
	for range 16 {
		sendsTo(t, s)(initiation(1), 1)
		holds(t, s, 0)
		if n, err := r.Fill(); n != 1 || err != nil {
			t.Errorf("received %d, %v; want 1", n, err)
		}
		r.Next()
	}
}

// A queue that is never empty delays probes, however far it is from an overflow. One that is empty at times is only a queue.
func TestF19_AQueueThatStandsIsSortedBeforeItOverflows(t *testing.T) {
	t.Parallel()
	for _, stands := range []bool{true, false} {
		s, r := classified(t, loopback4, BySource)
		sender, b := open(t, loopback4, Options{DisableGSO: true}), NewBatch(conn.IdealBatchSize)
		fill := func(messages int) {
			for range messages {
				b.Add(sender, destination(s), nil, dataFrame)
			}
			b.Flush()
			wait.Until(t, "it is received", func() bool { n, err := r.Fill(); return n == messages && err == nil })
			for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
			}
		}
		fill(ReceiveBatch)
		since := s.classes.emptied
		s.classes.review(since.Add(standingQueue/2), true)
		if s.classes.phase != oneQueue {
			t.Error("sorted although the queue stands only for half of the time")
		}
		if !stands {
			fill(1)
		}
		fill(ReceiveBatch)
		s.classes.review(since.Add(standingQueue), true)
		if overflows := s.Overflows(); (s.classes.phase != oneQueue) != stands || overflows != 0 {
			t.Errorf("the queue stands: %t; phase %d, with %d overflows", stands, s.classes.phase, overflows)
		}
	}
}

// What arrives after a pause, more than a batch at once, is no queue that stands, whenever the socket was reviewed before.
func TestABurstAfterAPauseIsNotSorted(t *testing.T) {
	t.Parallel()
	s, _ := classified(t, loopback4, BySource)
	now := time.Now()
	s.classes.review(now, false)
	s.classes.review(now.Add(time.Minute), true)
	if s.classes.phase != oneQueue {
		t.Error("sorted")
	}
}

func TestASocketThatHadClassesSharesItsPortWithNoOther(t *testing.T) {
	t.Parallel()
	s, _ := classified(t, loopback4, byMessage)
	spread(t, s)
	k := s.classes
	k.checked, k.calm, k.phase = time.Time{}, time.Time{}, draining
	k.overflows = s.Overflows()
	s.classes.review(time.Now(), false) // one queue again
	if other, err := Listen(s.LocalAddr(), Options{ReusePort: true}); err == nil {
		other.Close()
		t.Error("the port is shared")
	}
}

// A queue can overflow before it holds a full batch, if the kernel coalesces.
func TestT8_LargeMessagesOverflowAQueueToo(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, byMessage)
	sender, b := open(t, loopback4, Options{}), NewBatch(1)
	for s.Overflows() == 0 {
		b.Add(sender, destination(s), nil, transport(1, 60000))
		b.Flush()
	}
	for range reviewFills {
		if n, _ := r.Fill(); n == ReceiveBatch {
			t.Skip("the queue holds a full batch of large messages")
		}
		for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
		}
	}
	if s.classes.phase == oneQueue {
		t.Error("the overflow was not noticed")
	}
}
