package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp/syntax"

	"github.com/spf13/cobra"

	"strait.dev/strait/bench/report"
	"strait.dev/strait/bench/result"
	"strait.dev/strait/operate/benchmark"
)

type benchFlags struct {
	tests, output, file, html string
	repetitions               int
	quick, list               bool
	peering                   benchPeering
}

func newBench() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the throughput and latency of gateways",
		Long: `Measure gateways on this machine, layer by layer: from single functions and UDP sockets
on loopback to two whole gateways with their nodes. The command needs no privilege and
no cluster, changes nothing on the machine, and takes less than three minutes.

Every test is repeated, and the order of tests is reversed each time. The result is the
median with the spread of the repetitions: other load on the machine distorts it.

With --peering the command measures a Peering between two clusters instead: with pods in
both clusters, compared with two pods of one cluster, and with the CPU time of the
gateways' processes. It needs access to both clusters, and runs pods in temporary
namespaces.`,
		Example: `  strait bench
  strait bench --run throughput
  strait bench -n 10 -o json --file new.json
  strait bench compare old.json new.json
  strait bench -o benchstat > new.txt && benchstat old.txt new.txt
  strait bench --peering b --context a --remote-context b --html peering.html`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	c.Flags().StringVar(&f.tests, "run", "", "measure only the tests whose name matches this regular expression; see --list")
	c.Flags().IntVarP(&f.repetitions, "repetitions", "n", result.Enough, fmt.Sprintf("number of repetitions; a comparison needs %d", result.Enough))
	c.Flags().BoolVar(&f.quick, "quick", false, "measure briefly, to see that it works; the figures are unreliable")
	c.Flags().BoolVar(&f.list, "list", false, "list the tests instead of measuring")
	outputFlag(c, &f.output, "benchstat")
	c.Flags().StringVarP(&f.file, "file", "f", "", "file to write the result to (default: standard output)")
	c.Flags().StringVar(&f.html, "html", "", "file to write a report to, in addition: one HTML page with plots")
	f.peering.register(c)
	c.AddCommand(newBenchCompare(), newBenchReport(), newBenchPeer())
	return c
}

func (f *benchFlags) run(cmd *cobra.Command) error {
	if f.repetitions < 1 {
		return wrongUsage(cmd, "-n %d: give 1 or more", f.repetitions)
	}
	if f.list {
		return f.printTests(cmd)
	}
	if err := cmp.Or(checkWritable("--file", f.file), checkWritable("--html", f.html)); err != nil {
		return err
	}
	ctx := cmd.Context()
	if flag := f.peering.given(cmd); f.peering.name == "" && flag != "" {
		return wrongUsage(cmd, "--%s needs --peering: name the Peering", flag)
	}
	measure := f.measureHere
	if f.peering.name != "" {
		measure = f.measurePeering
	}
	r, failed := measure(ctx, cmd)
	if r == nil {
		return failed
	}
	return errors.Join(failed, f.write(cmd.OutOrStdout(), r))
}

// printTests lists the tests. It contacts no cluster.
func (f *benchFlags) printTests(cmd *cobra.Command) error {
	names := benchmark.List()
	if f.peering.name == "" {
		var err error
		if names, err = f.testsHere(cmd); err != nil {
			return err
		}
	}
	switch f.output {
	case "table":
		for _, name := range names {
			fmt.Fprintln(cmd.OutOrStdout(), name)
		}
		return nil
	case "benchstat":
		return wrongUsage(cmd, "-o benchstat is for results: choose %s for --list", choice(formats))
	}
	return printAs(cmd.OutOrStdout(), f.output, names)
}

func (f *benchFlags) write(stdout io.Writer, r *result.Run) error {
	write := func(w io.Writer) error {
		switch f.output {
		case "table":
			_, err := fmt.Fprintf(w, "%s\n\n", r.Machine)
			return errors.Join(err, result.Table(w, result.Medians(r.Samples)))
		case "benchstat":
			return result.WriteBenchstat(w, r)
		}
		return printAs(w, f.output, r)
	}
	var err error
	if f.file == "" {
		err = write(stdout)
	} else {
		err = result.WriteFile(f.file, write)
	}
	if f.html != "" {
		err = errors.Join(err, result.WriteFile(f.html, func(w io.Writer) error { return report.HTML(w, r) }))
	}
	return err
}

// wrongPattern is the error of a regular expression, without the package's own prefix.
func wrongPattern(err error) error {
	var at *syntax.Error
	if errors.As(err, &at) {
		return fmt.Errorf("is not a regular expression: %s at %q", at.Code, at.Expr)
	}
	return err
}
