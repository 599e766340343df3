package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/operator"
)

type exportCommand struct {
	local, remote clusterFlags
	namespace     string
	dry           dryRun
	wait          time.Duration // 0: do not wait
	output        string
}

func newExport() *cobra.Command {
	f := exportCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "export SERVICE...",
		Short: "Export Services to all joined clusters",
		Long: `Create the ServiceExport of each SERVICE, NAME or NAMESPACE/NAME. Every joined cluster that
has the same namespace imports the Service, as far as its Peering permits. There, and in
this cluster, pods reach it as NAME.NAMESPACE.svc.clusterset.local.

--wait waits until the Services are exported, for two minutes; --wait=10m waits longer.
With access to the other cluster (--remote-context) it also waits until they are imported
there.

strait unexport ends the export.`,
		Example: `  strait export shop/cart
  strait export cart checkout --namespace shop --wait
  strait export shop/cart --context a --remote-context b --wait=5m
  strait export shop/cart --dry-run -o yaml`,
		Args: atLeastOne("the name of the Service"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.local.register(c)
	f.remote.register(c)
	f.dry.register(c)
	namespaceFlag(c, &f.namespace)
	c.Flags().DurationVar(&f.wait, "wait", 0, "wait until the Services are exported, for at most this long")
	c.Flags().Lookup("wait").NoOptDefVal = "2m"
	outputFlag(c, &f.output, "name")
	c.ValidArgsFunction = namesInNamespaces((*client.Client).Services)
	return c
}

func namespaceFlag(c *cobra.Command, namespace *string) {
	c.Flags().StringVar(namespace, "namespace", "", "namespace of the Services (default: that of the context)")
}

func (f *exportCommand) run(cmd *cobra.Command, args []string) error {
	names, err := serviceNames(cmd, f.local, f.namespace, args)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	local, remote, err := openBoth(ctx, &f.local, &f.remote)
	if err != nil {
		return err
	}
	f.dry.apply(&local)
	o := operator.ExportOptions{Services: names, Wait: f.wait > 0, Waiting: f.dry.waiting(cmd, f.wait)}
	exports, err := operator.ExportServices(ctx, local, remote, o)
	if f.dry.on {
		return f.dry.print(cmd, f.output, err)
	}
	if err != nil {
		return resumable(err)
	}
	text := describeExports(exports)
	if f.output == "name" {
		text = eachLine(names)
	}
	return printResult(cmd, f.output, exports, "%s", text)
}

// describeExports says where each Service is exported to, as far as it is known.
func describeExports(exports []operator.Export) string {
	var b strings.Builder
	for _, e := range exports {
		if e.Ready {
			fmt.Fprintf(&b, "%s: Service %s/%s is exported as %s.\n", e.Cluster, e.Namespace, e.Name, e.DNSName)
		} else {
			fmt.Fprintf(&b, "%s: ServiceExport %s/%s is created, and not ready: %s.\n", e.Cluster, e.Namespace, e.Name, e.Message)
		}
		for _, i := range e.Imports {
			switch {
			case i.Ready && len(i.IPs) > 0:
				fmt.Fprintf(&b, "%s: imported with the address %s.\n", i.Cluster, strings.Join(i.IPs, ", "))
			case i.Ready:
				fmt.Fprintf(&b, "%s: imported, headless.\n", i.Cluster)
			default:
				fmt.Fprintf(&b, "%s: %s.\n", i.Cluster, i.Message)
			}
		}
	}
	var up, down []string
	for _, to := range exports[0].OfferedTo { // the same for all
		name := cmp.Or(string(to.ClusterID), to.Peering)
		if to.LinkUp {
			up = append(up, name)
		} else {
			down = append(down, name)
		}
	}
	switch {
	case len(up)+len(down) == 0:
		b.WriteString("This cluster is joined to no other cluster yet; strait peer joins two.\n")
	case len(up) > 0:
		fmt.Fprintf(&b, "Offered to %s; strait services there shows the imports.\n", strings.Join(up, ", "))
	}
	if len(down) > 0 {
		fmt.Fprintf(&b, "No link to %s is up; strait status shows why.\n", strings.Join(down, ", "))
	}
	return b.String()
}
