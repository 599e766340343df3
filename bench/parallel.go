package bench

import (
	"context"
	"errors"
	"maps"

	"strait.dev/strait/bench/traffic"
)

// requestResponse keeps that many requests in flight at all times, each of a separate flow,
// and measures the responses per second and their latency.
func requestResponse(open opener, parallel int) func(context.Context, effort) (map[string]float64, error) {
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
		requests := make([][]byte, parallel)
		for i := range requests {
			requests[i] = x.build(conversation(4, uint16(31000+i)), requestSize)
		}
		t, err := x.path.Loops(requests, e.transfer)
		if err != nil {
			return nil, err
		}
		metrics, err := t.Latencies.Metrics()
		if err != nil {
			return nil, tooBusy{err}
		}
		maps.Copy(metrics, map[string]float64{"transactions/s": t.Rate, "loss": t.Lost})
		return metrics, nil
	}
}
