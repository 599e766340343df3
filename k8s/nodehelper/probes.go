package nodehelper

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/nodeprobe"
)

const (
	probeMisses      = 3                // requests in sequence without an answer after which a gateway is out
	maxProbeInterval = 30 * time.Second // whatever a gateway asks for

	// missedAfter is when a request counts as missed: shortly before it is repeated, so that none
	// is sent for nothing.
	missedAfter = nodeprobe.RepeatInterval - 5*time.Millisecond

	// joinAfter is how long a gateway that was out must be up before it is used again, unless
	// there is no other. It is longer than both ends of a link and the node need to find a
	// failure, so a gateway that fails again at once gets no flows.
	joinAfter = 2 * time.Second
)

// probes probes gateways, each in its own goroutine.
//
// A gateway gets a request in each interval that it asks for: 100 ms while data of this node crosses it (and that of up to 199
// others), else 250 ms (in clusters of up to 750 nodes). All gateways get theirs at the same times, so that a node wakes up once
// for all of them. A request that is not answered is repeated every 100 ms, and after the third the gateway is out:
// 385 ms after its death at the latest, or 535 ms. The first retransmission of TCP, 0.35 to 0.6 s
// after the loss, mostly takes another gateway. A gateway that is out gets one request per interval.
type probes struct {
	// ask sends a probe, and sends it again every nodeprobe.RepeatInterval until it is answered. It
	// calls its last argument with each answer until ctx ends.
	ask     askFunc
	now     func() time.Time
	origin  time.Time     // of all intervals: at random, so that nodes do not probe at the same time
	changed client.Signal // of the results

	running map[string]*activeProbe // by name of the gateway; of the goroutine that calls set
	all     sync.WaitGroup

	mu      sync.Mutex
	answers map[string]nodeprobe.State // of the gateways that answer
	linked  map[string]bool            // gateways that have forwarded
	out     map[string]bool            // gateways that have stopped to answer, or to forward
	back    map[string]time.Time       // those that forward again, since when, for less than joinAfter
}

type askFunc func(ctx context.Context, to netip.Addr, answered func(nodeprobe.Message)) error

type activeProbe struct {
	to   netip.Addr
	stop context.CancelFunc
}

func newProbes(ask askFunc, now func() time.Time) *probes {
	return &probes{
		ask: ask, now: now, origin: now().Add(-rand.N(maxProbeInterval)), changed: make(client.Signal, 1), running: map[string]*activeProbe{},
		answers: map[string]nodeprobe.State{}, linked: map[string]bool{}, out: map[string]bool{}, back: map[string]time.Time{},
	}
}

// restore loads the results of the previous helper from the status, so that a restart moves no
// flows: a gateway is taken to be as it was until it says otherwise. One that has failed since is
// detected as usual.
func (p *probes) restore(s v1alpha1.NodeAttachmentStatus) {
	for _, g := range s.Gateways {
		if !g.Ready {
			continue
		}
		switch g.State {
		case v1alpha1.NoLinks:
			p.record(g.Name, nodeprobe.LinksUp) // as far as is known, it had links
			p.record(g.Name, nodeprobe.NoLinks)
		case v1alpha1.Leaving:
			p.record(g.Name, nodeprobe.Leaving)
		case v1alpha1.Joining:
			p.record(g.Name, nodeprobe.NoLinks)
			p.record(g.Name, nodeprobe.LinksUp)
		default:
			p.record(g.Name, nodeprobe.LinksUp)
		}
	}
}

func inUse(s v1alpha1.NodeAttachmentStatus) map[string]bool {
	used := map[string]bool{}
	for _, g := range s.Gateways {
		if g.InUse {
			used[g.Name] = true
		}
	}
	return used
}

// set sets the gateways to probe, by name. The results of gateways that stay are kept.
func (p *probes) set(ctx context.Context, gateways map[string]netip.Addr) {
	for name, old := range p.running {
		if gateways[name] != old.to {
			old.stop()
			delete(p.running, name)
			p.replaced(name)
		}
	}
	p.forget(gateways)
	for name, to := range gateways {
		if p.running[name] == nil {
			within, stop := context.WithCancel(ctx)
			p.running[name] = &activeProbe{to, stop}
			p.all.Go(func() { p.probe(within, name, to) })
		}
	}
}

