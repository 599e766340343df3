package nodehelper

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
)

const (
	// A gateway's host answers at most 1 000 probes/s, from up to 5 000 nodes.
	probeInterval = 5 * time.Second
	probeTimeout  = time.Second // of one probe
	probeMisses   = 3           // consecutive misses after which a gateway is down
)

// probes probes gateways, each in its own goroutine.
type probes struct {
	prober  *node.Prober
	changed chan<- struct{}

	running map[string]*activeProbe // by name of the gateway; of the goroutine that calls set
	all     sync.WaitGroup

	mu      sync.Mutex
	answers map[string]bool
}

type activeProbe struct {
	to   netip.Addr
	stop context.CancelFunc
}

// restore loads the results of the previous helper from the status, so that a restart moves
// no routes. Gateways that have failed since are detected as usual.
func (p *probes) restore(s v1alpha1.NodeAttachmentStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range s.Gateways {
		if g.Ready {
			p.answers[g.Name] = true
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
	for misses := 0; ctx.Err() == nil; {
		limited, stop := context.WithTimeout(ctx, probeTimeout)
		err := p.prober.Ask(limited, to)
		if err != nil {
			<-limited.Done() // the probe may have failed at once
		}
		stop()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if misses++; misses == probeMisses {
				p.record(name, false)
			}
			continue
		}
		misses = 0
		p.record(name, true)
		wait(ctx, probeInterval*3/4+rand.N(probeInterval/2)) // jitter, so that nodes do not probe at the same time
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

// record stores whether a gateway answers.
func (p *probes) record(name string, answers bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers[name] == answers {
		return
	}
	if answers {
		p.answers[name] = true
	} else {
		delete(p.answers, name)
	}
	notify(p.changed)
}

// forget removes the results of all other gateways.
func (p *probes) forget(but map[string]netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.answers, func(name string, _ bool) bool { _, asked := but[name]; return !asked })
}

// known returns the gateways that answer.
func (p *probes) known() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.answers)
}

// notify signals on a channel with capacity one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
