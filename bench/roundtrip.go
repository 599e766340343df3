package bench

import (
	"context"
	"errors"
	"maps"

	"strait.dev/strait/bench/traffic"
)

const (
	requestRate = 1000 // per second
	requestSize = 64   // bytes of IP packet
)

// roundTrip sends requests over the given IP version at a constant rate and records the
// time from when a request was due to its response. With fresh, every request is the first
// packet of a flow, from an unused source address and port.
func roundTrip(open opener, version int, fresh bool) func(context.Context, effort) (map[string]float64, error) {
	return func(ctx context.Context, e effort) (_ map[string]float64, err error) {
		x, err := open(ctx, false)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, x.close()) }()
		echo, err := traffic.NewEcho(x.far, x.back, x.makeResponse)
		if err != nil {
			return nil, err
		}
		defer echo.Close()
		responses, err := x.path.Probe(x.requests(version, e.requests, fresh), requestRate, e.requests)
		if err != nil {
			return nil, err
		}
		metrics, err := responses.Latencies.Metrics()
		if err != nil {
			return nil, tooBusy{err}
		}
		late, err := responses.Lateness.Metrics()
		if err != nil {
			return nil, err
		}
		maps.Copy(metrics, map[string]float64{"loss": responses.Lost, "late-p50-ns": late["p50-ns"]})
		return metrics, nil
	}
}

// requests are built before the first is sent, so that sending one of a new flow costs the
// same as sending one of a known flow.
func (x *ends) requests(version, count int, fresh bool) func(int) []byte {
	if !fresh {
		known := x.build(conversation(version, 30000), requestSize)
		return func(int) []byte { return known }
	}
	all := make([][]byte, count)
	for i := range all {
		f := conversation(version, uint16(1024+i))
		f.src = offset(f.src, i%200)
		all[i] = x.build(f, requestSize)
	}
	return func(i int) []byte { return all[i] }
}
