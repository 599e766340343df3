package bench

import (
	"context"
	"errors"
	"fmt"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/bench/traffic"
)

// flowsAtOnce is the number of flows in a throughput test.
const flowsAtOnce = 16

// searchStart is the rate in packets per second at which searches begin: low for any path.
const searchStart = 50_000

// load is the offered load of a throughput test.
type load struct {
	sizes   []int // of packets, in turn
	version int   // of IP
	offload bool  // of nodes
}

// throughput searches the highest rates without loss (NDR) and with at most 0.5 % loss
// (PDR), and measures the CPU time of the whole process at 0.9 PDR.
func throughput(open opener, l load) func(context.Context, effort) (map[string]float64, error) {
	return func(ctx context.Context, e effort) (_ map[string]float64, err error) {
		x, err := open(ctx, l.offload)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, x.close()) }()
		counter, err := traffic.NewCounter(x.far)
		if err != nil {
			return nil, err
		}
		defer counter.Close()
		datagrams, meanSize := x.datagrams(l)
		x.path.Quiet = e.quiet

		trial := func(rate float64) (measure.Trial, error) {
			if ctx.Err() != nil {
				return measure.Trial{}, context.Cause(ctx)
			}
			return x.path.Trial(datagrams, rate, e.trial, counter), nil
		}
		limits := measure.Limits{Start: searchStart, Resolution: e.precision, Trials: e.trials, Attempts: 2}
		found, err := measure.Search([]float64{measure.PDR, measure.NDR}, limits, trial)
		if err != nil {
			return nil, err
		}
		pdr, ndr := found[0], found[1]
		if pdr == 0 {
			return nil, tooBusy{fmt.Errorf("every rate lost more than %v of its packets: the machine is too busy; stop other processes, or exclude this test with --run", measure.PDR)}
		}
		cost, err := x.price(trial, 0.9*pdr, meanSize)
		if err != nil {
			return nil, err
		}
		cost["ndr-pkts/s"], cost["pdr-pkts/s"], cost["pdr-bit/s"] = ndr, pdr, 8*pdr*meanSize
		return cost, nil
	}
}

// datagrams returns one datagram per size and flow, and their mean size in bytes.
func (x *ends) datagrams(l load) (all [][]byte, mean float64) {
	for i := range flowsAtOnce {
		f := conversation(l.version, uint16(20000+i))
		for _, size := range l.sizes {
			all = append(all, x.build(f, size))
			mean += float64(size)
		}
	}
	return all, mean / float64(len(all))
}

// pricings is how many rates are tried before the price is given up.
const pricings = 8

// price measures the CPU time per packet at a rate that has passed before. If the machine
// has become busier since, nothing may arrive; then it tries half the rate, and so on.
func (x *ends) price(trial func(float64) (measure.Trial, error), rate, size float64) (map[string]float64, error) {
	for range pricings {
		before, err := measure.CPUTime()
		if err != nil {
			return nil, err
		}
		t, err := trial(rate)
		if err != nil {
			return nil, err
		}
		after, err := measure.CPUTime()
		if err != nil {
			return nil, err
		}
		if t.Received > 0 {
			used := after - before
			return map[string]float64{
				"CPU-ns/pkt": float64(used) / float64(t.Received),
				"CPU-s/GB":   measure.PerGB(used, float64(t.Received)*size),
			}, nil
		}
		rate /= 2
	}
	return nil, tooBusy{fmt.Errorf("nothing arrived at %.0f packets per second, far below the rate that passed before: the machine is too busy; stop other processes, or exclude this test with --run", 2*rate)}
}
