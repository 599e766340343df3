//go:build linux

package traffic

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"time"

	"strait.dev/strait/bench/measure"
)

const (
	// dueLen is the length in bytes of the start of a request: when it was due.
	dueLen = 8
	// answerTime is the time limit for responses to the last requests.
	answerTime = time.Second
)

// Ask returns when all requests are answered, or further responses are unlikely.
func (e *End) Ask(q Requests, a *Responses) error {
	c, err := net.Dial("udp", netip.AddrPortFrom(q.To, portUDPEcho).String())
	if err != nil {
		return err
	}
	seen := newRecorder()
	received := make(chan struct{})
	go func() {
		defer close(received)
		receiveResponses(c, q.Size, seen)
	}()
	late := measure.NewLatencies()
	a.Wanted = ask(c, q, seen.clock, late)
	for end := seen.clock.Now() + answerTime; seen.count() < a.Wanted && seen.clock.Now() < end; {
		seen.clock.SleepUntil(seen.clock.Now() + time.Millisecond)
	}
	err = c.Close()
	<-received
	a.Latencies, a.Late = seen.latencies(), late.At(0.5)
	return err
}

// ask sends the requests when they are due, and returns their number. One that the kernel
// rejects gets no response either.
func ask(c net.Conn, q Requests, clock measure.Clock, late *measure.Latencies) (wanted int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	measure.Sharp()
	request := make([]byte, q.Size)
	pace := measure.Pace{Rate: q.Rate, Start: clock.Now()}
	for end := pace.Start + q.Duration; pace.At(wanted) < end; wanted++ {
		due := pace.At(wanted)
		clock.SleepUntil(due)
		late.Record(due, clock.Now())
		binary.BigEndian.PutUint64(request, uint64(due))
		_, _ = c.Write(request)
	}
	return wanted
}

// receiveResponses records responses until the socket is closed.
func receiveResponses(c net.Conn, size int, to *recorder) {
	response := make([]byte, size)
	for {
		n, err := c.Read(response)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && n >= dueLen { // an ICMP error is not a response
			to.record(time.Duration(binary.BigEndian.Uint64(response)), to.clock.Now())
		}
	}
}
