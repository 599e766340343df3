package nodehelper

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/nodeprobe"
)

const (
	probeMisses      = 3 // consecutive misses after which a gateway is down
	probePatience    = probeMisses * nodeprobe.MinInterval
	maxProbeInterval = 30 * time.Second // whatever a gateway asks for
)

// probes probes gateways, each in its own goroutine.
type probes struct {
	// ask sends a probe, and sends it again every nodeprobe.MinInterval until it is answered.
	ask     func(ctx context.Context, to netip.Addr) (nodeprobe.Message, error)
	changed chan<- struct{}

	running map[string]*activeProbe // by name of the gateway; of the goroutine that calls set
	all     sync.WaitGroup

	mu      sync.Mutex
	answers map[string]nodeprobe.State // of the gateways that answer
}

type activeProbe struct {
	to   netip.Addr
	stop context.CancelFunc
}

// restore loads the results of the previous helper from the status, so that a restart moves
// no routes: gateways that answered are taken to forward until they say otherwise. Gateways
// that have failed since are detected as usual.
func (p *probes) restore(s v1alpha1.NodeAttachmentStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range s.Gateways {
		if g.Ready {
			p.answers[g.Name] = nodeprobe.LinksUp
		}
	}
}

// set sets the gateways to probe, by name. The results of gateways that stay are kept.
func (p *probes) set(ctx context.Context, gateways map[string]netip.Addr) {
	for name, old := range p.running {
		if gateways[name] != old.to {
			old.stop()
			delete(p.running, name)
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

// probe probes a gateway until ctx ends.
func (p *probes) probe(ctx context.Context, name string, to netip.Addr) {
	for ctx.Err() == nil {
		asked := time.Now()
		limited, stop := context.WithTimeout(ctx, probePatience)
		answer, err := p.ask(limited, to)
		if err != nil {
			<-limited.Done() // the probe may have failed at once
		}
		stop()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			p.record(name, answer.State)
			interval := min(max(answer.Interval, nodeprobe.MinInterval), maxProbeInterval)
			wait(ctx, interval*3/4+rand.N(interval/2)) // jitter, so that nodes do not probe at the same time
		case time.Since(asked) < 2*probePatience: // else this process stood still, and the answer may be unread
			p.recordSilence(name)
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// record stores the state in the answer of a gateway.
func (p *probes) record(name string, state nodeprobe.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if is, answers := p.answers[name]; !answers || is != state {
		p.answers[name] = state
		notify(p.changed)
	}
}

// recordSilence stores that a gateway does not answer.
func (p *probes) recordSilence(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, answers := p.answers[name]; answers {
		delete(p.answers, name)
		notify(p.changed)
	}
}

// forget removes the results of all other gateways.
func (p *probes) forget(but map[string]netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.answers, func(name string, _ nodeprobe.State) bool { _, asked := but[name]; return !asked })
}

// known returns the gateways that answer, and their states.
func (p *probes) known() map[string]nodeprobe.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.answers)
}

// isKey reports whether a map has a key.
func isKey[K comparable, V any](m map[K]V, k K) bool {
	_, is := m[k]
	return is
}

// notify signals on a channel with capacity one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