func (p *probes) probe(ctx context.Context, name string, to netip.Addr) {
	interval, misses := nodeprobe.RestInterval, probeMisses
	for ctx.Err() == nil {
		within, stop := context.WithCancel(ctx)
		answers := make(chan nodeprobe.Message)
		p.all.Go(func() {
			_ = p.ask(within, to, func(m nodeprobe.Message) {
				select {
				case answers <- m:
				case <-within.Done():
				}
			})
		})
		answer, answered := p.first(ctx, answers, misses)
		switch {
		case answered:
			interval, misses = intervalIn(answer), probeMisses
			p.record(name, answer.State)
		case ctx.Err() == nil:
			stop() // do not repeat the request any more
			misses = 1
			p.recordSilence(name)
		}
		p.rest(ctx, name, p.remaining(interval), answers)
		stop()
	}
}

func intervalIn(answer nodeprobe.Message) time.Duration {
	return min(max(cmp.Or(answer.Interval, nodeprobe.RestInterval), nodeprobe.MinInterval), maxProbeInterval)
}

// first waits for the first answer to a request, until the given number of repetitions has been
// missed. An interval in which this process stood still is no miss: the answer may be unread.
func (p *probes) first(ctx context.Context, answers <-chan nodeprobe.Message, misses int) (answer nodeprobe.Message, answered bool) {
	timer := time.NewTimer(missedAfter)
	defer timer.Stop()
	for began := p.now(); misses > 0; began = p.now() {
		select {
		case <-ctx.Done():
			return answer, false
		case answer = <-answers:
			return answer, true
		case <-timer.C:
		}
		if p.now().Sub(began) < 2*missedAfter {
			misses--
		}
		timer.Reset(missedAfter)
	}
	return answer, false
}

func (p *probes) remaining(interval time.Duration) time.Duration {
	return interval - p.now().Sub(p.origin)%interval
}

// rest waits until the next request is due. A gateway whose state changes, or that wants to be probed more often, says so meanwhile.
func (p *probes) rest(ctx context.Context, name string, d time.Duration, answers <-chan nodeprobe.Message) {
	due := p.now().Add(d)
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case m := <-answers:
			p.record(name, m.State)
			if sooner := p.remaining(intervalIn(m)); sooner < due.Sub(p.now()) {
				due = p.now().Add(sooner)
				timer.Reset(sooner)
			}
		}
	}
}

func (p *probes) record(name string, state nodeprobe.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	is, answers := p.answers[name]
	changed := !answers || is != state
	p.answers[name] = state
	since, joins := p.back[name]
	if forwards := state != nodeprobe.NoLinks && state != nodeprobe.Leaving; !forwards {
		p.out[name] = true
		delete(p.back, name)
	} else {
		p.linked[name] = true
		switch {
		case p.out[name]:
			delete(p.out, name)
			p.back[name] = now
		case joins && now.Sub(since) >= joinAfter:
			delete(p.back, name)
			changed = true
		}
	}
	if changed {
		p.changed.Set()
	}
}

func (p *probes) recordSilence(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, answers := p.answers[name]; answers {
		p.out[name] = true
		delete(p.answers, name)
		delete(p.back, name)
		p.changed.Set()
	}
}

// replaced notes that a gateway runs in another pod, which has had no link yet.
func (p *probes) replaced(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.linked, name)
}

func (p *probes) forget(but map[string]netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.answers, func(name string, _ nodeprobe.State) bool { return !isKey(but, name) })
	maps.DeleteFunc(p.linked, func(name string, _ bool) bool { return !isKey(but, name) })
	maps.DeleteFunc(p.out, func(name string, _ bool) bool { return !isKey(but, name) })
	maps.DeleteFunc(p.back, func(name string, _ time.Time) bool { return !isKey(but, name) })
}

// known returns the states of the gateways that answer, which of them must be up for longer
// before they are used, and which have had no link yet.
func (p *probes) known() (answers map[string]nodeprobe.State, joining, unlinked map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	joining, unlinked = map[string]bool{}, map[string]bool{}
	for name := range p.back {
		joining[name] = true
	}
	for name, state := range p.answers {
		if state == nodeprobe.NoLinks && !p.linked[name] {
			unlinked[name] = true
		}
	}
	return maps.Clone(p.answers), joining, unlinked
}

func isKey[K comparable, V any](m map[K]V, k K) bool {
	_, is := m[k]
	return is
}
