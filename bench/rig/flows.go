package rig

import (
	"errors"
	"net/netip"
	"time"

	"strait.dev/strait/bench/rig/traffic"
)

// manyFlows measures the cost of datagrams that belong to many flows in turn.
func (r *Rig) manyFlows(p *setting, flows, payload int, rate float64, d time.Duration) (metrics, error) {
	var sent traffic.FlowsSent
	count, cpu, err := r.during(p, p.a.pod, p.b.pod, func(sender *end) (err error) {
		sent, err = sender.SendFlows(traffic.Flows{
			To: p.sees(p.b, 0), From: p.a.Address[0], Count: flows, Size: payload, Rate: rate, Duration: d,
		})
		time.Sleep(delivery)
		return err
	})
	if err != nil {
		return nil, err
	}
	return perPacket(rate, sent.Packets, count, cpu)
}

// newFlows searches for the highest rate of requests, each the first packet of a new flow,
// at which a tolerable fraction of them is unanswered.
func (r *Rig) newFlows(p *setting, d time.Duration) (metrics, error) {
	sender, _, err := r.twoEnds(p, p.a.pod, p.b.pod)
	if err != nil {
		return nil, err
	}
	best, err := highestRate(d, func(rate float64) (traffic.Sent, int, error) {
		sent, err := sender.SendFlows(traffic.Flows{To: p.sees(p.b, 0), From: p.a.clients().Addr().Next(), Size: 64, Rate: rate, Duration: d})
		return sent.Packets, sent.Answered, err
	})
	return metrics{unitFlowRate: best}, err
}

// clients are addresses of the pod's network that serve as sources of new flows: the upper
// half. They are routed to the pod, where no process listens.
func (s *site) clients() netip.Prefix {
	first := s.NodePods[0].Addr().As4()
	first[3] |= 0x80
	return netip.PrefixFrom(netip.AddrFrom4(first), 25)
}

func (r *Rig) newConnections(p *setting, parallel int, d time.Duration) (metrics, error) {
	var l traffic.Latencies
	_, cpu, err := r.during(p, p.a.pod, p.b.pod, func(sender *end) (err error) {
		l, err = sender.Connect(traffic.Connections{To: p.sees(p.b, 0), Parallel: parallel, Duration: d})
		return err
	})
	if err != nil {
		return nil, err
	}
	m := quantiles(l)
	m[unitConnRate] = float64(l.Count) / l.Elapsed.Seconds()
	m["CPU-ns/connection"] = float64(cpu.total()) / float64(l.Count)
	return m, nil
}

// requests measures responses at a rate that does not depend on them.
func (r *Rig) requests(p *setting, rate float64, d time.Duration) (metrics, error) {
	sender, _, err := r.twoEnds(p, p.a.pod, p.b.pod)
	if err != nil {
		return nil, err
	}
	a, err := sender.Ask(traffic.Requests{To: p.sees(p.b, 0), Size: 64, Rate: rate, Duration: d})
	if err != nil {
		return nil, err
	}
	if a.Latencies.Count == 0 {
		return nil, errors.New("no request was answered")
	}
	m := quantiles(a.Latencies)
	m["late-p50-ns"] = float64(a.Late)
	m[unitLoss] = 1 - float64(a.Latencies.Count)/float64(a.Wanted)
	return m, nil
}
