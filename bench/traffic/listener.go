package traffic

import (
	"net/netip"
	"sync"

	"strait.dev/strait/underlay"
)

// Listener passes every datagram that arrives on a socket to a function.
type Listener struct {
	poller *underlay.Poller
	done   sync.WaitGroup
}

// Listen passes every datagram that arrives on s, with its sender, to take on one goroutine
// until Close. The datagram is valid until take returns. s must stay open until Close.
func Listen(s *underlay.Socket, take func(datagram []byte, from netip.AddrPort)) (*Listener, error) {
	poller, err := underlay.NewPoller()
	if err != nil {
		return nil, err
	}
	if err := poller.Add(s); err != nil {
		poller.Close()
		return nil, err
	}
	e := &Listener{poller: poller}
	from := underlay.NewReceiver(s)
	e.done.Go(func() {
		for poller.Wait(func() bool { return drain(from, take) }) == nil {
		}
	})
	return e, nil
}

// drain receives one batch. It reports whether there was one.
func drain(r *underlay.Receiver, take func([]byte, netip.AddrPort)) bool {
	if n, err := r.Fill(); n == 0 || err != nil {
		return false // a closed socket ends Wait; other errors are temporary
	}
	for {
		datagram, from, ok := r.Next()
		if !ok {
			return true
		}
		take(datagram, from)
	}
}

// Close stops receiving and waits for the goroutine. The socket stays open.
func (e *Listener) Close() {
	e.poller.Close()
	e.done.Wait()
}
