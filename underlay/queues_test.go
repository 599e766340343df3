package underlay

import (
	"bytes"
	"testing"
)

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

// Datagrams that come one by one are mostly of one class.
func TestTheQueueOfALoneDatagramIsReadFirstAndNoOtherIsForgotten(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, byMessage)
	spread(t, s)
	send := sendsTo(t, s)
	messages := [][]byte{transport(1, 1000), transport(1, 32), initiation(1)} // by class
	arrive := func(class int) {
		t.Helper()
		send(messages[class], 1)
		holds(t, s, class)
	}
	receive := func(want ...[]byte) {
		t.Helper()
		if n, err := r.Fill(); n != len(want) || err != nil {
			t.Fatalf("received %d, %v, want %d", n, err, len(want))
		}
		for _, message := range want {
			if got, _, _ := r.Next(); !bytes.Equal(got, message) {
				t.Fatalf("received %.8x, want %.8x", got, message)
			}
		}
	}
	arrive(2)
	receive(messages[2])
	receive()
	arrive(0)
	arrive(2)
	receive(messages[2]) // without a look
	receive(messages[0])
	receive()
	arrive(1)
	receive(messages[1]) // the queue of class 0 is empty
}
