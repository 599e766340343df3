package underlay

import "testing"

// The kernel does not report what arrives in the other queues of a socket. So a socket that has several is read
// again soon, also if it was not the last that was found empty.
func TestAnySocketWithSeveralQueuesIsReadAgainSoon(t *testing.T) {
	t.Parallel()
	for several := range 2 {
		var receivers []*Receiver
		for range 2 {
			_, r := classified(t, loopback4, byMessage)
			receivers = append(receivers, r)
		}
		spread(t, receivers[several].socket)
		p, turns := newPoller(t), Turns{}
		n := turns.Fill(len(receivers), p, func(i int) *Receiver { return receivers[i] }, func(err error) { t.Error(err) })
		if n != 0 || !p.again {
			t.Errorf("socket %d has several queues: %d messages, and read again is %v", several, n, p.again)
		}
	}
}

// A socket that never empties does not keep the others waiting.
func TestTurnsReadEverySocket(t *testing.T) {
	t.Parallel()
	var receivers []*Receiver
	var sockets []*Socket
	for range 2 {
		s := open(t, loopback4, Options{})
		sockets, receivers = append(sockets, s), append(receivers, NewReceiver(s))
	}
	sender, b := open(t, loopback4, Options{}), NewBatch(1)
	send := func(to int) {
		b.Add(sender, destination(sockets[to]), nil, []byte("?"))
		b.Flush()
		untilItHolds(t, sockets[to])
	}
	p, turns := newPoller(t), Turns{}
	var from []int
	send(1)
	for range 2 * maxStreak {
		send(0)
		if turns.Fill(2, p, func(i int) *Receiver { return receivers[i] }, func(err error) { t.Error(err) }) == 1 {
			from = append(from, turns.Current())
		}
		receivers[turns.Current()].Next()
	}
	for i, of := range from {
		if want := i == maxStreak; (of == 1) != want {
			t.Errorf("batch %d is from socket %d: %v", i, of, from)
		}
	}
}
