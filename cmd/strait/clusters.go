package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/operator"
)

// clusterFlags say which cluster an operator's command is about.
type clusterFlags struct {
	kubeconfig, context string
	remote              bool // the other one
}

func (f *clusterFlags) register(c *cobra.Command) {
	prefix, whose, otherwise := "", "the cluster", "$KUBECONFIG, ~/.kube/config, or that of the pod"
	if f.remote {
		prefix, whose, otherwise = "remote-", "the remote cluster", "that of --kubeconfig"
	}
	c.Flags().StringVar(&f.kubeconfig, prefix+"kubeconfig", "", "kubeconfig file with access to "+whose+" (default: "+otherwise+")")
	c.Flags().StringVar(&f.context, prefix+"context", "", "context of "+whose+" in the kubeconfig (default: the current one)")
}

// beside makes the contexts of one file do for both clusters.
func (f *clusterFlags) beside(local clusterFlags) {
	if f.kubeconfig == "" {
		f.kubeconfig = local.kubeconfig
	}
}

func (f *clusterFlags) given() bool { return f.kubeconfig != "" || f.context != "" }

func (f *clusterFlags) open() (operator.Cluster, error) {
	name := "the current context"
	switch {
	case f.context != "":
		name = "context " + f.context
	case f.kubeconfig != "":
		name = "the cluster of " + f.kubeconfig
	}
	config, err := client.UserConfig(f.kubeconfig, f.context)
	if err != nil {
		return operator.Cluster{}, err
	}
	c, err := client.New(config)
	if err != nil {
		return operator.Cluster{}, err
	}
	return operator.Cluster{Name: name, Client: c}, nil
}

// interruptible is a command's context, which ends with a signal.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
}

// waiting tells whoever runs a command what it waits for.
func waiting(cmd *cobra.Command, d time.Duration) operator.Waiting {
	return operator.Waiting{For: d, Progress: operator.NewProgress(cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr()))}
}

// goesOn says of a command that ran out of time that nothing is lost.
func goesOn(err error) error {
	var late *operator.TimeoutError
	if errors.As(err, &late) {
		return fmt.Errorf("%w\nWhat was done stays; the same command, run again, goes on from there", err)
	}
	return err
}

func wrongUsage(cmd *cobra.Command, format string, values ...any) error {
	return &usageError{fmt.Errorf(format, values...), cmd.CommandPath() + " --help"}
}

// checkOutput says what is wrong with a form of output.
func checkOutput(cmd *cobra.Command, form string, forms ...string) error {
	if !slices.Contains(forms, form) {
		return wrongUsage(cmd, "-o %s: no such format; choose %s", form, strings.Join(forms, " or "))
	}
	return nil
}

// checkWait says what is wrong with a time to wait.
func checkWait(cmd *cobra.Command, d time.Duration) error {
	if d <= 0 {
		return wrongUsage(cmd, "--wait %v: give some time, as in --wait 2m", d)
	}
	return nil
}

// printAs writes a value as json or yaml.
func printAs(w io.Writer, form string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil && form == "yaml" {
		text, err = yaml.Marshal(value)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(text), "\n"))
	return err
}
