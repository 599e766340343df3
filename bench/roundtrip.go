package bench

import (
	"context"
	"errors"
	"maps"

	"strait.dev/strait/bench/traffic"
)

const (
	questionRate = 1000 // per second
	questionSize = 64   // bytes of IP packet
)

// roundTrip asks questions, over IP of a version, at a constant rate and records how
// long after their moment answers come. With fresh every question is the first packet of a flow,
// from a source and a port that were never seen before.
func roundTrip(open opener, version int, fresh bool) func(context.Context, effort) (map[string]float64, error) {
	return func(ctx context.Context, e effort) (_ map[string]float64, err error) {
		x, err := open(ctx, false)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, x.close()) }()
		echo, err := traffic.NewEcho(x.far, x.back, x.turn)
		if err != nil {
			return nil, err
		}
		defer echo.Close()
		answers, err := x.path.Probe(x.questions(version, e.questions, fresh), questionRate, e.questions)
		if err != nil {
			return nil, err
		}
		metrics, err := answers.Latencies.Metrics()
		if err != nil {
			return nil, tooBusy{err}
		}
		late, err := answers.Lateness.Metrics()
		if err != nil {
			return nil, err
		}
		maps.Copy(metrics, map[string]float64{"loss": answers.Lost, "late-p50-ns": late["p50-ns"]})
		return metrics, nil
	}
}

// questions are made before the first is asked, so that asking one of a new flow
// costs what asking one of a known flow does.
func (x *ends) questions(version, count int, fresh bool) func(int) []byte {
	if !fresh {
		known := x.build(conversation(version, 30000), questionSize)
		return func(int) []byte { return known }
	}
	all := make([][]byte, count)
	for i := range all {
		f := conversation(version, uint16(1024+i))
		f.src = offset(f.src, i%200)
		all[i] = x.build(f, questionSize)
	}
	return func(i int) []byte { return all[i] }
}
