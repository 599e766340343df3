package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/bench"
	"strait.dev/strait/bench/report"
	"strait.dev/strait/bench/result"
	"strait.dev/strait/operate/benchmark"
)

// benchFlags holds the flags of `strait bench`.
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

// benchFormats are the functions that write a run in an output format.
var benchFormats = map[string]func(io.Writer, *result.Run) error{
	"table": func(w io.Writer, r *result.Run) error {
		if _, err := fmt.Fprintf(w, "%s\n\n", r.Machine); err != nil {
			return err
		}
		return result.Table(w, result.Medians(r.Samples))
	},
	"json": result.Write,
	"yaml": func(w io.Writer, r *result.Run) error {
		return asYAML(w, func(w io.Writer) error { return result.Write(w, r) })
	},
	"benchstat": result.WriteBenchstat,
}

func (f *benchFlags) run(cmd *cobra.Command) error {
	if err := checkOutput(cmd, f.output); err != nil {
		return err
	}
	format := benchFormats[f.output]
	if f.repetitions < 1 {
		return benchUsage("-n %d: give 1 or more", f.repetitions)
	}
	if f.list {
		return f.printTests(cmd)
	}
	if err := cmp.Or(checkWritable("--file", f.file), checkWritable("--html", f.html)); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	if flag := f.peering.given(cmd); f.peering.name == "" && flag != "" {
		return benchUsage("--%s needs --peering: name the Peering", flag)
	}
	if f.peering.name != "" {
		r, failed := f.peering.measure(ctx, cmd, f)
		if r == nil {
			return failed
		}
		return errors.Join(failed, f.write(cmd.OutOrStdout(), format, r))
	}
	tests, err := f.chosen()
	if err != nil {
		return err
	}
	b := thisBuild()
	r := result.New(strings.Join(append([]string{"strait"}, os.Args[1:]...), " "), result.ThisMachine(strings.TrimSpace(b.Version+" "+b.Revision)), time.Now())
	p := &benchProgress{to: cmd.ErrOrStderr(), terminal: terminalOf(cmd.ErrOrStderr())}
	failed := bench.Run(ctx, r, tests, bench.Options{Repetitions: f.repetitions, Quick: f.quick}, p)
	p.clear()
	if ctx.Err() != nil {
		failed = errors.New("interrupted: some tests have fewer repetitions than -n")
	}
	if len(r.Samples) == 0 {
		return failed
	}
	return errors.Join(failed, f.write(cmd.OutOrStdout(), format, r))
}

// printTests lists the tests. It contacts no cluster.
func (f *benchFlags) printTests(cmd *cobra.Command) error {
	names := benchmark.List()
	if f.peering.name == "" {
		tests, err := f.chosen()
		if err != nil {
			return err
		}
		names = nil
		for _, t := range tests {
			names = append(names, t.String())
		}
	}
	switch f.output {
	case "table":
		for _, name := range names {
			fmt.Fprintln(cmd.OutOrStdout(), name)
		}
		return nil
	case "benchstat":
		return benchUsage("-o benchstat is for results: choose %s for --list", choice(formats))
	}
	return printAs(cmd.OutOrStdout(), f.output, names)
}

// chosen returns the selected tests.
func (f *benchFlags) chosen() ([]bench.Test, error) {
	pattern, err := regexp.Compile(f.tests)
	if err != nil {
		return nil, benchUsage("--run %s: %w", f.tests, wrongPattern(err))
	}
	tests := bench.Matching(bench.Ladder(), pattern)
	if len(tests) == 0 {
		return nil, benchUsage("--run %s: no test matches; run strait bench --list for all names", f.tests)
	}
	return tests, nil
}

func (f *benchFlags) write(stdout io.Writer, format func(io.Writer, *result.Run) error, r *result.Run) error {
	write := func(w io.Writer) error { return format(w, r) }
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

func benchUsage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...), "strait bench --help"}
}

// benchProgress prints the progress of a run: on a terminal in one line that is rewritten,
// elsewhere in one line for each repetition.
type benchProgress struct {
	to       io.Writer
	terminal io.Writer // nil: none
	begun    time.Time
	last     int // repetition
}

// Begin implements bench.Watcher.
func (p *benchProgress) Begin(t bench.Test, repetition, done, of int) {
	if done == 0 {
		p.begun = time.Now()
	}
	left := ""
	if done > 0 {
		took := time.Since(p.begun)
		left = fmt.Sprintf(", about %v left", (took * time.Duration(of-done) / time.Duration(done)).Round(time.Second))
	}
	switch {
	case p.terminal != nil:
		p.clear()
		fmt.Fprintf(p.to, "%d/%d %s%s", done+1, of, t, left)
	case repetition != p.last:
		fmt.Fprintf(p.to, "repetition %d%s\n", repetition, left)
		p.last = repetition
	}
}

// clear removes the line from the terminal.
func (p *benchProgress) clear() {
	if p.terminal != nil {
		fmt.Fprint(p.terminal, "\r\x1b[K")
	}
}

// wrongPattern is the error of a regular expression, without the package's own prefix.
func wrongPattern(err error) error {
	var at *syntax.Error
	if errors.As(err, &at) {
		return fmt.Errorf("is not a regular expression: %s at %q", at.Code, at.Expr)
	}
	return err
}

// asYAML writes as YAML what a function writes as JSON.
func asYAML(w io.Writer, writeJSON func(io.Writer) error) error {
	var b bytes.Buffer
	if err := writeJSON(&b); err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(b.Bytes())
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
