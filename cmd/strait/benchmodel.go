package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"strait.dev/strait/bench/model"
)

func newBenchModel() *cobra.Command {
	var output string
	var lineRate float64
	c := &cobra.Command{
		Use:   "model RUN.json",
		Short: "Predict the throughput of more cores, links and gateways",
		Long: `Predict the throughput of gateways on larger machines: one link on 1 to 16 cores, several
links of a gateway as lanes, several gateways of a peering. The input is a run of "strait
bench -o json", which has the CPU time of each stage of a link. The slowest stage that
runs in one goroutine limits a lane; the CPU and the network card limit a gateway. Every
row names its limit.

The last table shows the error of the model for the measured machine.`,
		Example: `  strait bench -o json --file run.json
  strait bench model run.json
  strait bench model run.json --line-rate 100`,
		Args: arguments("the file of a run"),
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := checkOutput(cmd, output); err != nil {
				return err
			}
			if !(lineRate > 0) {
				return &usageError{fmt.Errorf("--line-rate %v: give more than 0", lineRate), cmd.CommandPath() + " --help"}
			}
			r, err := readRun(files[0])
			if err != nil {
				return err
			}
			p, err := model.Predict(r, lineRate*1e9)
			if err != nil {
				return fmt.Errorf("%s: %w", files[0], err)
			}
			if output != "table" {
				return printAs(cmd.OutOrStdout(), output, p)
			}
			return model.Text(cmd.OutOrStdout(), p)
		},
	}
	outputFlag(c, &output)
	c.Flags().Float64Var(&lineRate, "line-rate", 25, "line rate of each gateway's network card in one direction, Gbit/s")
	return c
}
