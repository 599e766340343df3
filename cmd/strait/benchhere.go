//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/bench"
	"strait.dev/strait/bench/result"
)

// measureHere measures this machine. The run is nil if it has no result; that of an interrupted
// run is returned with its error.
func (f *benchFlags) measureHere(ctx context.Context, cmd *cobra.Command) (*result.Run, error) {
	tests, err := f.chosen(cmd)
	if err != nil {
		return nil, err
	}
	b := thisBuild()
	r := result.New(strings.Join(append([]string{"strait"}, os.Args[1:]...), " "), result.ThisMachine(strings.TrimSpace(b.Version+" "+b.Revision)), time.Now())
	p := &benchProgress{to: cmd.ErrOrStderr(), terminal: terminalOf(cmd.ErrOrStderr())}
	failed := bench.Run(ctx, r, tests, f.repetitions, f.quick, p.begin)
	p.clear()
	if ctx.Err() != nil {
		failed = errors.New("interrupted: some tests have fewer repetitions than -n")
	}
	if len(r.Samples) == 0 {
		return nil, failed
	}
	return r, failed
}

func (f *benchFlags) testsHere(cmd *cobra.Command) (names []string, err error) {
	tests, err := f.chosen(cmd)
	for _, t := range tests {
		names = append(names, t.String())
	}
	return names, err
}

func (f *benchFlags) chosen(cmd *cobra.Command) ([]bench.Test, error) {
	pattern, err := regexp.Compile(f.tests)
	if err != nil {
		return nil, wrongUsage(cmd, "--run %s: %w", f.tests, wrongPattern(err))
	}
	tests := bench.Matching(bench.Ladder(), pattern)
	if len(tests) == 0 {
		return nil, wrongUsage(cmd, "--run %s: no test matches; run strait bench --list for all names", f.tests)
	}
	return tests, nil
}

// benchProgress prints the progress of a run: on a terminal in one line that is rewritten,
// elsewhere in one line for each repetition.
type benchProgress struct {
	to       io.Writer
	terminal io.Writer // nil: none
	begun    time.Time
	last     int // repetition
}

// begin prints that a test begins; see bench.Run.
func (p *benchProgress) begin(t bench.Test, repetition, done, of int) {
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
