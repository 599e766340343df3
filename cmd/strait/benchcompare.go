package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"strait.dev/strait/bench/report"
	"strait.dev/strait/bench/result"
)

func newBenchCompare() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "compare OLD.json NEW.json",
		Short: "Compare two runs statistically",
		Long: fmt.Sprintf(`Compare two runs that "strait bench -o json" or "strait bench peer" wrote. Every figure
is tested with the Mann-Whitney U test; a difference that may be chance (p >= %v) is
shown as "~". Each run needs at least %d repetitions.`, result.Alpha, result.Enough),
		Example: `  strait bench compare old.json new.json`,
		Args:    arguments("the file of the first run", "the file of the second run"),
		RunE: func(cmd *cobra.Command, files []string) error {
			old, err := readRun(files[0])
			if err != nil {
				return err
			}
			new, err := readRun(files[1])
			if err != nil {
				return err
			}
			differences, err := result.Compare(old, new)
			if err != nil {
				return err
			}
			if other := old.Machine.Differences(new.Machine); other != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "strait: warning: the runs were made under different conditions: %s\n", strings.Join(other, "; "))
			}
			return printReport(cmd, output, differences, func(w io.Writer) error { return result.ComparisonTable(w, differences) })
		},
	}
	outputFlag(c, &output)
	return c
}

func newBenchReport() *cobra.Command {
	var html string
	c := &cobra.Command{
		Use:   "report FILE.json --html OUT.html",
		Short: "Write an HTML report of a run",
		Long: `Write an HTML page with tables and plots of a run that "strait bench -o json" or
"strait bench peer" wrote. The page loads nothing from the network.`,
		Example: `  strait bench report new.json --html new.html`,
		Args:    arguments("the file of a run"),
		RunE: func(cmd *cobra.Command, files []string) error {
			if html == "" {
				return wrongUsage(cmd, "--html is missing: name the file to write")
			}
			r, err := readRun(files[0])
			if err != nil {
				return err
			}
			if err := checkWritable("--html", html); err != nil {
				return err
			}
			return result.WriteFile(html, func(w io.Writer) error { return report.HTML(w, r) })
		},
	}
	c.Flags().StringVar(&html, "html", "", "file to write the page to")
	return c
}

func readRun(path string) (*result.Run, error) {
	r, err := result.ReadFile(path)
	var at *fs.PathError
	if errors.As(err, &at) {
		return nil, fileError("", path, err)
	}
	return r, err
}
