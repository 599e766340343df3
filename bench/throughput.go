package bench

import (
	"context"
	"errors"
	"fmt"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/bench/traffic"
)

// flowsAtOnce is how many flows the packets of a throughput test belong to.
const flowsAtOnce = 16

// searchStart is where searches begin, packets per second: little for any path.
const searchStart = 50_000

// load is what a throughput test offers.
type load struct {
	sizes   []int // of packets, taken in turn
	version int   // of IP
	offload bool  // at nodes
}

// throughput searches the highest rates without loss (NDR) and with a loss of at
// most 0.5 % (PDR), and says what the whole process takes of the CPU at 0.9 PDR.
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
			return nil, tooBusy{fmt.Errorf("every rate lost more than %v of its packets: the machine is too busy; end what else runs, or leave this test out with --run", measure.PDR)}
		}
		cost, err := x.price(trial, 0.9*pdr, meanSize)
		if err != nil {
			return nil, err
		}
		cost["ndr-pkts/s"], cost["pdr-pkts/s"], cost["pdr-bit/s"] = ndr, pdr, 8*pdr*meanSize
		return cost, nil
	}
}

// datagrams are one for each size and flow, and the mean size in bytes of IP
// packet.
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

// pricings is how many rates may bring nothing until there is no price.
const pricings = 8

// price says what carrying packets takes of the CPU, at a rate that has passed. On
// a machine that has become busier since, nothing may arrive of it: then half of it
// has to do, and so on.
func (x *ends) price(trial func(float64) (measure.Trial, error), rate, size float64) (map[string]float64, error) {
	for range pricings {
		before, err := measure.UsageNow()
		if err != nil {
			return nil, err
		}
		t, err := trial(rate)
		if err != nil {
			return nil, err
		}
		after, err := measure.UsageNow()
		if err != nil {
			return nil, err
		}
		if t.Received > 0 {
			used := after.Since(before)
			return map[string]float64{
				"CPU-ns/pkt": float64(used.CPU) / float64(t.Received),
				"CPU-s/GB":   used.PerGB(float64(t.Received) * size),
			}, nil
		}
		rate /= 2
	}
	return nil, tooBusy{fmt.Errorf("nothing arrived at %.0f packets per second, far less than what had passed: the machine is too busy; end what else runs, or leave this test out with --run", 2*rate)}
}
