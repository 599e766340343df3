package underlay

import (
	"bytes"
	"testing"
	"time"
)

// pacing returns a socket that paces probes, a receiver that waits with a poller, and a function that sends frames.
func pacing(t *testing.T) (*Socket, *Receiver, *Poller, func(message []byte, count int)) {
	t.Helper()
	s, r := classified(t, loopback4, BySource)
	p := newPoller(t, s)
	s.Pace(true)
	review(t, s, r)
	if s.classes.phase != draining {
		t.Fatal("the kernel does not sort datagrams")
	}
	s.classes.calm = time.Now().Add(-spreadDrain)
	review(t, s, r)
	if s.classes.queued.Load() {
		t.Fatal("probes are not paced")
	}
	return s, r, p, sendsTo(t, s)
}

// review receives nothing, so that r reviews its queues.
func review(t *testing.T, s *Socket, r *Receiver) {
	t.Helper()
	s.classes.checked = time.Time{}
	if n, err := r.Fill(); n != 0 || err != nil {
		t.Fatalf("received %d, %v", n, err)
	}
}

// untilReceived waits until so many datagrams like this were received.
func untilReceived(t *testing.T, r *Receiver, p *Poller, like []byte, count int) {
	t.Helper()
	for count > 0 {
		err := p.Wait(func() bool { n, err := r.Fill(); return n > 0 || err != nil })
		if err != nil {
			t.Fatal(err)
		}
		for d, _, ok := r.Next(); ok; d, _, ok = r.Next() {
			if bytes.Equal(d, like) {
				count--
			}
		}
	}
}

// Each probe that arrives would wake the gateway: with 5,000 nodes that costs most of what it uses at rest.
func TestF23_PacedProbesWaitAndAreReceivedTogether(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, BySource)
	s.Pace(true)
	review(t, s, r)
	s.classes.phase = oneQueue
	s.classes.watchQueues(false) // without a ticker
	send := sendsTo(t, s)
	send(probeFrame, 3)
	untilItHolds(t, s.classes.pacedQueue())
	send(dataFrame, 1)
	untilItHolds(t, s)
	if n, err := r.Fill(); n != 1 || err != nil {
		t.Fatalf("received %d before the probes are due, %v; want the one datagram of data", n, err)
	}
	if d, _, _ := r.Next(); !bytes.Equal(d, dataFrame) {
		t.Error("a probe is received before it is due")
	}
	s.classes.paced.due.Store(true)
	if n, err := r.Fill(); n != 3 || err != nil {
		t.Errorf("received %d when the probes are due, %v; want all 3", n, err)
	}
}

func TestF23_MorePacedProbesThanABatchHoldsAreReceivedAtOnce(t *testing.T) {
	t.Parallel()
	_, r, p, send := pacing(t)
	send(probeFrame, 2*ReceiveBatch+1)
	untilReceived(t, r, p, probeFrame, 2*ReceiveBatch+1)
}

// An overload sorts datagrams as it does without pacing, and pacing goes on after it.
func TestF19_PacedProbesAreReceivedDuringAnOverload(t *testing.T) {
	t.Parallel()
	s, r, p, send := pacing(t)
	if !s.classes.spread() {
		t.Fatal("the kernel does not sort datagrams")
	}
	if !s.classes.queued.Load() {
		t.Error("the other queues are not watched during an overload")
	}
	send(probeFrame, 1)
	untilReceived(t, r, p, probeFrame, 1)
	s.classes.calm = time.Now().Add(-spreadCalm)
	review(t, s, r)
	s.classes.calm = time.Now().Add(-spreadDrain)
	review(t, s, r)
	if s.classes.phase != oneQueue || s.classes.queued.Load() {
		t.Error("probes are not paced after an overload")
	}
	send(probeFrame, 1)
	untilReceived(t, r, p, probeFrame, 1)
}

func TestPacingEndsWithoutALossAndClosesItsQueues(t *testing.T) {
	t.Parallel()
	s, r, p, send := pacing(t)
	send(probeFrame, 2)
	untilItHolds(t, s.classes.pacedQueue())
	s.Pace(false)
	s.classes.checked = time.Time{}
	untilReceived(t, r, p, probeFrame, 2)
	if s.classes.checked = (time.Time{}); s.classes.phase == oneQueue {
		review(t, s, r)
	}
	send(probeFrame, 1)
	untilReceived(t, r, p, probeFrame, 1)
	for range 2 {
		s.classes.calm = time.Now().Add(-spreadDrain)
		review(t, s, r)
	}
	if len(s.classes.others()) > 0 {
		t.Error("the other queues are open")
	}
	send(probeFrame, 1)
	untilReceived(t, r, p, probeFrame, 1)
}
