//go:build linux

package underlay

// maxStreak is the maximum number of consecutive batches from one socket before the next is read.
const maxStreak = 8

// Turns is a Receiver for several sockets. Usually one receives everything: peers rarely use both
// address families, nodes rarely both encapsulations. So a socket is read until it is empty, or for eight
// batches: reading another one takes a system call. It is for one goroutine at a time.
type Turns struct {
	*Receiver
	sockets []*Socket
	current int // index of the socket of the last batch
	streak  int // number of consecutive batches from it
}

// NewTurns returns Turns without sockets.
func NewTurns() *Turns { return &Turns{Receiver: NewReceiver(nil)} }

// Add adds a socket. The caller keeps ownership of it.
func (t *Turns) Add(s *Socket) { t.sockets = append(t.sockets, s) }

// Current returns the index of the socket of the last batch, in the order in which they were added.
func (t *Turns) Current() int { return t.current }

// FillAny is Fill for any of the sockets. It tells the poller that watches them what it has to know. failed gets each
// error. It returns the number of messages, 0 if no socket has any.
func (t *Turns) FillAny(p *Poller, failed func(error)) (messages int) {
	if t.streak == maxStreak {
		t.next()
	}
	for range t.sockets {
		t.Use(t.sockets[t.current])
		n, err := t.Fill()
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
		t.next()
	}
	return 0
}

func (t *Turns) next() {
	t.current = (t.current + 1) % len(t.sockets)
	t.streak = 0
}
