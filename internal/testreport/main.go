// Command testreport summarises a run of tests: it prints the slowest, flaky, skipped and
// failed tests of event streams (`go test -json`), and their counts as the last line.
//
//	testreport [-durations FILE] [-trend FILE -label LABEL] [-slowest N] FILE...
//	testreport -flaky FILE...
//
// Each file is one run of one tier. A test of several runs failed if it failed in one,
// and passed if it passed in one and was skipped in the others. With -trend a line per
// test is appended to a file: label, test, outcome and seconds, separated by tabs. With
// -flaky the files are runs of the same tier, and the output is how often each test failed.
//
// Exit status: 0 success, 1 a test failed, 2 usage error.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, stderr io.Writer) int {
	flags := flag.NewFlagSet("testreport", flag.ContinueOnError)
	flags.SetOutput(stderr)
	durations := flags.String("durations", "", "`file` to write the duration and outcome of every test to, as JSON")
	trend := flags.String("trend", "", "`file` to append the outcome and duration of every test to")
	label := flags.String("label", "", "first `column` of the lines of -trend, such as a commit")
	slowest := flags.Int("slowest", 20, "`number` of slowest tests to print")
	flaky := flags.Bool("flaky", false, "print how often each test failed")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var runs [][]result
	for _, file := range flags.Args() {
		events, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintf(stderr, "testreport: %v\n", err)
			return 2
		}
		runs = append(runs, read(events))
	}
	if *flaky {
		return exitStatus(printFailures(out, runs))
	}
	all := merge(runs...)
	if *durations != "" {
		if err := writeDurations(*durations, all); err != nil {
			fmt.Fprintf(stderr, "testreport: %v\n", err)
			return 2
		}
	}
	if *trend != "" {
		if err := appendTrend(*trend, *label, all); err != nil {
			fmt.Fprintf(stderr, "testreport: %v\n", err)
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

func writeDurations(file string, all []result) error {
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// appendTrend appends a line per test, without subtests.
func appendTrend(file, label string, all []result) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for _, r := range all {
		if !strings.Contains(r.Test, "/") {
			if _, err := fmt.Fprintf(f, "%s\t%s\t%s\t%.2f\n", label, r.Name(), r.Outcome, r.Seconds); err != nil {
				return errors.Join(err, f.Close())
			}
		}
	}
	return f.Close()
}
