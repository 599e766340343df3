package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/operator"
)

type unexportCommand struct {
	cluster   clusterFlags
	namespace string
	dry       dryRun
	consent   consent
	output    string
}

func newUnexport() *cobra.Command {
	f := unexportCommand{}
	c := &cobra.Command{
		Use:   "unexport SERVICE...",
		Short: "End the export of Services",
		Long: `Delete the ServiceExport of each SERVICE, NAME or NAMESPACE/NAME. The Service stays. The
clusters that import it lose the endpoints of this cluster, and the name in
clusterset.local if no other cluster exports the Service. The command asks before it
deletes.`,
		Example: `  strait unexport shop/cart
  strait unexport cart checkout --namespace shop --context a
  strait unexport shop/cart --dry-run`,
		Args: atLeastOne("the name of the Service"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.cluster.register(c)
	f.dry.register(c)
	f.consent.register(c, "delete without asking")
	namespaceFlag(c, &f.namespace)
	outputFlag(c, &f.output, "name")
	c.ValidArgsFunction = namesInNamespaces((*client.Client).ServiceExports)
	return c
}

func (f *unexportCommand) run(cmd *cobra.Command, args []string) error {
	names, err := serviceNames(cmd, f.cluster, f.namespace, args)
	if err != nil {
		return err
	}
	if err := f.consent.check(cmd, !f.dry.on); err != nil {
		return err
	}
	ctx := cmd.Context()
	c, err := f.cluster.open(ctx)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("End the export of %s in %s? Clusters that import it lose its endpoints in this cluster.", listed(names), c.Name)
	if err := f.consent.ask(cmd, question); err != nil {
		return err
	}
	var changes []operator.Change
	c.Changed = func(change operator.Change) { changes = append(changes, change) }
	f.dry.apply(&c)
	err = operator.UnexportServices(ctx, c, names)
	if f.dry.on {
		return f.dry.print(cmd, f.output, err)
	}
	if err != nil {
		return err
	}
	text := eachLine(names)
	if f.output == "table" {
		text = ""
		for _, change := range changes {
			text += fmt.Sprintf("%s: %s is deleted; the Service stays.\n", c.Name, change.Object())
		}
	}
	return printResult(cmd, f.output, changes, "%s", text)
}

func listed(names []types.NamespacedName) string {
	var all []string
	for _, name := range names {
		all = append(all, name.String())
	}
	return strings.Join(all, ", ")
}
