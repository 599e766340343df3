package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"strait.dev/strait/operate/operator"
)

// dryRun is the flag --dry-run of a command that writes objects.
type dryRun struct {
	on      bool
	changes []operator.Change
}

func (d *dryRun) register(c *cobra.Command) {
	c.Flags().BoolVar(&d.on, "dry-run", false, "have the API server check the changes without storing them, print them and exit")
}

// apply makes clusters those of a dry run, if it is one.
func (d *dryRun) apply(clusters ...*operator.Cluster) {
	for _, c := range clusters {
		if d.on && c != nil {
			c.Client = c.Client.DryRun()
			c.Changed = func(change operator.Change) { d.changes = append(d.changes, change) }
		}
	}
}

// print writes the changes that a command would make. Err is how the command ended.
func (d *dryRun) print(w io.Writer, format string, err error) error {
	if err != nil && !errors.Is(err, operator.ErrDryRun) {
		return err
	}
	var b strings.Builder
	switch format {
	case "table":
	case "name":
		for _, change := range d.changes {
			fmt.Fprintln(&b, change.Name())
		}
		_, err = io.WriteString(w, b.String())
		return err
	default:
		return printAs(w, format, append([]operator.Change{}, d.changes...))
	}
	for _, change := range d.changes {
		fmt.Fprintf(&b, "%s: %s would be %s\n", change.Cluster, change.Object(), change.Action)
	}
	if len(d.changes) == 0 {
		b.WriteString("nothing would be changed\n")
	}
	_, err = io.WriteString(w, b.String())
	return err
}
