package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/bench/traffic"
)

// lanes sends a rate, in packets per second, through independent pairs of gateways, an
// equal part through each at the same time, and measures the process's CPU time per packet.
// With more pairs each has smaller batches, which costs more. The cost of what pairs share
// is the extra cost of two pairs over one at the rate of each.
func lanes(pairs int, rate float64, l load) func(context.Context, effort) (map[string]float64, error) {
	return func(ctx context.Context, e effort) (_ map[string]float64, err error) {
		var all []*lane
		defer func() {
			for _, one := range all {
				err = errors.Join(err, one.close())
			}
		}()
		for range pairs {
			one, err := openLane(ctx, l, e)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		before, err := measure.UsageNow()
		if err != nil {
			return nil, err
		}
		wanted, received := carry(all, rate/float64(pairs), e)
		after, err := measure.UsageNow()
		if err != nil {
			return nil, err
		}
		if received == 0 {
			return nil, tooBusy{fmt.Errorf("nothing arrived at %.0f packets per second: the machine is too busy; stop other processes, or exclude this test with --run", rate)}
		}
		return map[string]float64{
			"CPU-ns/pkt": float64(after.Since(before).CPU) / float64(received),
			"loss":       1 - float64(received)/float64(wanted),
		}, nil
	}
}

// lane is one pair of gateways and its load.
type lane struct {
	*ends
	counter   *traffic.Counter
	datagrams [][]byte
}

func openLane(ctx context.Context, l load, e effort) (*lane, error) {
	x, err := throughGateways(ctx, l.offload)
	if err != nil {
		return nil, err
	}
	x.path.Quiet = e.quiet
	counter, err := traffic.NewCounter(x.far)
	if err != nil {
		return nil, errors.Join(err, x.close())
	}
	datagrams, _ := x.datagrams(l)
	return &lane{x, counter, datagrams}, nil
}

func (l *lane) close() error {
	l.counter.Close()
	return l.ends.close()
}

// carry offers a rate to every lane at the same time.
func carry(all []*lane, rate float64, e effort) (wanted, received int) {
	trials := make([]measure.Trial, len(all))
	var carrying sync.WaitGroup
	for i, one := range all {
		carrying.Go(func() { trials[i] = one.path.Trial(one.datagrams, rate, e.transfer, one.counter) })
	}
	carrying.Wait()
	for _, t := range trials {
		wanted += t.Wanted
		received += t.Received
	}
	return wanted, received
}
