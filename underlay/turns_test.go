package underlay

import "testing"

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
