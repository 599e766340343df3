package model

import (
	"errors"
	"math"
	"slices"

	"strait.dev/strait/bench/result"
)

// Row is a prediction for one load in one direction.
type Row struct {
	Load     string  `json:"load"`
	Mode     string  `json:"mode"`
	Gateways int     `json:"gateways"` // of the peering, at each end
	Lanes    int     `json:"lanes"`    // links of each gateway that carry packets at the same time
	Cores    int     `json:"cores"`    // of each gateway
	Packets  float64 `json:"packets"`  // per second
	Bits     float64 `json:"bits"`     // of IP packets, per second
	Bound    string  `json:"bound"`    // the limiting resource
}

// Check is the model's prediction for the measured machine, generator included, next to the
// measurement.
type Check struct {
	Load      string  `json:"load"`
	Mode      string  `json:"mode"`
	Cores     int     `json:"cores"`
	Predicted float64 `json:"predicted"` // packets per second
	Measured  float64 `json:"measured"`  // packets per second, with at most 0.5 % loss
}

// Prediction is the result of the model for a run.
type Prediction struct {
	Machine    result.Machine `json:"machine"`
	Command    string         `json:"command"`    // command line of the run
	LineRate   float64        `json:"lineRate"`   // of each gateway's network card, bit/s
	Efficiency float64        `json:"efficiency"` // the usable fraction of all cores
	Costs      []Cost         `json:"costs"`
	Rows       []Row          `json:"rows"`
	Check      []Check        `json:"check"`
}

// scales are the scales of the rows: more cores, then more lanes, then more gateways.
var scales = []struct{ gateways, lanes, cores int }{
	{1, 1, 1}, {1, 1, 2}, {1, 1, 4}, {1, 1, 8}, {1, 1, 16},
	{1, 2, 16}, {1, 4, 16}, {1, 8, 16}, {1, 16, 16},
	{2, 1, 4}, {4, 1, 4}, {8, 1, 4},
	{2, 1, 16}, {4, 1, 16}, {8, 1, 16},
}

// Predict computes all rows from a run, for network cards with a line rate in bit/s. It
// returns an error if the run lacks figures.
func Predict(r *result.Run, lineRate float64) (*Prediction, error) {
	if lineRate <= 0 || math.IsNaN(lineRate) {
		return nil, errors.New("the line rate must be greater than 0")
	}
	if r.Machine.GOMAXPROCS < 1 {
		return nil, errors.New("the run does not state the number of cores: measure again with: " + command)
	}
	p := &Prediction{Machine: r.Machine, Command: r.Command, LineRate: lineRate}
	f := figuresOf(r)
	for _, l := range loads {
		for _, mode := range modes {
			c, err := costOf(f, l, mode)
			if err != nil {
				return nil, err
			}
			p.Costs = append(p.Costs, c)
		}
	}
	if err := f.complete(); err != nil {
		return nil, err
	}
	p.Efficiency = efficiency(p.Costs, r.Machine.GOMAXPROCS)
	for i := range p.Costs {
		c := &p.Costs[i]
		for _, s := range scales {
			p.Rows = append(p.Rows, p.row(c, s.gateways, s.lanes, s.cores))
		}
		p.Check = append(p.Check, Check{
			Load: c.Load, Mode: c.Mode, Cores: r.Machine.GOMAXPROCS,
			Predicted: c.here(r.Machine.GOMAXPROCS, p.Efficiency), Measured: c.Measured,
		})
	}
	return p, nil
}

// row predicts one load at one scale.
func (p *Prediction) row(c *Cost, gateways, lanes, cores int) Row {
	stage, side := c.slowest(), c.dearer()
	bounds := []struct {
		rate float64 // packets per second of one gateway
		name string
	}{
		{float64(lanes) * second / stage.CPU, "serial stage: " + stage.Name},
		{float64(cores) * p.Efficiency * second / side.CPU, "CPU: " + side.Name},
		{p.LineRate / c.load.lineBits(), "line rate"},
	}
	lowest := bounds[0]
	for _, b := range bounds[1:] {
		if b.rate < lowest.rate {
			lowest = b
		}
	}
	rate := float64(gateways) * lowest.rate
	return Row{
		Load: c.Load, Mode: c.Mode, Gateways: gateways, Lanes: lanes, Cores: cores,
		Packets: rate, Bits: 8 * rate * c.load.bytes(), Bound: lowest.name,
	}
}

// second is one second in nanoseconds.
const second = 1e9

// here predicts the packets per second of a machine that runs the generator and both
// gateways on its cores.
func (c *Cost) here(cores int, efficiency float64) float64 {
	return min(float64(cores)*efficiency*second/c.Whole, second/c.slowest().CPU)
}

// efficiency returns the fraction of its cores that the machine of the run reached: the
// median of all loads, at most 1.
func efficiency(costs []Cost, cores int) float64 {
	var reached []float64
	for i := range costs {
		reached = append(reached, costs[i].Measured/costs[i].here(cores, 1))
	}
	slices.Sort(reached)
	n := len(reached)
	return min(1, (reached[(n-1)/2]+reached[n/2])/2)
}
