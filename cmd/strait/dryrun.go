package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

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

// waiting is waiting for a command that does not wait in a dry run.
func (d *dryRun) waiting(cmd *cobra.Command, limit time.Duration) operator.Waiting {
	w := waiting(cmd, limit)
	w.DryRun = d.on
	return w
}

// print writes the changes that a command would make. Err is how the command ended.
func (d *dryRun) print(cmd *cobra.Command, format string, err error) error {
	if err != nil && !errors.Is(err, operator.ErrDryRun) {
		return err
	}
	var b strings.Builder
	for _, change := range d.changes {
		if format == "name" {
			fmt.Fprintln(&b, change.Name())
		} else {
			fmt.Fprintf(&b, "%s: %s would be %s\n", change.Cluster, change.Object(), change.Action)
		}
	}
	if len(d.changes) == 0 && format == "table" {
		b.WriteString("nothing would be changed\n")
	}
	return printResult(cmd, format, append([]operator.Change{}, d.changes...), "%s", b.String())
}
