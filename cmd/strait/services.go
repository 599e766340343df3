package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/operator"
)

type servicesCommand struct {
	local, remote clusterFlags
	namespace     string
	output        string
}

func newServices() *cobra.Command {
	f := servicesCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "services [SERVICE...]",
		Short: "Show exported and imported Services",
		Long: `Show the Services that a cluster exports and imports, and why it does not: type, ports,
the clusters that export each Service, and the ready and all endpoints from each of them;
and the state of the imports from each remote cluster. With access to the other cluster
(--remote-context), the same of that cluster.

A SERVICE is NAME or NAMESPACE/NAME. Without arguments all are shown, or those in the
namespace of --namespace.

The exit code is 1 if a Service that a cluster exports or imports cannot be used there.
Services that a cluster does not import, for instance because it does not have their
namespace, do not count.`,
		Example: `  strait services
  strait services --namespace shop -o wide
  strait services shop/cart --context a --remote-context b
  strait services -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.local.register(c)
	f.remote.register(c)
	c.Flags().StringVar(&f.namespace, "namespace", "", "namespace of the Services (default: all, or for a NAME that of the context)")
	outputFlag(c, &f.output, "wide", "name")
	c.ValidArgsFunction = namesInNamespaces((*client.Client).ServiceImports)
	return c
}

// errServices is the error of a list of Services, which is printed already, with one that
// cannot be used.
var errServices = errors.New("not all Services are ready: do what the table says")

func (f *servicesCommand) run(cmd *cobra.Command, args []string) error {
	names, err := serviceNames(cmd, f.local, f.namespace, args)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	local, remote, err := openBoth(ctx, &f.local, &f.remote)
	if err != nil {
		return err
	}
	clusters := operator.Clusters(local, remote)
	report := &operator.ServicesReport{Schema: operator.ServicesSchema}
	for _, c := range clusters {
		services, err := operator.ReadServices(ctx, c, f.namespace, names)
		if err != nil {
			return err
		}
		report.Clusters = append(report.Clusters, *services)
	}
	err = printReport(cmd, f.output, report, func(w io.Writer) error {
		if f.output == "name" {
			_, err := io.WriteString(w, eachLine(namesInReport(report)))
			return err
		}
		return operator.ServicesTable(w, report, f.output == "wide")
	})
	if err == nil && report.Failed() {
		return errServices
	}
	return err
}

// namesInReport returns the name of each Service once, as NAMESPACE/NAME.
func namesInReport(r *operator.ServicesReport) (names []string) {
	for _, c := range r.Clusters {
		for _, s := range c.Services {
			names = append(names, s.Namespace+"/"+s.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func eachLine[T any](values []T) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintln(&b, v)
	}
	return b.String()
}

// serviceNames parses names of Services: NAMESPACE/NAME, or NAME in the given namespace, or
// else in that of the context.
func serviceNames(cmd *cobra.Command, cluster clusterFlags, namespace string, args []string) (names []types.NamespacedName, err error) {
	for _, arg := range args {
		in, name, has := strings.Cut(arg, "/")
		if !has {
			in, name = namespace, arg
		}
		if in == "" && !has {
			if in, err = client.UserNamespace(cluster.kubeconfig, cluster.context); err != nil {
				return nil, err
			}
		}
		if namespace != "" && in != namespace {
			return nil, wrongUsage(cmd, "%s is not in the namespace of --namespace %s: leave out one of the two", arg, namespace)
		}
		if len(validation.IsDNS1123Label(in)) > 0 || len(validation.IsDNS1123Label(name)) > 0 {
			return nil, wrongUsage(cmd, "%q is not the name of a Service: write NAME or NAMESPACE/NAME, like cart or shop/cart", arg)
		}
		one := types.NamespacedName{Namespace: in, Name: name}
		if !slices.Contains(names, one) {
			names = append(names, one)
		}
	}
	return names, nil
}
