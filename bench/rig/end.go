package rig

import (
	"fmt"
	"os/exec"
	"time"

	"strait.dev/strait/bench/rig/traffic"
)

// end is a running traffic process.
type end struct {
	*traffic.Client
	process *process
}

// end returns the traffic process in a namespace, and starts it on first use.
func (r *Rig) end(p *setting, at *namespace) (*end, error) {
	if e := p.running[at]; e != nil {
		return e, e.process.running()
	}
	e := new(end)
	var err error
	e.process, err = at.start(p.ends, r.dir, nil, func(cmd *exec.Cmd) error {
		pipe, err := pipeTo(cmd)
		if err == nil {
			e.Client = traffic.NewClient(pipe)
		}
		return err
	}, r.End...)
	if err != nil {
		return nil, err
	}
	p.running[at] = e
	_, err = e.Count() // answered as soon as the process listens
	return e, err
}

func (e *end) stop() {
	_ = e.Close() // the process may have ended already
	e.process.stop()
}

func (r *Rig) twoEnds(p *setting, from, to *namespace) (sender, receiver *end, err error) {
	if receiver, err = r.end(p, to); err != nil {
		return nil, nil, err
	}
	sender, err = r.end(p, from)
	return sender, receiver, err
}

// trafficPatience is the time limit from the start of gateways to the first packet: two
// WireGuard handshakes that start together may collide and are retried after five seconds.
const trafficPatience = 20 * time.Second

// awaitTraffic waits until pods reach each other in both directions.
func (r *Rig) awaitTraffic(p *setting) error {
	for _, s := range p.sites() {
		from, to := s, p.other(s)
		sender, _, err := r.twoEnds(p, from.pod, to.pod)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		for f := range p.families() {
			deadline := time.Now().Add(trafficPatience)
			for {
				_, err := sender.RoundTrips(traffic.RoundTrips{To: p.sees(to, f), Connections: 1, Size: 64})
				if err == nil {
					break
				}
				for _, g := range p.processes {
					if ended := g.running(); ended != nil {
						return fmt.Errorf("%s: %w", p.Name, ended)
					}
				}
				if time.Now().After(deadline) {
					return fmt.Errorf("%s: no packet crosses from %s to %s: %w", p.Name, from.pod.role, to.pod.role, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
	}
	return nil
}

// families returns the number of address families that a subject carries: IPv4, or both.
func (s *Subject) families() int {
	if s.dualStack {
		return 2
	}
	return 1
}
