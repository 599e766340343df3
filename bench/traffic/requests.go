package traffic

import (
	"net/netip"
	"runtime"
	"sync"
	"time"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/underlay"
)

// Responses is the result of a series of requests.
type Responses struct {
	Latencies *measure.Latencies // from when a request was due until its response
	Lateness  *measure.Latencies // from when a request was due until it was sent: the generator's own delay
	Lost      float64            // fraction of unanswered requests
}

// Probe sends requests at a rate, whether or not responses arrive, and receives the
// responses on the same socket. request returns the datagram with a number, counted from 0;
// it is valid until the next call.
func (p *Path) Probe(request func(i int) []byte, rate float64, count int) (*Responses, error) {
	clock := measure.NewClock()
	a := &Responses{Latencies: measure.NewLatencies(), Lateness: measure.NewLatencies()}
	trial := trials.Add(1)
	var mu sync.Mutex // protects a.Latencies
	listener, err := Listen(p.From, func(datagram []byte, _ netip.AddrPort) {
		now := clock.Now()
		if m, ok := MarkOf(datagram); ok && m.Trial == trial {
			mu.Lock()
			a.Latencies.Record(m.Due, now)
			mu.Unlock()
		}
	})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	var asking sync.WaitGroup
	asking.Go(func() { p.ask(clock, a.Lateness, trial, request, rate, count) })
	asking.Wait()

	answered := func() int {
		mu.Lock()
		defer mu.Unlock()
		return a.Latencies.Count()
	}
	for end := clock.Now() + patient*p.quiet(); answered() < count && clock.Now() < end; {
		clock.SleepUntil(clock.Now() + time.Millisecond)
	}
	a.Lost = 1 - float64(answered())/float64(count)
	return a, nil
}

// ask sends the requests. It runs on its own goroutine.
func (p *Path) ask(clock measure.Clock, late *measure.Latencies, trial uint32, request func(int) []byte, rate float64, count int) {
	runtime.LockOSThread() // never unlocked: the thread, with its timer slack, ends with the goroutine
	measure.Sharp()
	batch := underlay.NewBatch(1)
	to := underlay.NewDestination(p.To)
	pace := measure.Pace{Rate: rate, Start: clock.Now()}
	for i := range count {
		due := pace.At(i)
		clock.SleepUntil(due)
		datagram := request(i)
		p.put(Mark{Trial: trial, Number: uint32(i), Due: due}, datagram)
		late.Record(due, clock.Now())
		batch.Add(p.From, &to, nil, datagram)
		batch.Flush()
	}
}
