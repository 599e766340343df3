package client

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// UserConfig returns the configuration for a user's command, found as kubectl finds it:
// from the kubeconfig file at path, or else the files of $KUBECONFIG, or else
// ~/.kube/config, or else that of the pod in which this process runs. context selects one
// of the contexts of the files; if it is empty, the current context is used.
//
// Programs that run in a cluster use Config, which never reads a user's files.
func UserConfig(path, context string) (*rest.Config, error) {
	loader, files, err := userFiles(path, context)
	if err != nil {
		return nil, err
	}
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("there is no current context; %s", remedy(files.Contexts))
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}

// UserNamespace returns the namespace of the context that UserConfig selects, as kubectl
// does: default if the context has none.
func UserNamespace(path, context string) (string, error) {
	loader, _, err := userFiles(path, context)
	if err != nil {
		return "", err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return namespace, nil
}

// userFiles reads the kubeconfig files that UserConfig finds. The context must be one of
// theirs, unless it is empty.
func userFiles(path, context string) (clientcmd.ClientConfig, api.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	files, err := loader.RawConfig()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, files, fmt.Errorf("kubeconfig %s: no such file or directory; check the path", path)
	}
	if err != nil {
		return nil, files, fmt.Errorf("kubeconfig: %w; correct the file, or name another with --kubeconfig", err)
	}
	if _, there := files.Contexts[context]; context != "" && !there {
		return nil, files, fmt.Errorf("there is no context %q; %s", context, remedy(files.Contexts))
	}
	return loader, files, nil
}

// Contexts returns the names of all contexts that UserConfig finds with that path.
func Contexts(path string) ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	files, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return slices.Sorted(maps.Keys(files.Contexts)), nil
}

// remedy says which contexts there are to choose from or, without any, which files to name.
func remedy(contexts map[string]*api.Context) string {
	if len(contexts) > 0 {
		return "choose one of: " + strings.Join(slices.Sorted(maps.Keys(contexts)), ", ")
	}
	files := filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	missing := slices.DeleteFunc(files, func(file string) bool {
		_, err := os.Stat(file)
		return file == "" || err == nil
	})
	if len(missing) > 0 {
		return fmt.Sprintf("KUBECONFIG names %s, which does not exist; correct KUBECONFIG or set --kubeconfig", strings.Join(missing, ", "))
	}
	return "the kubeconfig has no contexts; set --kubeconfig or KUBECONFIG"
}
