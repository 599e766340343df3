package lab

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"strait.dev/strait/test/wait"
)

// sequence is a stream of numbered datagrams from pod A to pod B.
type sequence struct {
	out     net.Conn
	halt    chan struct{}
	sent    chan uint64   // their number, once, at the end
	seen    chan []uint64 // their numbers in the order of arrival, once, after the end of the stream
	arrived atomic.Uint64
}

const (
	// inFlight is the largest number of datagrams of a sequence in transit, few enough for
	// the smallest socket buffer: a loss is then a fault and never a full queue, however
	// slowly the machine runs a program.
	inFlight = 16
	// endOfSequence is the number of the datagrams that follow the last.
	endOfSequence = ^uint64(0)
)

// StartSequence sends datagrams of 1000 bytes until stop, at most 1000 per second.
func StartSequence(t *testing.T, top *Topology) *sequence {
	t.Helper()
	in := top.B.Pod.ListenUDP(t, netip.AddrPortFrom(top.B.Pod4, 7001))
	s := &sequence{
		out:  top.A.Pod.Dial(t, "udp", netip.AddrPortFrom(top.A.Sees(top.B.Pod4), 7001)),
		halt: make(chan struct{}), sent: make(chan uint64, 1), seen: make(chan []uint64, 1),
	}
	go s.receive(in)
	go s.send()
	return s
}

func (s *sequence) send() {
	datagram, next := make([]byte, 1000), uint64(0)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.halt:
			s.sent <- next
			return
		case <-tick.C:
			if next-min(next, s.arrived.Load()) >= inFlight {
				continue
			}
			binary.BigEndian.PutUint64(datagram, next)
			if _, err := s.out.Write(datagram); err == nil {
				next++
			}
		}
	}
}

func (s *sequence) receive(c *net.UDPConn) {
	var seen []uint64
	for buffer := make([]byte, 2048); ; {
		if _, err := c.Read(buffer); err != nil {
			return // the test has ended
		}
		number := binary.BigEndian.Uint64(buffer)
		if number == endOfSequence {
			s.seen <- seen
			return
		}
		seen = append(seen, number)
		s.arrived.Add(1)
	}
}

// Stop ends the stream and fails the test unless every datagram arrived exactly once. The
// flow keeps its order, so none is in transit when a datagram has arrived that was sent
// after the last.
func (s *sequence) Stop(t *testing.T) {
	t.Helper()
	close(s.halt)
	sent := <-s.sent
	var seen []uint64
	end := binary.BigEndian.AppendUint64(nil, endOfSequence)
	wait.Until(t, "the end of the sequence has arrived", func() bool {
		_, _ = s.out.Write(end)
		select {
		case seen = <-s.seen:
			return true
		default:
			return false
		}
	})
	times := make([]int, sent)
	for _, number := range seen {
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
