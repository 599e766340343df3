package main

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/offload"
)

// offloadWait is how long lend and borrow wait for their agent by default.
const offloadWait = 2 * time.Minute

// podSecurityLevels are the levels of namespaces that are lent. Privileged is not one: it would
// let the other cluster use the machines of this one as their administrator.
var podSecurityLevels = []string{"restricted", "baseline"}

// capacity holds the flags of lend and borrow for the capacity of the virtual node.
type capacity struct{ cpu, memory, pods string }

func (f *capacity) register(c *cobra.Command, whose, unless string) {
	c.Flags().StringVar(&f.cpu, "cpu", "", "CPUs "+whose+", like 4 or 500m (default: "+unless+")")
	c.Flags().StringVar(&f.memory, "memory", "", "memory "+whose+", like 8Gi (default: "+unless+")")
	c.Flags().StringVar(&f.pods, "pods", "", "number of pods "+whose+" (default: 110 if neither cluster sets it)")
}

func (f *capacity) resources(cmd *cobra.Command) (corev1.ResourceList, error) {
	var list corev1.ResourceList
	for _, flag := range []struct {
		name, text string
		of         corev1.ResourceName
	}{{"cpu", f.cpu, corev1.ResourceCPU}, {"memory", f.memory, corev1.ResourceMemory}, {"pods", f.pods, corev1.ResourcePods}} {
		if flag.text == "" {
			continue
		}
		q, err := resource.ParseQuantity(flag.text)
		if err != nil || q.Sign() <= 0 {
			return nil, wrongUsage(cmd, "--%s: %q is not a quantity; write one like 4, 500m or 8Gi", flag.name, flag.text)
		}
		if list == nil {
			list = make(corev1.ResourceList)
		}
		list[flag.of] = q
	}
	return list, nil
}

func newLend() *cobra.Command {
	var cluster clusterFlags
	var size capacity
	var output string
	var dry bool
	o := offload.LendOptions{Image: install.Image, Level: "restricted", Wait: offloadWait}
	c := &cobra.Command{
		Use:   "lend NAMESPACE... --to PEERING",
		Short: "Let pods of a remote cluster run in namespaces of this one",
		Long: `Let pods of the cluster of PEERING run in this cluster, in each NAMESPACE and nowhere else.
Each stands for the namespace of the same name in the remote cluster.

The command creates the namespaces with a Pod Security level, the lender with rights in
them alone, and an address under which the borrower of the remote cluster reaches the
lender. The remote cluster gets no access to the API server of this one.

--cpu, --memory and --pods are what the scheduler of the remote cluster sees, and a
ResourceQuota in each NAMESPACE. With --isolate, a NetworkPolicy keeps the pods apart from
other pods of this cluster, if its network plugin enforces policies.`,
		Example: `  strait lend shop --to a
  strait lend shop jobs --to a --cpu 8 --memory 16Gi --context b
  strait lend shop --to a --dry-run >lender.yaml`,
		Args: atLeastOne("the name of the namespace"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := checkPlan(cmd, output, dry); err != nil {
				return err
			}
			if o.Peering == "" {
				return wrongUsage(cmd, "--to is missing: name the Peering of the cluster whose pods may run here")
			}
			if !slices.Contains(podSecurityLevels, o.Level) {
				return wrongUsage(cmd, "--pod-security: %q is not a level; use one of %s", o.Level, strings.Join(podSecurityLevels, ", "))
			}
			if o.Resources, err = size.resources(cmd); err != nil {
				return err
			}
			ctx := cmd.Context()
			local, err := cluster.open(ctx)
			if err != nil {
				return err
			}
			o.Namespaces = args
			if dry {
				return printPlan(cmd)(offload.PlanLend(ctx, local, o))
			}
			lent, err := offload.Lend(ctx, local, o)
			if err != nil {
				return err
			}
			return printResult(cmd, output, lent, "%s: %s lent to Peering %s.\nIn the remote cluster, go on with strait borrow and strait offload.\n", local.Name, strings.Join(args, ", "), o.Peering)
		},
	}
	cluster.register(c)
	c.Flags().StringVar(&o.Peering, "to", "", "Peering of the cluster whose pods may run here (required)")
	size.register(c, "that the remote cluster sees", "as before, else what all machines have")
	c.Flags().StringVar(&o.Level, "pod-security", o.Level, "Pod Security level of the namespaces: restricted or baseline")
	c.Flags().BoolVar(&o.Isolate, "isolate", false, "keep the pods apart from other pods of this cluster with a NetworkPolicy")
	agentFlags(c, &o.Image, &o.Wait)
	planFlag(c, &dry)
	outputFlag(c, &output)
	_ = c.RegisterFlagCompletionFunc("to", peerings) // fails only for an unknown flag
	completeValues(c, "pod-security", podSecurityLevels)
	c.ValidArgsFunction = namespaces
	return c
}

func agentFlags(c *cobra.Command, image *string, wait *time.Duration) {
	c.Flags().StringVar(image, "image", *image, "image of the agent")
	c.Flags().DurationVar(wait, "wait", *wait, "how long to wait until the agent runs")
}

func planFlag(c *cobra.Command, dry *bool) {
	c.Flags().BoolVar(dry, "dry-run", false, "print the objects that would be applied, as YAML, and exit")
}

// checkPlan returns an error for an output format that the command does not have.
func checkPlan(cmd *cobra.Command, output string, dry bool) error {
	if dry && output != "table" && output != "yaml" {
		return wrongUsage(cmd, "--dry-run prints YAML; remove --output %s", output)
	}
	return nil
}

func printPlan(cmd *cobra.Command) func(offload.Plan, error) error {
	return func(plan offload.Plan, err error) error {
		if err == nil {
			_, err = io.WriteString(cmd.OutOrStdout(), plan.YAML())
		}
		return err
	}
}
