package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"strait.dev/strait/operate/diagnose"
)

type diagnoseCommand struct {
	cluster, remote clusterFlags
	noPods          bool
	image, output   string
}

func newDiagnose() *cobra.Command {
	f := diagnoseCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "diagnose",
		Short: "Find out what is wrong, the most likely cause first",
		Long: `Find out why clusters are not joined, or packets do not cross: read the status of all
peerings, run the checks of preflight, and where all peerings are ready those of verify;
and print one list of causes, the most likely first, each with its evidence, a remedy and
a page of documentation.

With access to the other cluster (--remote-context) both are looked at, and the path
between them. The command runs pods as preflight and verify do, and removes them. With
--no-pods it only reads from the API servers.

The exit code is 0 if nothing is wrong and 1 otherwise.`,
		Example: `  strait diagnose --context a --remote-context b
  strait diagnose --no-pods
  strait diagnose --context a --remote-context b -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	f.remote.register(c)
	c.Flags().BoolVar(&f.noPods, "no-pods", false, "run no pods: only read from the API servers")
	c.Flags().StringVar(&f.image, "image", "", "image of the pods (default: the image of the installed Strait)")
	outputFlag(c, &f.output)
	return c
}

// errCauses is the error of a diagnosis, which is printed already, with a cause.
var errCauses = errors.New("something is wrong: begin with the first cause")

func (f *diagnoseCommand) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	local, remote, err := chooseBoth(&f.cluster, &f.remote)
	if err != nil {
		return err
	}
	report, err := diagnose.Run(ctx, diagnose.Options{Local: local, Remote: remote, NoPods: f.noPods, Image: f.image, Progress: newProgress(cmd)})
	if report == nil {
		return err
	}
	err = errors.Join(err, printReport(cmd, f.output, report, func(w io.Writer) error { return diagnose.Table(w, report) }))
	if err == nil && !report.Well {
		return errCauses
	}
	return err
}
