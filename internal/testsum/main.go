// Command testsum shows what `go test -json` reports, briefly: each package, each
// failed test with all it printed, each skipped test with its reason. It also
// appends the result of every test to a tally, from which test/run counts.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout)) }

func run(args []string, in io.Reader, out io.Writer) int {
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	path := flags.String("tally", "", "`file` to append one line per test to: result, name, reason, by tabs")
	passed := flags.Bool("v", false, "show passed tests too")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	tally := io.Discard
	if *path != "" {
		f, err := os.OpenFile(*path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
			return 2
		}
		defer f.Close()
		tally = f
	}
	s := newSummary(out, tally, *passed)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		s.line(line)
		if err != nil {
			break
		}
	}
	return s.end()
}
