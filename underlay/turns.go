//go:build linux

package underlay

// maxStreak is the maximum number of consecutive batches from one socket before the next is read.
const maxStreak = 8

// Turns decides which of several sockets is read. Usually one receives everything: peers rarely use both
// address families, nodes rarely both encapsulations. So a socket is read until it is empty, or for eight
// batches: reading another one takes a system call. The zero value begins with the first. It is for one
// goroutine at a time.
type Turns struct {
	current int // index of the socket of the last batch
	streak  int // number of consecutive batches from it
}

// Current returns the index of the socket of the last batch.
func (t *Turns) Current() int { return t.current }

// Fill receives the next batch from any of count sockets, and tells the poller that watches them what it
// has to know. use returns the receiver of a socket, failed gets each error of Receiver.Fill. It returns
// the number of messages, 0 if no socket has any.
func (t *Turns) Fill(count int, p *Poller, use func(socket int) *Receiver, failed func(error)) (messages int) {
	if t.streak == maxStreak {
		t.next(count)
	}
	for range count {
		r := use(t.current)
		n, err := r.Fill()
		if err != nil {
			failed(err)
		}
		if n >= PauseAt {
			p.Pause()
		}
		if n > 0 {
			t.streak++
			return n
		}
		t.next(count)
	}
	return 0
}

func (t *Turns) next(count int) {
	t.current = (t.current + 1) % count
	t.streak = 0
}
