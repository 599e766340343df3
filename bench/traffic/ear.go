package traffic

import (
	"net/netip"
	"sync"

	"strait.dev/strait/underlay"
)

// Ear hands everything that arrives on a socket to a function.
type Ear struct {
	poller *underlay.Poller
	done   sync.WaitGroup
}

// Hear hands every datagram that arrives on s to take, and who sent it, on one
// goroutine, until Close. The memory of a datagram is take's until it returns. s
// must stay open until Close.
func Hear(s *underlay.Socket, take func(datagram []byte, from netip.AddrPort)) (*Ear, error) {
	poller, err := underlay.NewPoller()
	if err != nil {
		return nil, err
	}
	if err := poller.Add(s); err != nil {
		poller.Close()
		return nil, err
	}
	e := &Ear{poller: poller}
	from := underlay.NewReceiver(s)
	e.done.Go(func() {
		for poller.Wait(func() bool { return drain(from, take) }) == nil {
		}
	})
	return e, nil
}

// drain takes one batch. It reports whether there was anything.
func drain(r *underlay.Receiver, take func([]byte, netip.AddrPort)) bool {
	if n, err := r.Fill(); n == 0 || err != nil {
		return false // a closed socket ends Wait; anything else passes
	}
	for {
		datagram, from, ok := r.Next()
		if !ok {
			return true
		}
		take(datagram, from)
	}
}

// Close ends the hearing and waits for it. The socket stays open.
func (e *Ear) Close() {
	e.poller.Close()
	e.done.Wait()
}
