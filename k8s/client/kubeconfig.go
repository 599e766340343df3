package client

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"strait.dev/strait/internal/smallfile"
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
	if clientcmd.IsEmptyConfig(err) && len(files.Contexts) == 0 {
		return nil, &NoContextError{remedy(nil)}
	}
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("there is no current context; %s", remedy(files.Contexts))
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}

// NoContextError is the error of UserConfig without any context to choose from.
type NoContextError struct{ remedy string }

func (e *NoContextError) Error() string { return "there is no current context; " + e.remedy }

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
	if err := checkFiles(rules); err != nil {
		return nil, api.Config{}, err
	}
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
	return loader, files, checkContext(&files, cmp.Or(context, files.CurrentContext))
}

func checkContext(files *api.Config, name string) error {
	context := files.Contexts[name]
	switch {
	case name == "":
		return nil
	case context == nil:
		return fmt.Errorf("there is no context %q, which the kubeconfig names as its current one; %s", name, remedy(files.Contexts))
	case context.Cluster == "":
		return fmt.Errorf("kubeconfig: context %q names no cluster; add it to the context, or select another context", name)
	case files.Clusters[context.Cluster] == nil:
		return fmt.Errorf("kubeconfig: context %q names cluster %q, which has no entry; add the entry, or select another context", name, context.Cluster)
	case files.Clusters[context.Cluster].Server == "":
		return fmt.Errorf("kubeconfig: cluster %q of context %q has no server; add its URL, or select another context", context.Cluster, name)
	case context.AuthInfo != "" && files.AuthInfos[context.AuthInfo] == nil:
		return fmt.Errorf("kubeconfig: context %q names user %q, which has no entry; add the entry, or select another context", name, context.AuthInfo)
	}
	return nil
}

// checkFiles returns an error for a file that is too large or no kubeconfig. Missing files
// are left to the loader, as are pipes, which can be read only once.
func checkFiles(rules *clientcmd.ClientConfigLoadingRules) error {
	files := rules.Precedence
	if rules.ExplicitPath != "" {
		files = []string{rules.ExplicitPath}
	}
	for _, file := range files {
		if err := checkFile(file); err != nil {
			return fmt.Errorf("kubeconfig %s: %w; correct the file, or name another with --kubeconfig", file, err)
		}
	}
	return nil
}

// yamlLine is the part of an error of the YAML parser that is for people.
var yamlLine = regexp.MustCompile(`yaml: (line \d+: [^\n]+)`)

// checkFile returns what is wrong with a kubeconfig file, without its path.
func checkFile(file string) error {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) || file == "" || err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return nil
	}
	text, err := smallfile.Read(file, smallfile.Configuration)
	var at *fs.PathError
	switch {
	case errors.As(err, &at):
		return at.Err
	case err != nil:
		return err
	}
	// The parser's own errors describe its Go types.
	if _, err := clientcmd.Load(text); err != nil {
		if found := yamlLine.FindStringSubmatch(err.Error()); found != nil {
			return fmt.Errorf("is not a kubeconfig: %s", found[1])
		}
		return errors.New("is not a kubeconfig, which is YAML with apiVersion: v1 and kind: Config")
	}
	return nil
}

// Contexts returns the names of all contexts that UserConfig finds with that path.
func Contexts(path string) ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	if err := checkFiles(rules); err != nil {
		return nil, err
	}
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
