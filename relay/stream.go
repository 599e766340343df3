package relay

import (
	"bytes"
	"errors"
	"io"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// stream is the host stack's side of a connection or session. One goroutine may receive while another one sends.
type stream struct {
	end   tcpip.Endpoint
	queue *waiter.Queue
}

// receive waits for bytes or a datagram; io.EOF means that the far end has closed its half. The caller returns the buffer
// to the pool unless it is nil.
func (s *stream) receive() (b *Buffer, n int, err error) {
	w := s.wake(waiter.ReadableEvents)
	defer w.stop()
	for {
		b = takeBuffer()
		into := tcpip.SliceWriter(b[:])
		result, terr := s.end.Read(&into, tcpip.ReadOptions{})
		switch terr.(type) {
		case nil:
			return b, result.Count, nil
		case *tcpip.ErrWouldBlock:
			giveBuffer(b)
			w.wait()
		case *tcpip.ErrClosedForReceive:
			return b, 0, io.EOF
		default:
			return b, 0, errors.New(terr.String())
		}
	}
}

// send waits until the stack has accepted all bytes.
func (s *stream) send(b []byte) error {
	w := s.wake(waiter.WritableEvents)
	defer w.stop()
	for r := bytes.NewReader(b); r.Len() > 0; {
		_, terr := s.end.Write(r, tcpip.WriteOptions{})
		switch terr.(type) {
		case nil:
		case *tcpip.ErrWouldBlock:
			w.wait()
		default:
			return errors.New(terr.String())
		}
	}
	return nil
}

// sendDatagram sends one datagram or drops it.
func (s *stream) sendDatagram(b []byte) error {
	if _, terr := s.end.Write(bytes.NewReader(b), tcpip.WriteOptions{}); terr != nil {
		return errors.New(terr.String())
	}
	return nil
}

// wake waits for events of a stream. It registers for them only when it has to wait, which is rare.
type wake struct {
	queue *waiter.Queue
	mask  waiter.EventMask
	entry waiter.Entry
	woken chan struct{} // nil: not registered yet
}

func (s *stream) wake(mask waiter.EventMask) *wake {
	return &wake{queue: s.queue, mask: mask | waiter.EventHUp | waiter.EventErr}
}

// wait returns when there may be news; the first time at once, because events before the registration would be
// missed.
func (w *wake) wait() {
	if w.woken != nil {
		<-w.woken
		return
	}
	w.entry, w.woken = waiter.NewChannelEntry(w.mask)
	w.queue.EventRegister(&w.entry)
}

func (w *wake) stop() {
	if w.woken != nil {
		w.queue.EventUnregister(&w.entry)
	}
}

// state returns the state of a TCP connection.
func (s *stream) state() tcp.EndpointState { return tcp.EndpointState(s.end.State()) }
