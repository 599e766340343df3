package benchmark

import (
	"context"
	"fmt"
	"strings"
	"time"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/bench/rig/traffic"
)

// Units of the figures, in addition to those of latencies and of loss searches.
const (
	unitThroughput = "bit/s"
	unitRate       = "transactions/s"
	// CPU time of the gateways' processes: of both sides together, and of each side. Per
	// 10^9 bytes of payload, and per packet.
	unitCPU, unitNearCPU, unitFarCPU             = "gateway-CPU-s/GB", "gateway-a-CPU-s/GB", "gateway-b-CPU-s/GB"
	unitPacketCPU, unitNearPacket, unitFarPacket = "gateway-CPU-ns/pkt", "gateway-a-CPU-ns/pkt", "gateway-b-CPU-ns/pkt"
)

// Test is one measurement.
type Test struct {
	Name    string // a path, as everywhere in benchmarks
	measure func(ctx context.Context, w *path, l durations) (map[string]float64, error)
}

type durations struct{ streams, trial, roundTrips time.Duration }

var (
	fullDurations  = durations{streams: 3 * time.Second, trial: time.Second, roundTrips: 3 * time.Second}
	quickDurations = durations{streams: time.Second, trial: 300 * time.Millisecond, roundTrips: time.Second}
)

const (
	warmUp      = 500 * time.Millisecond // of streams, before the measurement
	delivery    = 200 * time.Millisecond // for the last datagrams in transit
	burst       = 16                     // datagrams that a pod sends at once
	messageSize = 64                     // bytes of a request and of a response
)

// Tests returns all tests. Large datagrams have the MTU of the peering.
func Tests(mtu int) (all []Test) {
	add := func(name string, measure func(context.Context, *path, durations) (map[string]float64, error)) {
		all = append(all, Test{name, measure})
	}
	for _, streams := range []int{1, 4} {
		for _, back := range []bool{false, true} {
			direction := "a-to-b"
			if back {
				direction = "b-to-a"
			}
			add(fmt.Sprintf("tcp/streams=%d/direction=%s", streams, direction), func(ctx context.Context, w *path, l durations) (map[string]float64, error) {
				return w.streams(ctx, streams, back, l.streams)
			})
		}
	}
	for _, connections := range []int{1, 16} {
		add(fmt.Sprintf("request-response/connections=%d", connections), func(ctx context.Context, w *path, l durations) (map[string]float64, error) {
			return w.roundTrips(ctx, connections, l.roundTrips)
		})
	}
	for _, payload := range []int{messageSize, mtu - 28} { // IPv4 and UDP
		add(fmt.Sprintf("udp/payload=%d/loss-search", payload), func(ctx context.Context, w *path, l durations) (map[string]float64, error) {
			return w.packetRate(ctx, payload, l.trial)
		})
	}
	return all
}

// List returns the names of all tests of any peering: without a cluster its MTU is not known,
// and is MTU in a name.
func List() (names []string) {
	for _, t := range Tests(0) {
		names = append(names, strings.Replace(t.Name, "payload=-", "payload=MTU-", 1))
	}
	return names
}

// path is the path between the near pod and another one.
type path struct {
	near, other *end
	podEnd      podEnd
	costs       func(ctx context.Context) (near, far time.Duration, err error) // nil: no gateway on the path
}

