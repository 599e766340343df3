// Command conformance shows, for every row of the checklist that this project holds
// itself to, which tests hold it and whether they pass.
//
// Tests are found by their names: a test that holds rows begins with their IDs, as
// TestG8_T1_OnlyItsOwnNodeMayUseAVNI does. The tests that need neither root nor a
// cluster are run. Of the others the table says which make target runs them, or,
// with -tally, how they did in the last run of test/run.
//
// It ends with 1 if a row has no test, or a test of a row failed.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	page := flags.String("page", "", "`file` to write the table to, as Markdown and without results")
	tally := flags.String("tally", "", "`file` of results, as test/run leaves it in bin/test; no test is run then")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	list, err := checklist(os.DirFS("."))
	if err == nil && *page != "" {
		err = os.WriteFile(*page, []byte(list.markdown()), 0o644)
	}
	var results results
	if err == nil {
		results, err = resultsOf(list, *tally)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 2
	}
	if !list.print(out, results) {
		return 1
	}
	return 0
}

func resultsOf(list *list, tally string) (results, error) {
	if tally == "" {
		return runTests(list)
	}
	f, err := os.Open(tally)
	if err != nil {
		return nil, fmt.Errorf("%w; run test/run first", err)
	}
	defer f.Close()
	return readTally(f)
}
