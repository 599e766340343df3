package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"strait.dev/strait/bench/model"
	"strait.dev/strait/bench/result"
)

func newBenchModel() *cobra.Command {
	var output string
	var lineRate float64
	c := &cobra.Command{
		Use:   "model RUN.json",
		Short: "Predict what more cores, links and gateways carry, from a measured run",
		Long: `Predict what gateways carry that this machine has no cores for: one link on 1 to 16
cores, several links of a gateway as lanes, several gateways of a peering. The run,
written by "strait bench -o json", says what each stage of a link takes of the CPU;
the slowest stage that is one goroutine bounds a lane, the CPU and the network card
bound a gateway. Every row says which of them it is.

The last table says how far off the model is for the machine that was measured.`,
		Example: `  strait bench -o json --out run.json
  strait bench model run.json
  strait bench model run.json --line-rate 100`,
		Args: arguments("the file of a run"),
		RunE: func(cmd *cobra.Command, files []string) error {
			if output != "text" && output != "json" {
				return &usageError{fmt.Errorf("-o %s: no such format; choose text or json", output), cmd.CommandPath() + " --help"}
			}
			if !(lineRate > 0) {
				return &usageError{fmt.Errorf("--line-rate %v: a network card carries more than nothing", lineRate), cmd.CommandPath() + " --help"}
			}
			r, err := result.ReadFile(files[0])
			if err != nil {
				return err
			}
			p, err := model.Predict(r, lineRate*1e9)
			if err != nil {
				return fmt.Errorf("%s: %w", files[0], err)
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(p)
			}
			return model.Text(cmd.OutOrStdout(), p)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	c.Flags().Float64Var(&lineRate, "line-rate", 25, "what the network card of each gateway carries in one direction, Gbit/s")
	return c
}
