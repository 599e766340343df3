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

// Questions asks for UDP datagrams that are answered, at a rate that does not depend
// on the answers (open loop). All are of one flow.
type Questions struct {
	To       netip.Addr
	Size     int     // payload, bytes; dueLen at least
	Rate     float64 // per second
	Duration time.Duration
}

// Answers is what came of questions.
type Answers struct {
	Wanted    int           // questions that were due
	Latencies Latencies     // from when a question was due until its answer had come
	Late      time.Duration // from when a question was due until it was sent, median
}

const (
	// dueLen is the length of what a question begins with: when it was due, bytes.
	dueLen = 8
	// answerTime is how long the answers to the last questions may be under way.
	answerTime = time.Second
)

// Ask returns when all questions are answered, or no answer is likely to come any more.
func (e *End) Ask(q Questions, a *Answers) error {
	c, err := net.Dial("udp", netip.AddrPortFrom(q.To, portUDPEcho).String())
	if err != nil {
		return err
	}
	seen := newRecorder()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		hearAnswers(c, q.Size, seen)
	}()
	late := measure.NewLatencies()
	a.Wanted = ask(c, q, seen.clock, late)
	for end := seen.clock.Now() + answerTime; seen.count() < a.Wanted && seen.clock.Now() < end; {
		seen.clock.SleepUntil(seen.clock.Now() + time.Millisecond)
	}
	err = c.Close()
	<-heard
	a.Latencies, a.Late = seen.latencies(), late.At(0.5)
	return err
}

// ask sends the questions when they are due, and says how many those were. One that
// the kernel refuses gets no answer either.
func ask(c net.Conn, q Questions, clock measure.Clock, late *measure.Latencies) (wanted int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	measure.Sharp()
	question := make([]byte, q.Size)
	pace := measure.Pace{Rate: q.Rate, Start: clock.Now()}
	for end := pace.Start + q.Duration; pace.At(wanted) < end; wanted++ {
		due := pace.At(wanted)
		clock.SleepUntil(due)
		late.Record(due, clock.Now())
		binary.BigEndian.PutUint64(question, uint64(due))
		_, _ = c.Write(question)
	}
	return wanted
}

// hearAnswers records answers until the socket is closed.
func hearAnswers(c net.Conn, size int, to *recorder) {
	answer := make([]byte, size)
	for {
		n, err := c.Read(answer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && n >= dueLen { // an ICMP error is no answer
			to.record(time.Duration(binary.BigEndian.Uint64(answer)), to.clock.Now())
		}
	}
}

// Ask sends questions at a rate and returns when they are answered.
func (c *Client) Ask(q Questions) (Answers, error) { return call[Answers](c, "Ask", q) }
