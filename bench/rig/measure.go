package rig

import (
	"errors"
	"net/netip"
	"time"

	"strait.dev/strait/bench/rig/traffic"
)

// metrics are figures by unit.
type metrics = map[string]float64

// Units of the figures, in addition to those of latencies.
const (
	unitThroughput = "bit/s"
	unitCPU        = "CPU-s/GB"         // of the whole path, per 10^9 bytes of payload
	unitGatewayCPU = "gateway-CPU-s/GB" // of the gateways' processes only
	unitPacketRate = "pkts/s"
	unitPacketCPU  = "CPU-ns/pkt"
	unitNDR        = "ndr-pkts/s"
	unitPDR        = "pdr-pkts/s"
	unitLoss       = "loss"
	unitRate       = "transactions/s"
	unitFlowRate   = "flows/s"
	unitConnRate   = "connections/s"
	unitExtra      = "extra-ns" // a new flow compared with a known one
	unitP50        = "p50-ns"
	unitP99        = "p99-ns"
	unitLongest    = "max-ns"
	unitMemory     = "peak-B"
	unitResident   = "resident-B"
	unitPeering    = "B/peering" // resident memory of one additional peering
)

// settle is the time for queues to empty between two tests.
const settle = 50 * time.Millisecond

// warmUp is how long streams run before they are measured.
const warmUp = 300 * time.Millisecond

func (r *Rig) streams(p *setting, from, to *namespace, s traffic.Streams, d time.Duration) (metrics, error) {
	sender, _, err := r.twoEnds(p, from, to)
	if err != nil {
		return nil, err
	}
	defer time.Sleep(settle)
	var count traffic.Count
	var cpu usage
	err = sender.StartStreams(s)
	if err == nil {
		time.Sleep(warmUp)
		count, cpu, err = r.during(p, from, to, func(*end) error { time.Sleep(d); return nil })
	}
	if err := errors.Join(err, sender.StopStreams()); err != nil {
		return nil, err
	}
	gigabytes := float64(count.Stream) / 1e9
	return metrics{
		unitThroughput: float64(count.Stream) * 8 / count.At.Seconds(),
		unitCPU:        cpu.total().Seconds() / gigabytes,
		unitGatewayCPU: cpu.gateways.Seconds() / gigabytes,
	}, nil
}

// during returns what the end in to counts and the CPU time used while do runs with that in from.
func (r *Rig) during(p *setting, from, to *namespace, do func(sender *end) error) (count traffic.Count, cpu usage, err error) {
	sender, receiver, err := r.twoEnds(p, from, to)
	if err != nil {
		return count, cpu, err
	}
	before, err := r.usage(p.topology)
	if err != nil {
		return count, cpu, err
	}
	start, err := receiver.Count()
	if err != nil {
		return count, cpu, err
	}
	if err := do(sender); err != nil {
		return count, cpu, err
	}
	stop, err := receiver.Count()
	if err != nil {
		return count, cpu, err
	}
	after, err := r.usage(p.topology)
	return stop.Since(start), after.since(before), err
}

// delivery is the time limit for the last datagrams of a test.
const delivery = 100 * time.Millisecond

// datagrams sends at a fixed rate and returns what arrived and its cost.
func (r *Rig) datagrams(p *setting, from, to *namespace, b traffic.Blast) (sent traffic.Sent, count traffic.Count, cpu usage, err error) {
	count, cpu, err = r.during(p, from, to, func(sender *end) (err error) {
		sent, err = sender.Blast(b)
		time.Sleep(delivery)
		return err
	})
	return sent, count, cpu, err
}

// perPacket returns the cost and the loss of datagrams that were sent at a rate.
func perPacket(rate float64, sent traffic.Sent, count traffic.Count, cpu usage) (metrics, error) {
	if count.Datagrams == 0 {
		return nil, errors.New("no datagram arrived")
	}
	return metrics{
		unitPacketCPU: float64(cpu.total()) / float64(count.Datagrams),
		unitLoss:      trialOf(rate, sent, int(count.Datagrams)).Loss(),
	}, nil
}

// fixedRate measures the cost of a datagram at a rate that every subject can carry.
func (r *Rig) fixedRate(p *setting, b traffic.Blast) (metrics, error) {
	b.To = p.sees(p.b, 0)
	sent, count, cpu, err := r.datagrams(p, p.a.pod, p.b.pod, b)
	if err != nil {
		return nil, err
	}
	m, err := perPacket(b.Rate, sent, count, cpu)
	if err == nil {
		m[unitPacketRate] = float64(count.Datagrams) / b.Duration.Seconds()
	}
	return m, err
}

// podBurst is how many datagrams a pod sends at once.
const podBurst = 16

func (r *Rig) roundTrips(p *setting, connections int, d time.Duration) (metrics, error) {
	var l traffic.Latencies
	_, cpu, err := r.during(p, p.a.pod, p.b.pod, func(sender *end) (err error) {
		l, err = sender.RoundTrips(traffic.RoundTrips{To: p.sees(p.b, 0), Connections: connections, Size: 64, Duration: d})
		return err
	})
	if err != nil {
		return nil, err
	}
	m := quantiles(l)
	m[unitRate] = float64(l.Count) / l.Elapsed.Seconds()
	m["CPU-ns/transaction"] = float64(cpu.total()) / float64(l.Count)
	return m, nil
}

func quantiles(l traffic.Latencies) metrics {
	return metrics{
		unitP50: float64(l.P50), "p90-ns": float64(l.P90), unitP99: float64(l.P99),
		"p99.9-ns": float64(l.P999), unitLongest: float64(l.Max),
	}
}

// firstPackets measures the cost of a new flow compared with a known one.
func (r *Rig) firstPackets(p *setting, d time.Duration) (metrics, error) {
	sender, _, err := r.twoEnds(p, p.a.pod, p.b.pod)
	if err != nil {
		return nil, err
	}
	f, err := sender.FirstPackets(traffic.FirstPackets{To: p.sees(p.b, 0), Duration: d})
	if err != nil {
		return nil, err
	}
	return metrics{
		"new-p50-ns": float64(f.New.P50), "known-p50-ns": float64(f.Known.P50),
		unitExtra: float64(f.Extra),
	}, nil
}

// hop measures UDP as tunnels send it, from one namespace to another without a gateway: the
// cost of one crossing of sockets per payload of the TCP in it.
func (r *Rig) hop(p *setting, from, to *namespace, address netip.Addr, d time.Duration) (metrics, error) {
	sent, count, cpu, err := r.datagrams(p, from, to, traffic.Blast{
		To: address, Sizes: []int{crossingSize}, Rate: crossingRate, Duration: d, Burst: crossingBurst, Segment: true,
	})
	if err != nil {
		return nil, err
	}
	m, err := perPacket(crossingRate, sent, count, cpu)
	if err != nil {
		return nil, err
	}
	return metrics{unitCPU: m[unitPacketCPU] / segmentPayload, unitLoss: m[unitLoss]}, nil // ns per byte are s per GB
}
