package model

import (
	"fmt"
	"io"
	"text/tabwriter"

	"strait.dev/strait/bench/result"
)

// Text writes a prediction as text: its input, the costs of the stages, the rows, and the
// check.
func Text(to io.Writer, p *Prediction) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "measured on: %s\nwith: %s\n", p.Machine, p.Command)
	fmt.Fprintf(w, "line rate: %s; efficiency: %.2f of the cores\n", result.Format(p.LineRate, "bit/s"), p.Efficiency)

	fmt.Fprint(w, "\nCPU time per packet of each stage, including its share of the hand-offs; * = one goroutine per link\n\n")
	fmt.Fprint(w, "LOAD\tMODE")
	for _, side := range p.Costs[0].Sides {
		for _, s := range side.Stages {
			fmt.Fprintf(w, "\t%s%s", s.Name, map[bool]string{true: " *"}[s.Serial])
		}
	}
	fmt.Fprintln(w, "\tEGRESS\tINGRESS\tHAND-OFFS")
	for _, c := range p.Costs {
		fmt.Fprintf(w, "%s\t%s", c.Load, c.Mode)
		for _, side := range c.Sides {
			for _, s := range side.Stages {
				fmt.Fprintf(w, "\t%s", ns(s.CPU))
			}
		}
		fmt.Fprintf(w, "\t%s\t%s\t%s\n", ns(c.Sides[0].CPU), ns(c.Sides[1].CPU), ns(c.HandOffs))
	}

	fmt.Fprint(w, "\nOne direction; all gateways have the same number of cores\n\n")
	fmt.Fprintln(w, "LOAD\tMODE\tGATEWAYS\tLANES\tCORES\tPACKETS\tTHROUGHPUT\tBOUND BY")
	for _, r := range p.Rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", r.Load, r.Mode, r.Gateways, r.Lanes, r.Cores,
			result.Format(r.Packets, "pkts/s"), result.Format(r.Bits, "bit/s"), r.Bound)
	}

	fmt.Fprint(w, "\nThis machine: generator and both gateways on all of its cores\n\n")
	fmt.Fprintln(w, "LOAD\tMODE\tCORES\tMODEL\tMEASURED\tMODEL / MEASURED")
	for _, c := range p.Check {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%.2f\n", c.Load, c.Mode, c.Cores,
			result.Format(c.Predicted, "pkts/s"), result.Format(c.Measured, "pkts/s"), c.Predicted/c.Measured)
	}
	return w.Flush()
}

func ns(v float64) string { return result.Format(v, "ns") }
