package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"strait.dev/strait/bench/report"
	"strait.dev/strait/bench/result"
)

func newBenchCompare() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "compare OLD.json NEW.json",
		Short: "Tell what differs between two runs from what may be chance",
		Long: fmt.Sprintf(`Compare two runs that "strait bench -o json" or "strait bench peer" wrote. Every
figure is tested with the Mann-Whitney U test; a change that may be chance
(p >= %v) is shown as "~". Runs with too few repetitions are refused: with less
than %d on each side nothing can be told.`, result.Alpha, result.Enough),
		Example: `  strait bench compare old.json new.json`,
		Args:    arguments("the file of the first run", "the file of the second run"),
		RunE: func(cmd *cobra.Command, files []string) error {
			if output != "text" && output != "json" {
				return &usageError{fmt.Errorf("-o %s: no such format; choose text or json", output), cmd.CommandPath() + " --help"}
			}
			old, err := result.ReadFile(files[0])
			if err != nil {
				return err
			}
			new, err := result.ReadFile(files[1])
			if err != nil {
				return err
			}
			differences, err := result.Compare(old, new)
			if err != nil {
				return err
			}
			if other := old.Machine.Differences(new.Machine); other != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "strait: the runs were not made alike, and differ for that too: %s\n", strings.Join(other, "; "))
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(differences)
			}
			return result.ComparisonTable(cmd.OutOrStdout(), differences)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

func newBenchReport() *cobra.Command {
	var html string
	c := &cobra.Command{
		Use:     "report FILE.json --html OUT.html",
		Short:   "Make a page with tables and plots of a run",
		Long:    `Make one page of a run that "strait bench -o json" or "strait bench peer" wrote. It needs nothing from the network.`,
		Example: `  strait bench report new.json --html new.html`,
		Args:    arguments("the file of a run"),
		RunE: func(cmd *cobra.Command, files []string) error {
			if html == "" {
				return &usageError{errors.New("say where the page goes: --html FILE"), cmd.CommandPath() + " --help"}
			}
			r, err := result.ReadFile(files[0])
			if err != nil {
				return err
			}
			return result.WriteFile(html, func(w io.Writer) error { return report.HTML(w, r) })
		},
	}
	c.Flags().StringVar(&html, "html", "", "the page to write")
	return c
}
