package lab

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"
)

// sequence is a steady stream of numbered datagrams from pod A to pod B.
type sequence struct {
	halt chan struct{}
	sent chan uint64   // how many, once, at the end
	seen chan []uint64 // their numbers in the order of arrival, once, some time after the last
	in   *net.UDPConn
}

// startSequence sends 1000 datagrams of 1000 bytes a second until stop: far below what the path carries,
// so that a loss is a fault and not a full queue.
func startSequence(t *testing.T, top *topology) *sequence {
	t.Helper()
	s := &sequence{
		halt: make(chan struct{}), sent: make(chan uint64, 1), seen: make(chan []uint64, 1),
		in: top.b.pod.listenUDP(t, netip.AddrPortFrom(top.b.pod4, 7001)),
	}
	go s.receive()
	c := top.a.pod.dial(t, "udp", netip.AddrPortFrom(top.a.sees(top.b.pod4), 7001))
	go func() {
		datagram, next := make([]byte, 1000), uint64(0)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-s.halt:
				s.sent <- next
				return
			case <-tick.C:
				binary.BigEndian.PutUint64(datagram, next)
				if _, err := c.Write(datagram); err == nil {
					next++
				}
			}
		}
	}()
	return s
}

func (s *sequence) receive() {
	var seen []uint64
	for buffer := make([]byte, 2048); ; {
		if _, err := s.in.Read(buffer); err != nil { // the deadline that stop sets
			s.seen <- seen
			return
		}
		seen = append(seen, binary.BigEndian.Uint64(buffer))
	}
}

// stop ends the stream and fails the test unless every datagram arrived exactly once.
func (s *sequence) stop(t *testing.T) {
	t.Helper()
	close(s.halt)
	sent := <-s.sent
	if err := s.in.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	times := make([]int, sent)
	for _, number := range <-s.seen {
		times[number]++
	}
	faults := 0
	for number, n := range times {
		if n != 1 {
			if faults++; faults <= 5 {
				t.Errorf("datagram %d of %d came %d times", number, sent, n)
			}
		}
	}
	t.Logf("%d of %d datagrams came exactly once", sent-uint64(faults), sent)
}
