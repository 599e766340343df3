package traffic

import (
	"net/netip"
	"sync"
	"time"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/underlay"
)

// Transactions is what closed loops came to.
type Transactions struct {
	Latencies *measure.Latencies // from when a request was sent until its response
	Rate      float64            // responses per second
	Lost      float64            // part of the requests that nobody answered
}

// Loops asks all requests at once, and each again as soon as it is answered, for a
// time: every request is a loop of its own (closed loop). A request that is not
// answered for long is lost, and asked again. The memory of requests is the path's
// until Loops returns.
func (p *Path) Loops(requests [][]byte, d time.Duration) (*Transactions, error) {
	l := &loops{
		path: p, clock: measure.NewClock(), trial: trials.Add(1), requests: requests,
		to: underlay.NewDestination(p.To), batch: underlay.NewBatch(1),
		sent: make([]time.Duration, len(requests)), latencies: measure.NewLatencies(),
	}
	listener, err := Listen(p.From, l.receive)
	if err != nil {
		return nil, err
	}
	begin := l.clock.Now()
	end := begin + d
	for now := begin; now < end; now = l.clock.Now() {
		l.sendUnanswered(now)
		l.clock.SleepUntil(min(now+p.quiet(), end))
	}
	took := l.clock.Now() - begin
	listener.Close()
	answered := float64(l.latencies.Count())
	return &Transactions{
		Latencies: l.latencies, Rate: answered / took.Seconds(), Lost: float64(l.lost) / max(1, answered+float64(l.lost)),
	}, nil
}

// loops are requests under way, one in each loop.
type loops struct {
	path     *Path
	clock    measure.Clock
	trial    uint32
	requests [][]byte
	to       underlay.Destination

	mu        sync.Mutex // protects what follows, and the memory of requests
	batch     *underlay.Batch
	sent      []time.Duration // the request under way of each loop; 0 = none yet
	latencies *measure.Latencies
	lost      int
}

// receive takes a response and asks the request again. A response to a request that
// counted as lost is too late.
func (l *loops) receive(datagram []byte, _ netip.AddrPort) {
	now := l.clock.Now()
	m, ok := MarkOf(datagram)
	if !ok || m.Trial != l.trial || int64(m.Number) >= int64(len(l.requests)) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Due != l.sent[m.Number] {
		return
	}
	l.latencies.Record(m.Due, now)
	l.ask(int(m.Number))
}

// sendUnanswered starts every loop that has nothing under way, or not any more.
func (l *loops) sendUnanswered(now time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, sent := range l.sent {
		if sent != 0 && now-sent < patient*l.path.quiet() {
			continue
		}
		if sent != 0 {
			l.lost++
		}
		l.ask(i)
	}
}

// ask sends the request of a loop. l.mu is held.
func (l *loops) ask(i int) {
	l.sent[i] = l.clock.Now()
	l.path.put(Mark{Trial: l.trial, Number: uint32(i), Due: l.sent[i]}, l.requests[i])
	l.batch.Add(l.path.From, &l.to, nil, l.requests[i])
	l.batch.Flush()
}
