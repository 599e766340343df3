// Command testreport closes a run of tests: it prints the slowest, flaky, skipped and
// failed tests of event streams (`go test -json`), and their counts as the last line.
//
//	testreport [-durations FILE] [-slowest N] FILE...
//	testreport -flaky FILE...
//
// Each file is one run of one tier. A test of several runs failed if it failed in one,
// and passed if it passed in one and was skipped in the others. With -flaky the files are
// runs of the same tier, and the output is how often each test failed.
//
// Exit status: 0 success, 1 a test failed, 2 usage error.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"strait.dev/strait/internal/testlog"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errors io.Writer) int {
	flags := flag.NewFlagSet("testreport", flag.ContinueOnError)
	flags.SetOutput(errors)
	durations := flags.String("durations", "", "`file` to write the duration and outcome of every test to, as JSON")
	slowest := flags.Int("slowest", 20, "`number` of slowest tests to print")
	flaky := flags.Bool("flaky", false, "print how often each test failed")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var runs [][]testlog.Result
	for _, file := range flags.Args() {
		results, err := testlog.ReadFile(file)
		if err != nil {
			fmt.Fprintf(errors, "testreport: %v\n", err)
			return 2
		}
		runs = append(runs, results)
	}
	if *flaky {
		return exitStatus(printFailures(out, runs))
	}
	all := testlog.Merge(runs...)
	if *durations != "" {
		if err := writeDurations(*durations, all); err != nil {
			fmt.Fprintf(errors, "testreport: %v\n", err)
			return 2
		}
	}
	printSlowest(out, all, *slowest)
	return exitStatus(printOutcomes(out, all))
}

func exitStatus(passed bool) int {
	if passed {
		return 0
	}
	return 1
}

// writeDurations writes all results as a JSON array.
func writeDurations(file string, all []testlog.Result) error {
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
