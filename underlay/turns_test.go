package underlay

import "testing"

// A socket that never empties does not keep the others waiting.
func TestTurnsReadEverySocket(t *testing.T) {
	t.Parallel()
	turns := NewTurns()
	for range 2 {
		turns.Add(open(t, loopback4, Options{}))
	}
	sender, b := open(t, loopback4, Options{}), NewBatch(1)
	send := func(to int) {
		b.Add(sender, destination(turns.sockets[to]), nil, []byte("?"))
		b.Flush()
		untilItHolds(t, turns.sockets[to])
	}
	p := newPoller(t)
	var from []int
	send(1)
	for range 2 * maxStreak {
		send(0)
		if turns.FillAny(p, func(err error) { t.Error(err) }) == 1 {
			from = append(from, turns.Current())
		}
		turns.Next()
	}
	for i, of := range from {
		if want := i == maxStreak; (of == 1) != want {
			t.Errorf("batch %d is from socket %d: %v", i, of, from)
		}
	}
}
