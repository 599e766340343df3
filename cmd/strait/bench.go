package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/bench"
	"strait.dev/strait/bench/report"
	"strait.dev/strait/bench/result"
)

// benchFlags are what `strait bench` is told.
type benchFlags struct {
	tests, output, out, html string
	repetitions              int
	quick, list              bool
	peering                  benchPeering
}

func newBench() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure gateways on this machine, without root and without a cluster",
		Long: `Measure gateways on this machine, layer by layer: from one function over UDP
sockets on loopback to two whole gateways with their nodes. It needs no privilege,
changes nothing on the machine, and takes less than three minutes.

Every test is repeated, and the order of tests is reversed each time. Medians are
shown, with how far the repetitions lie apart: on a machine that does something
else as well, figures are worth little.

With --peering it measures a Peering between two real clusters instead: with pods on
both sides of it, beside two pods of one cluster, and with what the gateways' processes
take of the CPU on either side. It needs access to both clusters, makes its pods in
namespaces of their own, and removes them.`,
		Example: `  strait bench
  strait bench --run throughput
  strait bench -n 10 -o json --out new.json
  strait bench compare old.json new.json
  strait bench -o benchstat > new.txt && benchstat old.txt new.txt
  strait bench --peering b --context a --remote-context b --html peering.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	c.Flags().StringVar(&f.tests, "run", "", "measure only tests whose name matches this regular expression; see --list")
	c.Flags().IntVarP(&f.repetitions, "repetitions", "n", result.Enough, fmt.Sprintf("how often everything is measured; a comparison needs %d", result.Enough))
	c.Flags().BoolVar(&f.quick, "quick", false, "measure briefly, to see that it works; the figures are worth little")
	c.Flags().BoolVar(&f.list, "list", false, "list the tests instead of measuring")
	c.Flags().StringVarP(&f.output, "output", "o", "text", "text, json or benchstat")
	c.Flags().StringVar(&f.out, "out", "", "write to this file instead of standard output")
	c.Flags().StringVar(&f.html, "html", "", "write a report to this file too: one page with plots, for a browser")
	f.peering.register(c)
	c.AddCommand(newBenchCompare(), newBenchReport(), newBenchModel(), newBenchPeer())
	return c
}

// benchFormats write a run.
var benchFormats = map[string]func(io.Writer, *result.Run) error{
	"text": func(w io.Writer, r *result.Run) error {
		if _, err := fmt.Fprintf(w, "%s\n\n", r.Machine); err != nil {
			return err
		}
		return result.Table(w, result.Medians(r.Samples))
	},
	"json":      result.Write,
	"benchstat": result.WriteBenchstat,
}

func (f *benchFlags) run(cmd *cobra.Command) error {
	format, ok := benchFormats[f.output]
	if !ok {
		return benchUsage("-o %s: no such format; choose text, json or benchstat", f.output)
	}
	if f.repetitions < 1 {
		return benchUsage("-n %d: measure once at least", f.repetitions)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if flag := f.peering.given(cmd); f.peering.name == "" && flag != "" {
		return benchUsage("--%s is for --peering; name the Peering", flag)
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
	if f.list {
		for _, t := range tests {
			fmt.Fprintln(cmd.OutOrStdout(), t)
		}
		return nil
	}
	b := thisBuild()
	r := result.New(strings.Join(append([]string{"strait"}, os.Args[1:]...), " "), result.ThisMachine(strings.TrimSpace(b.Version+" "+b.Revision)), time.Now())
	p := &benchProgress{to: cmd.ErrOrStderr(), terminal: isTerminal(cmd.ErrOrStderr())}
	failed := bench.Run(ctx, r, tests, bench.Options{Repetitions: f.repetitions, Quick: f.quick}, p)
	p.clear()
	if ctx.Err() != nil {
		failed = errors.New("interrupted: not everything was measured as often as asked")
	}
	if len(r.Samples) == 0 {
		return failed
	}
	return errors.Join(failed, f.write(cmd.OutOrStdout(), format, r))
}

// chosen are the tests to take.
func (f *benchFlags) chosen() ([]bench.Test, error) {
	pattern, err := regexp.Compile(f.tests)
	if err != nil {
		return nil, benchUsage("--run %s: %v", f.tests, err)
	}
	tests := bench.Matching(bench.Ladder(), pattern)
	if len(tests) == 0 {
		return nil, benchUsage("--run %s: no test has such a name; strait bench --list shows all", f.tests)
	}
	return tests, nil
}

func (f *benchFlags) write(stdout io.Writer, format func(io.Writer, *result.Run) error, r *result.Run) error {
	write := func(w io.Writer) error { return format(w, r) }
	var err error
	if f.out == "" {
		err = write(stdout)
	} else {
		err = result.WriteFile(f.out, write)
	}
	if f.html != "" {
		err = errors.Join(err, result.WriteFile(f.html, func(w io.Writer) error { return report.HTML(w, r) }))
	}
	return err
}

func benchUsage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...), "strait bench --help"}
}

// benchProgress shows how far a run is: on a terminal one line that changes, else
// one line for each repetition.
type benchProgress struct {
	to       io.Writer
	terminal bool
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
	case p.terminal:
		fmt.Fprintf(p.to, "\r\x1b[K%d/%d %s%s", done+1, of, t, left)
	case repetition != p.last:
		fmt.Fprintf(p.to, "repetition %d%s\n", repetition, left)
		p.last = repetition
	}
}

// clear takes the changing line away.
func (p *benchProgress) clear() {
	if p.terminal {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
