package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/operator"
)

// clusterFlags select the cluster of a command.
type clusterFlags struct {
	kubeconfig, context string
	user                string        // to impersonate
	timeout             time.Duration // of one request
	remote, required    bool          // remote: the other cluster; required: the command needs both
}

func (f *clusterFlags) register(c *cobra.Command) {
	flags := c.Flags()
	if f.remote {
		note := "without it and --remote-kubeconfig, only one cluster is used"
		if f.required {
			note = "required unless --remote-kubeconfig is given"
		}
		flags.StringVar(&f.kubeconfig, "remote-kubeconfig", "", "kubeconfig file of the remote cluster (default: that of --kubeconfig)")
		flags.StringVar(&f.context, "remote-context", "", "context of the remote cluster; "+note)
		return
	}
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	flags.StringVar(&f.context, "context", "", "context of the cluster in the kubeconfig (default: the current one)")
	flags.StringVar(&f.user, "as", "", "user to impersonate, as with kubectl")
	flags.DurationVar(&f.timeout, "request-timeout", operator.DefaultTimeout, "how long an API server may take to answer a request")
}

// inherit copies from the flags of the local cluster what is given once for both clusters.
func (f *clusterFlags) inherit(local clusterFlags) {
	if f.kubeconfig == "" {
		f.kubeconfig = local.kubeconfig
	}
	f.user, f.timeout = local.user, local.timeout
}

func (f *clusterFlags) given() bool { return f.kubeconfig != "" || f.context != "" }

// open returns the selected cluster. An unreachable API server is an error, which is the
// same in all commands.
func (f *clusterFlags) open(ctx context.Context) (operator.Cluster, error) {
	c, err := f.choose()
	if err != nil {
		return c, err
	}
	return c, c.Reach(ctx)
}

// choose returns the selected cluster without a request, for commands whose result includes
// that an API server is unreachable.
func (f *clusterFlags) choose() (operator.Cluster, error) {
	c, err := f.client()
	if err != nil && f.remote {
		err = fmt.Errorf("remote cluster: %w", err)
	}
	return operator.Cluster{Name: f.name(), Client: c, Timeout: f.timeout}, err
}

// name returns the name of the selected cluster for messages.
func (f *clusterFlags) name() string {
	switch {
	case f.context != "":
		return "context " + f.context
	case f.kubeconfig != "":
		return "the cluster of " + f.kubeconfig
	}
	return "the current context"
}

func (f *clusterFlags) client() (*client.Client, error) {
	config, err := client.UserConfig(f.kubeconfig, f.context)
	if err != nil {
		return nil, err
	}
	if f.user != "" {
		config.Impersonate.UserName = f.user
	}
	if f.timeout != operator.DefaultTimeout { // every request has it then, also those that usually take longer
		config.Timeout = f.timeout
	}
	return client.New(config)
}

// openBoth returns the selected clusters, both with a reachable API server. Remote is nil if
// its flags are not given.
func openBoth(ctx context.Context, local, remote *clusterFlags) (operator.Cluster, *operator.Cluster, error) {
	a, b, err := chooseBoth(local, remote)
	if err == nil {
		err = a.Reach(ctx)
	}
	if err == nil && b != nil {
		err = b.Reach(ctx)
	}
	return a, b, err
}

// chooseBoth is openBoth without a request.
func chooseBoth(local, remote *clusterFlags) (operator.Cluster, *operator.Cluster, error) {
	a, err := local.choose()
	if err != nil || !remote.given() {
		return a, nil, err
	}
	remote.inherit(*local)
	b, err := remote.choose()
	return a, &b, err
}

func newProgress(cmd *cobra.Command) *operator.Progress {
	return operator.NewProgress(cmd.ErrOrStderr(), terminalOf(cmd.ErrOrStderr()))
}

// waiting returns how a command waits, with its progress on standard error.
func waiting(cmd *cobra.Command, d time.Duration) operator.Waiting {
	return operator.Waiting{For: d, Progress: newProgress(cmd)}
}

// resumable adds to the error of a command that timed out that it can be run again.
func resumable(err error) error {
	var late *operator.TimeoutError
	if errors.As(err, &late) {
		return fmt.Errorf("%w\nnothing is undone; run the command again to continue", err)
	}
	return err
}

// formatsAnnotation is the annotation of a flag with the output formats that it takes.
const formatsAnnotation = "strait.dev/formats"

// formats are the output formats of every command that prints a result.
var formats = []string{"table", "json", "yaml"}

// outputFlag registers -o, with formats of one command in addition to those of every command.
func outputFlag(c *cobra.Command, format *string, extra ...string) {
	all := append(formats[:len(formats):len(formats)], extra...)
	c.Flags().StringVarP(format, "output", "o", formats[0], "output format: "+choice(all))
	_ = c.Flags().SetAnnotation("output", formatsAnnotation, all) // fails only for an unknown flag
}

// formatsOf returns the output formats that a flag takes, nil for any other flag.
func formatsOf(f *pflag.Flag) []string {
	if f == nil {
		return nil
	}
	return f.Annotations[formatsAnnotation]
}

// printReport writes a value as json or yaml, or in any other format with a function.
func printReport(cmd *cobra.Command, format string, value any, table func(io.Writer) error) error {
	if format == "json" || format == "yaml" {
		return printAs(cmd.OutOrStdout(), format, value)
	}
	return table(withColors(cmd.OutOrStdout()))
}

// printResult is printReport for a result that is a text otherwise.
func printResult(cmd *cobra.Command, format string, value any, text string, values ...any) error {
	return printReport(cmd, format, value, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, text, values...)
		return err
	})
}

// printAs writes a value as json or yaml.
func printAs(w io.Writer, format string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil && format == "yaml" && !isEscaped(text) { // escape sequences need the quotation marks of JSON, which is YAML too
		text, err = yaml.Marshal(value)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(text), "\n"))
	return err
}
