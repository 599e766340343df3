package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/operator"
)

// completeWithin is how long somebody who pressed a key waits for a cluster.
const completeWithin = 3 * time.Second

// forms are all forms of output. Which of them a verb has stands in its flag's usage.
var forms = []string{"text", "table", "json", "yaml", "address", "benchstat", "junit"}

// complete gives every verb of a tree what completes its command lines. What a verb takes
// is known from its line of usage and the names of its flags, which are alike everywhere.
func complete(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		by := map[string]cobra.CompletionFunc{
			"context": contexts("kubeconfig"), "remote-context": contexts("remote-kubeconfig", "kubeconfig"),
			"gateway-namespace": namespaces, "namespace": namespaces, "of": peerings,
		}[f.Name]
		if chosen := formsOf(f); chosen != nil {
			by = cobra.FixedCompletions(chosen, cobra.ShellCompDirectiveNoFileComp)
		}
		if _, taken := c.GetFlagCompletionFunc(f.Name); by != nil && !taken {
			_ = c.RegisterFlagCompletionFunc(f.Name, by) // fails only for a flag that is not there
		}
	})
	if c.ValidArgsFunction == nil && c.ValidArgs == nil {
		c.ValidArgsFunction = argumentsOf(c.Use)
	}
	for _, sub := range c.Commands() {
		complete(sub)
	}
}

// formsOf are the forms of output that a flag takes, nil if it is for something else.
func formsOf(f *pflag.Flag) (chosen []string) {
	if f.Name != "output" {
		return nil
	}
	for _, word := range strings.FieldsFunc(f.Usage, func(r rune) bool { return r == ' ' || r == ',' || r == ';' }) {
		if slices.Contains(forms, word) && !slices.Contains(chosen, word) {
			chosen = append(chosen, word)
		}
	}
	return chosen
}

// argumentsOf completes the arguments that a line of usage names, nil if shells do well
// with files.
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

// contexts completes a context of the file that one of these flags names.
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

// asked is the cluster that a command line is about, with the time there is for it.
func asked(cmd *cobra.Command, ask func(context.Context, operator.Cluster) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	var f clusterFlags
	for name, into := range map[string]*string{"kubeconfig": &f.kubeconfig, "context": &f.context} {
		if flag := cmd.Flags().Lookup(name); flag != nil {
			*into = flag.Value.String()
		}
	}
	c, err := f.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	names, err := ask(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

func peerings(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	return asked(cmd, func(ctx context.Context, c operator.Cluster) (names []string, err error) {
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
	return asked(cmd, func(ctx context.Context, c operator.Cluster) (names []string, err error) {
		all, err := c.Client.Namespaces().List(ctx, metav1.ListOptions{})
		for i := range all.Items {
			names = append(names, all.Items[i].Name)
		}
		return names, err
	})
}

// pods completes NAMESPACE/POD: namespaces first, then the pods of the one that is given.
func pods(cmd *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace, _, chosen := strings.Cut(word, "/")
	names, end := asked(cmd, func(ctx context.Context, c operator.Cluster) (names []string, err error) {
		if !chosen {
			all, err := c.Client.Namespaces().List(ctx, metav1.ListOptions{})
			for i := range all.Items {
				names = append(names, all.Items[i].Name+"/")
			}
			return names, err
		}
		all, err := c.Client.Pods(namespace).List(ctx, metav1.ListOptions{})
		for i := range all.Items {
			names = append(names, namespace+"/"+all.Items[i].Name)
		}
		return names, err
	})
	if !chosen {
		end |= cobra.ShellCompDirectiveNoSpace
	}
	return names, end
}
