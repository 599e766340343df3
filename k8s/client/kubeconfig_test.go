package client_test

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"strait.dev/strait/k8s/client"
)

// kubeconfig writes a file with contexts, each with a cluster of its name, of which the
// first is the current one.
func kubeconfig(t *testing.T, contexts ...string) (file string) {
	t.Helper()
	all := clientcmdapi.NewConfig()
	for _, name := range contexts {
		all.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + name + ".example"}
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	}
	all.CurrentContext = contexts[0]
	file = filepath.Join(t.TempDir(), "config")
	must(t, clientcmd.WriteToFile(*all, file))
	return file
}

func TestACommandFindsItsClusterAsKubectlDoes(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	one, two := kubeconfig(t, "a", "b"), kubeconfig(t, "c")
	for _, c := range []struct{ env, path, context, host string }{
		{"", one, "", "https://a.example"},
		{"", one, "b", "https://b.example"},
		{one, "", "", "https://a.example"},
		{one, "", "b", "https://b.example"},
		{one + ":" + two, "", "c", "https://c.example"},
		{one, two, "", "https://c.example"},
	} {
		t.Setenv("KUBECONFIG", c.env)
		config, err := client.UserConfig(c.path, c.context)
		if err != nil || config.Host != c.host {
			t.Errorf("KUBECONFIG=%q, %q, context %q: %v, %v", c.env, c.path, c.context, config, err)
		}
	}
}

func TestTheNamespaceIsThatOfTheContext(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	file := kubeconfig(t, "a", "b")
	all, err := clientcmd.LoadFromFile(file)
	must(t, err)
	all.Contexts["b"].Namespace = "shop"
	must(t, clientcmd.WriteToFile(*all, file))
	for context, want := range map[string]string{"": "default", "a": "default", "b": "shop"} {
		if got, err := client.UserNamespace(file, context); err != nil || got != want {
			t.Errorf("context %q: %q, %v, want %q", context, got, err, want)
		}
	}
}

func TestAClusterThatCannotBeFoundIsExplained(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	file := kubeconfig(t, "a", "b")
	for _, c := range []struct{ path, context, says string }{
		{file, "c", `there is no context "c"; choose one of: a, b`},
		{"", "c", `there is no context "c"; the kubeconfig has no contexts; set --kubeconfig or KUBECONFIG`},
		{"", "", "there is no current context; the kubeconfig has no contexts; set --kubeconfig or KUBECONFIG"},
		{filepath.Join(t.TempDir(), "absent"), "", ": no such file or directory; check the path"},
	} {
		if _, err := client.UserConfig(c.path, c.context); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q, context %q: says %v, and should say %q", c.path, c.context, err, c.says)
		}
		if _, err := client.UserNamespace(c.path, c.context); c.path+c.context != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q, context %q, the namespace: says %v, and should say %q", c.path, c.context, err, c.says)
		}
	}
}

func TestAKubeconfigVariableThatNamesNoFileIsReported(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "/nowhere/a:/nowhere/b")
	const want = "there is no current context; KUBECONFIG names /nowhere/a, /nowhere/b, which does not exist; correct KUBECONFIG or set --kubeconfig"
	if _, err := client.UserConfig("", ""); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
