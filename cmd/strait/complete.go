package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/operator"
)

// completeWithin is how long a completion waits for a cluster.
const completeWithin = 3 * time.Second

// complete registers the completions of every command of a tree. They follow from the names
// of its flags and from its usage line.
func complete(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		by := map[string]cobra.CompletionFunc{
			"context": contexts("kubeconfig"), "remote-context": contexts("remote-kubeconfig", "kubeconfig"),
			"gateway-namespace": namespaces, "namespace": namespaces, "of": peerings,
		}[f.Name]
		if formats := formatsOf(f); formats != nil {
			by = cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
		}
		if _, taken := c.GetFlagCompletionFunc(f.Name); by != nil && !taken {
			_ = c.RegisterFlagCompletionFunc(f.Name, by) // fails only for an unknown flag
		}
	})
	if c.ValidArgsFunction == nil && c.ValidArgs == nil {
		c.ValidArgsFunction = argumentsOf(c.Use)
	}
	for _, sub := range c.Commands() {
		complete(sub)
	}
}

// completeValues completes a flag of a command that has one of some values.
func completeValues[S ~string](c *cobra.Command, flag string, values []S) {
	var words []string
	for _, v := range values {
		words = append(words, string(v))
	}
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
}

// argumentsOf returns the completion of the arguments that a usage line names, nil for the
// shell's completion of files.
func argumentsOf(use string) cobra.CompletionFunc {
	switch {
	case strings.Contains(use, "PEERING"):
		return peerings
	case strings.Contains(use, "POD"):
		return pods
	case strings.Contains(use, "FILE"), strings.Contains(use, ".json"):
		return nil
	}
	return cobra.NoFileCompletions
}

// contexts completes the contexts of the file that one of these flags names.
func contexts(flags ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		path := ""
		for _, name := range slices.Backward(flags) {
			if f := cmd.Flags().Lookup(name); f != nil && f.Value.String() != "" {
				path = f.Value.String()
			}
		}
		names, err := client.Contexts(path)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// namesIn returns names of objects in the cluster that the command line selects.
func namesIn(cmd *cobra.Command, list func(context.Context, operator.Cluster) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	var f clusterFlags
	for name, into := range map[string]*string{"kubeconfig": &f.kubeconfig, "context": &f.context, "as": &f.user} {
		if flag := cmd.Flags().Lookup(name); flag != nil {
			*into = flag.Value.String()
		}
	}
	c, err := f.choose()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	names, err := list(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

func peerings(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	return namesIn(cmd, func(ctx context.Context, c operator.Cluster) (names []string, err error) {
		all, err := c.Peerings(ctx)
		for i := range all {
			if !slices.Contains(given, all[i].Name) {
				names = append(names, all[i].Name)
			}
		}
		return names, err
	})
}

func namespaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return namesIn(cmd, func(ctx context.Context, c operator.Cluster) ([]string, error) {
		return namesOf(ctx, c.Client.Namespaces())
	})
}

// pods completes one NAMESPACE/POD.
func pods(cmd *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return namesInNamespaces((*client.Client).Pods)(cmd, given, word)
}

// namesOf returns the names of all objects of a resource type.
func namesOf[T client.Object, L client.List](ctx context.Context, kind *client.Kind[T, L]) (names []string, err error) {
	all, err := kind.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(all, func(one runtime.Object) error {
		names = append(names, one.(T).GetName())
		return nil
	})
	return names, err
}

// namesInNamespaces completes NAMESPACE/NAME: first the namespaces, then the names in the
// given one. Names in the namespace of --namespace are completed alone.
func namesInNamespaces[T client.Object, L client.List](kind func(c *client.Client, namespace string) *client.Kind[T, L]) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		namespace, _, chosen := strings.Cut(word, "/")
		prefix := namespace + "/"
		if f := cmd.Flags().Lookup("namespace"); f != nil && f.Value.String() != "" {
			namespace, prefix, chosen = f.Value.String(), "", true
		}
		if !chosen {
			names, end := namespaces(cmd, nil, word)
			for i := range names {
				names[i] += "/"
			}
			return names, end | cobra.ShellCompDirectiveNoSpace
		}
		return namesIn(cmd, func(ctx context.Context, c operator.Cluster) ([]string, error) {
			names, err := namesOf(ctx, kind(c.Client, namespace))
			for i := range names {
				names[i] = prefix + names[i]
			}
			return names, err
		})
	}
}
