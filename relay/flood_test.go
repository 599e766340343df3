package relay

import (
	"encoding/binary"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// held is what the process holds, after all garbage is gone.
func held() (goroutines int, heap uint64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools give up what they keep the second time
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// forged is one of 65536 addresses without a host.
func forged(n int) netip.Addr {
	a := [4]byte{10, 99}
	binary.BigEndian.PutUint16(a[2:], uint16(n))
	return netip.AddrFrom4(a)
}

// flood sends packets, no faster than the wire takes them.
func (w *world) flood(packets int, send func(n int)) {
	w.Helper()
	for n := range packets {
		send(n)
		if n%1000 == 999 {
			sent := w.sent.Load()
			w.until("the wire has carried all", func() bool { return w.arrived.Load() >= sent })
		}
	}
}

// returns checks that nothing is left of a flood, in the relay, the stack or the heap.
func (w *world) returns(goroutines int, heap uint64) {
	w.Helper()
	w.untilNothingIsLeft()
	w.until("the goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	w.until("the memory is free", func() bool { _, now := held(); return now < heap+heap/20+1<<19 })
}

func TestT17_AFloodOfSYNsIsBoundedAndLeavesNothing(t *testing.T) {
	const most = 200
	w := newWorld(t, Limits{Connections: Quota{All: most, PerMapping: most}})
	l := w.listen(port)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1)) // until the reset
			c.Close()
		}
	}()
	round := func() {
		w.flood(5000, func(n int) {
			w.sendSYN(netip.AddrPortFrom(forged(n), uint16(1024+n)), netip.AddrPortFrom(mappedAddr, port))
		})
		w.until("the limit is reached", func() bool { return w.tcp().Open == most && len(w.host.RegisteredEndpoints()) == most })
		w.advance(2 * DefaultLimits.Dial)
		w.untilNothingIsLeft()
	}
	round() // what is allocated once is
	goroutines, heap := held()
	round()
	w.returns(goroutines, heap)
	if s := w.tcp(); s.Opened != 0 || s.Refused[CallerSilent] < 2*most || s.Refused[TooMany] == 0 {
		t.Errorf("counted %+v", s)
	}
}

func TestAFloodOfDatagramsIsBoundedAndLeavesNothing(t *testing.T) {
	const most = 200
	w := newWorld(t, Limits{Sessions: Quota{All: most, PerMapping: most}})
	go echoUDP(w.serveUDP(53))
	round := func() {
		w.flood(5000, func(n int) {
			w.send(forged(n), mappedAddr, header.UDPProtocolNumber, []byte{0x12, 0x34, 0, 53, 0, 9, 0, 0, 'x'})
		})
		w.until("the limit is reached", func() bool { return w.udp().Open == most && w.udp().Opened%most == 0 })
		w.advance(2 * DefaultLimits.Query)
		w.untilNothingIsLeft()
	}
	round()
	goroutines, heap := held()
	round()
	w.returns(goroutines, heap)
	if s := w.udp(); s.Opened != 2*most || s.Refused[TooMany] != 2*(5000-most) {
		t.Errorf("counted %+v", s)
	}
}

func TestAFloodOfPingsIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	w.flood(5000, func(n int) {
		w.send(forged(n), mappedAddr, header.ICMPv4ProtocolNumber, []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0})
	})
	w.until("all are counted", func() bool { s := w.relay.Echo(); return s.Answered+s.Refused == 5000 })
	if s := w.relay.Echo(); s.Answered > 200 { // time stands still, so the stack's limit of ICMP is its burst
		t.Errorf("counted %+v", s)
	}
}

// The initial sequence number of a connection cannot be predicted from those of others.
func TestT16_SequenceNumbersAreNotGuessed(t *testing.T) {
	t.Parallel()
	const tries = 8
	w := newWorld(t, Limits{})
	l := w.listen(port)
	go func() {
		for c, err := net.Conn(nil), error(nil); err == nil; c, err = l.Accept() {
			if c != nil {
				defer c.Close()
			}
		}
	}()
	steps := make(map[uint32]bool)
	var last uint32
	for n := range tries {
		w.sendSYN(netip.AddrPortFrom(forged(n), 4000), netip.AddrPortFrom(mappedAddr, port))
		first := <-w.synacks
		steps[first-last] = true
		last = first
	}
	if len(steps) != tries {
		t.Errorf("%d steps between %d sequence numbers", len(steps), tries)
	}
	var close, far int
	for s := range steps {
		if s < 1<<24 || -s < 1<<24 {
			close++
		} else {
			far++
		}
	}
	if close > far {
		t.Errorf("%d of %d sequence numbers are near the one before", close, tries)
	}
}
