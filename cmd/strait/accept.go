package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/operator"
)

type acceptCommand struct {
	cluster clusterFlags
	options operator.AcceptOptions
	file    string
	dry     dryRun
	wait    time.Duration
	output  string
}

func newAccept() *cobra.Command {
	f := acceptCommand{}
	c := &cobra.Command{
		Use:   "accept [TOKEN]",
		Short: "Accept the invite of another cluster",
		Long: `Accept the invite that strait invite printed in another cluster: write a Peering with
that cluster, wait until packets pass in both directions, and remove the invite's
temporary key. All pods of both clusters may then reach each other.

The CIDRs of the other cluster are mapped to the remap pools of this cluster, whatever the
invite names, unless --keep-addresses lists them in the Peering.

The invite is read from TOKEN, from a file, or from standard input. A token on the
command line stays in the history of the shell. After an interruption, run the command
again with the same invite to continue.`,
		Example: `  strait accept --context b < b.invite
  strait accept --context b --file b.invite --name prod-a
  strait accept --context b --file b.invite --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error { return tooMany(cmd, args, 1) },
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.cluster.register(c)
	f.dry.register(c)
	c.Flags().StringVarP(&f.file, "file", "f", "", "file with the invite")
	c.Flags().StringVar(&f.options.Name, "name", "", "name of the Peering (default: the ID of the cluster that invites)")
	c.Flags().BoolVar(&f.options.KeepAddresses, "keep-addresses", false, "let the CIDRs that the invite names keep their addresses where they are free in this cluster (default: they are mapped to the remap pools)")
	c.Flags().BoolVarP(&f.options.Yes, "yes", "y", false, "accept an invite that names CIDRs that are not private, or other gateways of a cluster that is joined already")
	c.Flags().StringVar(&f.options.GatewayNamespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().Int32Var(&f.options.Replicas, "replicas", 0, "gateways in this cluster, 1 to 16 (default: unchanged; 2 in a new Peering)")
	c.Flags().DurationVar(&f.wait, "wait", 2*time.Minute, "how long to wait until packets pass")
	outputFlag(c, &f.output)
	return c
}

func (f *acceptCommand) run(cmd *cobra.Command, args []string) error {
	if f.options.Name != "" {
		if err := operator.CheckName(f.options.Name); err != nil {
			return wrongUsage(cmd, "--name: %w", err)
		}
	}
	text, err := f.read(cmd, args)
	if err != nil {
		return err
	}
	invite, err := operator.ParseToken(text, time.Now())
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	c, err := f.cluster.open(ctx)
	if err != nil {
		return err
	}
	f.dry.apply(&c)
	f.options.Waiting = f.dry.waiting(cmd, f.wait)
	sight, err := operator.Accept(ctx, c, invite, f.options)
	if f.dry.on {
		return f.dry.print(cmd, f.output, err)
	}
	if err != nil {
		return resumable(err)
	}
	return printResult(cmd, f.output, sight, "%s and cluster %s are joined: Peering %s.\nTo see its state, run: strait status\n", c.Name, invite.ClusterID, sight.Name)
}

// read returns the invite, from the argument, the file or standard input.
func (f *acceptCommand) read(cmd *cobra.Command, args []string) (string, error) {
	switch {
	case len(args) > 0 && f.file != "":
		return "", wrongUsage(cmd, "TOKEN and --file exclude each other: leave one out")
	case len(args) > 0:
		return args[0], nil
	case f.file == "":
		if to, ok := cmd.InOrStdin().(io.Writer); ok && isTerminal(to) {
			fmt.Fprintln(cmd.ErrOrStderr(), "Paste the invite, one line:")
		}
		return interruptibly(cmd, func() (string, error) { return firstLine(cmd.InOrStdin()) })
	}
	file, err := os.Open(f.file)
	if err != nil {
		return "", fileError("--file", f.file, err)
	}
	defer file.Close()
	line, err := firstLine(file)
	if err != nil {
		return "", fileError("--file", f.file, err)
	}
	return line, nil
}

// firstLine returns the first line that is not empty. It does not wait for the end of the
// input.
func firstLine(from io.Reader) (string, error) {
	lines := bufio.NewReader(io.LimitReader(from, operator.MaxToken+1))
	for {
		line, err := lines.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			return line, nil
		}
		if errors.Is(err, io.EOF) {
			return "", errors.New("the invite is missing: give the line that strait invite printed on standard input, in a file with --file, or as TOKEN")
		}
		if err != nil {
			return "", err
		}
	}
}
