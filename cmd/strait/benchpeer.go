//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/bench/rig"
	"strait.dev/strait/bench/rig/traffic"
)

type peerFlags struct {
	repetitions             int
	quick, list, all        bool
	tests, from, json, page string
	subjects, custom        []string
	wireGuardGo, baseline   string
}

func newBenchPeer() *cobra.Command {
	var f peerFlags
	c := &cobra.Command{
		Use:   "peer",
		Short: "Measure gateways against the kernel's data path (needs root)",
		Long: `Measure a pair of strait gateways on this kernel, in network namespaces, against the peer
P: the kernel's overlay device, prefix NAT by nftables and wireguard-go on a TUN device.
For comparison, limits of the same machine are measured: a plain route, an overlay alone,
WireGuard alone, the cipher alone, one UDP hop. All measurements are interleaved and
repeated; the result is a table of required and measured figures.

The command needs root, and removes everything that it creates. The default run takes
about ten minutes; any other run prints all of its figures.

--all adds tests: drop rates, latency at fixed rates, new flows and connections, many
flows, many streams, idle peerings; it takes about 25 minutes. --run and --subjects
select from the default tests; if none of those matches, from all tests. --list shows
which tests need --all.

--subject NAME=COMMAND adds other gateways. COMMAND creates them as root, stays in the
foreground, and removes them on SIGTERM. Its environment has, for A and likewise for B:

` + explainVariables(),
		Example: `  strait bench peer --wireguard-go bin/wireguard-go
  strait bench peer --quick --run nogro/tcp --subjects P,strait
  strait bench peer --run drop-rates
  strait bench peer --run wire --baseline strait.old --subjects strait,baseline
  strait bench peer --from result.json --report performance.md`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	c.Flags().IntVarP(&f.repetitions, "repetitions", "n", 5, "number of repetitions")
	c.Flags().BoolVar(&f.quick, "quick", false, "measure briefly and once, to see that it works")
	c.Flags().BoolVar(&f.list, "list", false, "list tests and subjects instead of measuring")
	c.Flags().BoolVar(&f.all, "all", false, "add the tests that are not in the default run")
	c.Flags().StringVar(&f.tests, "run", "", "measure only the tests whose MODE/NAME matches this regular expression")
	c.Flags().StringSliceVar(&f.subjects, "subjects", nil, "measure only these subjects, and those of --baseline and --subject")
	c.Flags().StringArrayVar(&f.custom, "subject", nil, "other gateways to measure, `NAME=COMMAND`; may be repeated")
	c.Flags().StringVar(&f.wireGuardGo, "wireguard-go", "wireguard-go", "wireguard-go binary of the peer; build it with: go build golang.zx2c4.com/wireguard")
	c.Flags().StringVar(&f.baseline, "baseline", "", "another strait binary to measure")
	c.Flags().StringVar(&f.from, "from", "", "`FILE` of an earlier result, to read instead of measuring")
	c.Flags().StringVar(&f.json, "json", "", "`FILE` to write the result to as JSON, for --from and strait bench compare")
	c.Flags().StringVar(&f.page, "report", "", "`FILE` to write the report to, as Markdown, with its plots in the folder images beside it")
	c.AddCommand(newTrafficEnd())
	return c
}

func explainVariables() string {
	var b strings.Builder
	for _, v := range rig.Variables {
		fmt.Fprintf(&b, "  %-20s %s\n", v[0], v[1])
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (f *peerFlags) run(cmd *cobra.Command) error {
	if f.list {
		return rig.List(cmd.OutOrStdout())
	}
	if err := cmp.Or(checkWritable("--json", f.json), checkWritable("--report", f.page)); err != nil {
		return err
	}
	measured, failed := f.measure(cmd)
	if measured == nil || len(measured.Samples) == 0 {
		return failed
	}
	if f.json != "" {
		failed = errors.Join(failed, result.WriteFile(f.json, func(w io.Writer) error { return result.Write(w, measured) }))
	}
	if f.page != "" {
		failed = errors.Join(failed, rig.WriteReport(f.page, measured))
	}
	if f.part() {
		failed = errors.Join(failed, result.Table(cmd.OutOrStdout(), result.Medians(measured.Samples)))
		fmt.Fprintln(cmd.OutOrStdout())
	}
	return errors.Join(failed, rig.DemandTable(cmd.OutOrStdout(), measured))
}

// part reports whether the run is not the default one, so that its figures are printed in
// addition to the requirements.
func (f *peerFlags) part() bool {
	return f.all || f.tests != "" || f.baseline != "" || len(f.subjects)+len(f.custom) > 0
}

// measure returns the run, measured or read. An interrupted run is returned with its error.
func (f *peerFlags) measure(cmd *cobra.Command) (measured *result.Run, err error) {
	if f.from != "" {
		return readRun(f.from)
	}
	o, err := f.options(cmd)
	if err != nil {
		return nil, err
	}
	ctx := cmd.Context()
	r, err := rig.New(o)
	if err != nil {
		return nil, err
	}
	measured = result.New(strings.Join(os.Args, " "), result.ThisMachine(thisBuild().Version), time.Now())
	err = r.Measure(ctx, measured)
	return measured, errors.Join(err, r.Close())
}

func (f *peerFlags) options(cmd *cobra.Command) (o rig.Options, err error) {
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	o = rig.Options{
		Strait: self, End: []string{self, "bench", "peer", "end"},
		WireGuardGo: f.wireGuardGo, Baseline: f.baseline, Only: f.subjects,
		Repetitions: f.repetitions, Quick: f.quick, All: f.all, Progress: cmd.ErrOrStderr(),
	}
	if f.quick && !cmd.Flags().Changed("repetitions") {
		o.Repetitions = 1
	}
	if o.Repetitions < 1 {
		return o, wrongUsage(cmd, "-n %d: give 1 or more", f.repetitions)
	}
	if _, err := os.Stat(f.baseline); f.baseline != "" && err != nil {
		return o, wrongUsage(cmd, "--baseline: %w; name a strait binary", err)
	}
	for _, text := range f.custom {
		p, err := rig.ParseCustomSubject(text)
		if err != nil {
			return o, wrongUsage(cmd, "%w", err)
		}
		o.Custom = append(o.Custom, p)
	}
	pattern, err := regexp.Compile(f.tests)
	if err != nil {
		return o, wrongUsage(cmd, "--run %s: %w", f.tests, wrongPattern(err))
	}
	o.Run = pattern.MatchString
	return o, nil
}

// newTrafficEnd is the command that `strait bench peer` runs in its network namespaces.
func newTrafficEnd() *cobra.Command {
	return &cobra.Command{
		Use: "end", Hidden: true, Args: noArguments,
		Short: "Send and receive test traffic as standard input requests",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return traffic.Serve(struct {
				io.Reader
				io.WriteCloser
			}{os.Stdin, unescaped(cmd.OutOrStdout()).(io.WriteCloser)})
		},
	}
}