// cost returns the CPU time that gateways use during a function.
func (w *path) cost(ctx context.Context, do func() error) (near, far time.Duration, err error) {
	if w.costs == nil {
		return 0, 0, do()
	}
	near1, far1, err := w.costs(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := do(); err != nil {
		return 0, 0, err
	}
	near2, far2, err := w.costs(ctx)
	return near2 - near1, far2 - far1, err
}

// streams measures TCP throughput. The bytes are counted at the receiver from before the
// first until after the last reading of the CPU time, so that both cover the same period.
func (w *path) streams(ctx context.Context, n int, back bool, d time.Duration) (m map[string]float64, err error) {
	from, to, address := w.near, w.other, w.podEnd.address
	if back {
		from, to, address = w.other, w.near, w.podEnd.nearAddress
	}
	if err := from.StartStreams(traffic.Streams{To: address, From: make([]traffic.Source, n)}); err != nil {
		_ = from.StopStreams() // those that were opened
		return nil, err
	}
	var count, all traffic.Count
	near, far, err := w.cost(ctx, func() error {
		begun, err := to.Count()
		if err != nil {
			return err
		}
		time.Sleep(warmUp)
		count, err = w.during(to, func() error { time.Sleep(d); return nil })
		if err != nil {
			return err
		}
		if err := from.StopStreams(); err != nil {
			return err
		}
		time.Sleep(delivery)
		last, err := to.Count()
		all = last.Since(begun)
		return err
	})
	if err != nil {
		_ = from.StopStreams()
		return nil, err
	}
	m = map[string]float64{unitThroughput: float64(count.Stream) * 8 / count.At.Seconds()}
	if w.costs != nil {
		gigabytes := float64(all.Stream) / 1e9
		m[unitCPU], m[unitNearCPU], m[unitFarCPU] = (near+far).Seconds()/gigabytes, near.Seconds()/gigabytes, far.Seconds()/gigabytes
	}
	return m, nil
}

// during returns what an end receives during a function.
func (w *path) during(to *end, do func() error) (traffic.Count, error) {
	before, err := to.Count()
	if err != nil {
		return before, err
	}
	if err := do(); err != nil {
		return before, err
	}
	after, err := to.Count()
	return after.Since(before), err
}

// roundTrips measures requests and responses over TCP.
func (w *path) roundTrips(_ context.Context, connections int, d time.Duration) (map[string]float64, error) {
	l, err := w.near.RoundTrips(traffic.RoundTrips{To: w.podEnd.address, Connections: connections, Size: messageSize, Duration: d})
	if err != nil {
		return nil, err
	}
	return map[string]float64{
		unitRate: float64(l.Count) / l.Elapsed.Seconds(),
		"p50-ns": float64(l.P50), "p90-ns": float64(l.P90), "p99-ns": float64(l.P99), "p99.9-ns": float64(l.P999), "max-ns": float64(l.Max),
	}, nil
}

// packetRate searches the highest rates without loss and with little loss, and measures the
// CPU time per packet near the latter.
func (w *path) packetRate(ctx context.Context, payload int, d time.Duration) (map[string]float64, error) {
	trial := func(rate float64) (measure.Trial, error) {
		var sent traffic.Sent
		count, err := w.during(w.other, func() (err error) {
			sent, err = w.near.Blast(traffic.Blast{To: w.podEnd.address, Sizes: []int{payload}, Rate: rate, Duration: d, Burst: burst})
			time.Sleep(delivery)
			return err
		})
		return measure.Trial{Rate: rate, Wanted: sent.Wanted, Sent: sent.Sent, Received: int(count.Datagrams)}, err
	}
	found, err := measure.Search([]float64{measure.NDR, measure.PDR}, measure.Limits{Start: 5_000, Resolution: 0.1, Trials: 24, Attempts: 2}, trial)
	if err != nil {
		return nil, err
	}
	m := map[string]float64{"ndr-pkts/s": found[0], "pdr-pkts/s": found[1]}
	if w.costs == nil || found[1] == 0 {
		return m, nil
	}
	var at measure.Trial
	near, far, err := w.cost(ctx, func() (err error) { at, err = trial(0.9 * found[1]); return err })
	if err != nil {
		return nil, err
	}
	if at.Received == 0 {
		return nil, fmt.Errorf("no datagram arrived at a rate that had passed before")
	}
	n := float64(at.Received)
	m[unitPacketCPU], m[unitNearPacket], m[unitFarPacket] = float64(near+far)/n, float64(near)/n, float64(far)/n
	return m, nil
}
