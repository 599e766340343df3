package underlay

import "testing"

func TestTheKernelTellsWhichQueuesHoldSomething(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, byMessage)
	spread(t, s)
	q, send := s.classes.queues.Load(), sendsTo(t, s)
	if got := q.holding(); got != 0 {
		t.Errorf("classes %b hold something, want none", got)
	}
	var want uint
	for class, message := range [][]byte{transport(1, 1000), transport(1, 32), initiation(1)} {
		send(message, 1)
		holds(t, s, class)
		if want |= 1 << class; q.holding() != want {
			t.Errorf("classes %b hold something, want %b", q.holding(), want)
		}
	}
	if n, err := r.Fill(); n != byMessage.classes || err != nil || q.holding() != 0 {
		t.Errorf("received %d, %v; classes %b still hold something", n, err, q.holding())
	}
	send(initiation(1), 1)
	holds(t, s, 2)
	if q.close(); q.holding() != 0 {
		t.Error("closed queues hold something")
	}
}
