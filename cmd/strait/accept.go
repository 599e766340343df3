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
	"strait.dev/strait/k8s/operator"
)

// acceptCommand is what `strait accept` is told.
type acceptCommand struct {
	cluster clusterFlags
	options operator.AcceptOptions
	file    string
	wait    time.Duration
	output  string
}

func newAccept() *cobra.Command {
	f := acceptCommand{}
	c := &cobra.Command{
		Use:   "accept [TOKEN]",
		Short: "Accept another cluster's invite",
		Long: `Accept the invite that strait invite printed in another cluster: write a Peering
with that cluster, wait until packets cross both ways, and remove the invite's
temporary key. All pods of both clusters may then reach each other.

The invite is read from TOKEN, from a file, or from standard input; what stands on a
command line stays in the history of the shell. It may be accepted again after an
interruption: that goes on where it ended.`,
		Example: `  strait accept --context b < b.invite
  strait accept --context b --file b.invite --name prod-a`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.cluster.register(c)
	c.Flags().StringVarP(&f.file, "file", "f", "", "file with the invite")
	c.Flags().StringVar(&f.options.Name, "name", "", "name of the Peering (default: the ID of the cluster that invites)")
	c.Flags().StringVar(&f.options.GatewayNamespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().DurationVar(&f.wait, "wait", 2*time.Minute, "how long to wait until packets cross")
	c.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	return c
}

func (f *acceptCommand) run(cmd *cobra.Command, args []string) error {
	if err := checkOutput(cmd, f.output, "text", "json"); err != nil {
		return err
	}
	if err := checkWait(cmd, f.wait); err != nil {
		return err
	}
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
	c, err := f.cluster.open()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	f.options.Waiting = waiting(cmd, f.wait)
	sight, err := operator.Accept(ctx, c, invite, f.options)
	if err != nil {
		return goesOn(err)
	}
	if f.output == "json" {
		return printAs(cmd.OutOrStdout(), "json", sight)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s and cluster %s are joined: Peering %s.\nstrait status shows how it is doing.\n", c.Name, invite.ClusterID, sight.Name)
	return nil
}

// read is the invite, wherever it comes from.
func (f *acceptCommand) read(cmd *cobra.Command, args []string) (string, error) {
	switch {
	case len(args) > 0 && f.file != "":
		return "", wrongUsage(cmd, "TOKEN and --file exclude each other; leave one out")
	case len(args) > 0:
		return args[0], nil
	case f.file == "":
		if to, ok := cmd.InOrStdin().(io.Writer); ok && isTerminal(to) {
			fmt.Fprintln(cmd.ErrOrStderr(), "Paste the invite, one line:")
		}
		return firstLine(cmd.InOrStdin())
	}
	file, err := os.Open(f.file)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return firstLine(file)
}

// firstLine is the first line that is not empty. Nobody who pastes one has to end the
// input.
func firstLine(from io.Reader) (string, error) {
	lines := bufio.NewReader(io.LimitReader(from, operator.MaxToken+1))
	for {
		line, err := lines.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			return line, nil
		}
		if errors.Is(err, io.EOF) {
			return "", errors.New("there is no invite to read; give the line that strait invite printed on standard input, in a file with --file, or as the argument")
		}
		if err != nil {
			return "", err
		}
	}
}
