package traffic

import (
	"net/netip"
	"sync"
	"time"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/underlay"
)

// Transactions is the result of closed loops.
type Transactions struct {
	Latencies *measure.Latencies // from sending a request until its response
	Rate      float64            // responses per second
	Lost      float64            // fraction of unanswered requests
}

// Loops sends all requests at once, and each again as soon as it is answered, for a time:
// every request is a separate loop (closed loop). A request without a response for long
// counts as lost and is sent again. The caller must not use requests until Loops returns.
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

// loops are requests in flight, one per loop.
type loops struct {
	path     *Path
	clock    measure.Clock
	trial    uint32
	requests [][]byte
	to       underlay.Destination

	mu        sync.Mutex // protects the fields below and the memory of requests
	batch     *underlay.Batch
	sent      []time.Duration // when each loop's request was sent; 0 = none yet
	latencies *measure.Latencies
	lost      int
}

// receive takes a response and sends the request again. A response to a request that
// counted as lost is ignored.
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

// sendUnanswered starts every loop that has no request in flight.
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

// ask sends the request of a loop. l.mu must be held.
func (l *loops) ask(i int) {
	l.sent[i] = l.clock.Now()
	l.path.put(Mark{Trial: l.trial, Number: uint32(i), Due: l.sent[i]}, l.requests[i])
	l.batch.Add(l.path.From, &l.to, nil, l.requests[i])
	l.batch.Flush()
}
