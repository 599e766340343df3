package client

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// UserConfig is the configuration that a person's command uses, found as kubectl finds
// it: the kubeconfig file at path, or else the files of $KUBECONFIG, or else
// ~/.kube/config, or else that of the pod which this process runs in. Context chooses
// among the contexts of the files; if it is empty, it is the current one.
//
// Programs that run in a cluster use Config, which never takes a person's files.
func UserConfig(path, context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	files, err := loader.RawConfig()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no kubeconfig %s; name another file with --kubeconfig", path)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if _, there := files.Contexts[context]; context != "" && !there {
		return nil, fmt.Errorf("there is no context %q; choose one of: %s", context, listed(slices.Sorted(maps.Keys(files.Contexts))))
	}
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("no cluster is known: there is no current context; name a file with --kubeconfig and a context with --context (%s), or set KUBECONFIG",
			listed(slices.Sorted(maps.Keys(files.Contexts))))
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}

// Contexts are the names of all contexts that UserConfig finds with that path.
func Contexts(path string) ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	files, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return slices.Sorted(maps.Keys(files.Contexts)), nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none is there"
	}
	return strings.Join(names, ", ")
}
