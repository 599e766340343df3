// Command conformance prints, for every protocol rule, threat and fault that this project
// tests, which tests hold it and whether they passed.
//
//	conformance [-page FILE] [FILE...]
//
// Tests are found by name: the name of a test that holds rows starts with their IDs, as in
// TestG8_T1_OnlyItsOwnNodeMayUseAVNI. Their outcomes are read from the files, which are
// event streams (`go test -json`) that test/run leaves in bin/test. For a row whose tests
// were not run, the make targets that run them are printed.
//
// Exit status: 0 success, 1 a row has no test or a failed one, 2 usage error.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"strait.dev/strait/internal/testlog"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	page := flags.String("page", "", "`file` to write the table to, as Markdown and without outcomes")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	list, err := checklist(os.DirFS("."))
	if err == nil && *page != "" {
		err = os.WriteFile(*page, []byte(list.markdown()), 0o644)
	}
	var outcomes results
	if err == nil {
		outcomes, err = readResults(flags.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 2
	}
	if !list.print(out, outcomes) {
		return 1
	}
	return 0
}

// results are the outcomes of tests, by full name.
type results map[string]testlog.Result

// readResults reads event streams.
func readResults(files []string) (results, error) {
	var streams [][]testlog.Result
	for _, file := range files {
		stream, err := testlog.ReadFile(file)
		if err != nil {
			return nil, err
		}
		streams = append(streams, stream)
	}
	all := make(results)
	for _, r := range testlog.Merge(streams...) {
		all[r.Name()] = r
	}
	return all, nil
}
