package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/fakekube"
)

// objects is an API server that has the objects of a file, by resource, and no others.
func objects(t *testing.T, file string) *httptest.Server {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	lists := map[string][]any{}
	for _, kind := range []string{"ClusterNetwork", "Peering", "GatewayReport", "NodeAttachment", "AddressClaim", "AddressMapping"} {
		resource := strings.ToLower(kind) + "s"
		kinds[resource], lists[resource] = kind+"List", []any{}
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var object map[string]any
		if err := yaml.Unmarshal(document, &object); err != nil {
			t.Fatal(err)
		}
		resource := strings.ToLower(object["kind"].(string)) + "s"
		lists[resource] = append(lists[resource], object)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/strait.dev/v1alpha1/"), "namespaces/strait-gateways/")
		resource, name, _ := strings.Cut(path, "/")
		items, ok := lists[resource]
		if !ok || r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		for _, item := range items {
			if item.(map[string]any)["metadata"].(map[string]any)["name"] == name {
				_ = json.NewEncoder(w).Encode(item)
				return
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "strait.dev/v1alpha1", "kind": kinds[resource], "metadata": map[string]any{}, "items": items})
	}))
	t.Cleanup(server.Close)
	return server
}

// access makes a kubeconfig of servers the one that commands find.
func access(t *testing.T, servers map[string]string) {
	t.Helper()
	all := clientcmdapi.NewConfig()
	for name, server := range servers {
		all.Clusters[name] = &clientcmdapi.Cluster{Server: server}
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*all, file); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
}

// output runs a command line as run does.
func output(stdin string, args ...string) (stdout, stderr string, code int) {
	root := newRoot()
	var out, errs strings.Builder
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	code = execute(root, args)
	return out.String(), errs.String(), code
}

const (
	readyObjects   = "../../operate/operator/testdata/ready.yaml"
	brokenObjects  = "../../operate/operator/testdata/broken.yaml"
	noPeering      = "../../operate/operator/testdata/none.yaml"
	addressObjects = "../../operate/operator/testdata/addresses.yaml"
)

func TestExitCodesAndErrorsOfCommandsForClusters(t *testing.T) {
	away := httptest.NewServer(nil)
	away.Close()
	bare := httptest.NewServer(http.NotFoundHandler())
	defer bare.Close()
	access(t, map[string]string{"a": objects(t, readyObjects).URL, "none": objects(t, noPeering).URL, "broken": objects(t, brokenObjects).URL,
		"bare": bare.URL, "away": away.URL})
	for _, c := range []struct {
		args string
		want int
		says string
	}{
		{"peer", exitUsage, "--remote-context is missing"},
		{"peer surplus --remote-context b", exitUsage, `"surplus" is one argument too many: strait peer takes none`},
		{"peer --remote-context a --service-type Mesh", exitUsage, "--service-type Mesh: choose NodePort, LoadBalancer or ClusterIP"},
		{"peer --remote-context a --replicas 17", exitUsage, "--replicas 17: use 1 to 16"},
		{"invite b --replicas 0", exitUsage, "--replicas 0: use 1 to 16"},
		{"accept one --replicas 17", exitUsage, "--replicas 17: use 1 to 16"},
		{"peer --remote-context a --name Not-This", exitUsage, `--name: "Not-This" is not a valid name of a Peering`},
		{"peer --remote-context a --wait 0s", exitUsage, "--wait 0s: give a positive duration"},
		{"peer --remote-context a -o xml", exitUsage, "-o xml: no such output format; choose table, json or yaml"},
		{"peer --context a --remote-context c", exitFailed, `remote cluster: there is no context "c"; choose one of: a, away, bare, broken, none`},
		{"peer --context a --remote-context away", exitFailed, "context away: the API server cannot be reached"},
		{"peer --context a --remote-context bare", exitFailed, "context bare: Strait's CRDs are not installed"},
		{"invite", exitUsage, "the name of the Peering"},
		{"invite NOT", exitUsage, "is not a valid name of a Peering"},
		{"invite b --service-type ClusterIP", exitUsage, "the other cluster could not reach the gateways; choose NodePort or LoadBalancer"},
		{"invite b --expires 169h", exitUsage, "--expires 169h: use 1m to 168h"},
		{"invite b --accept-prefixes ten", exitUsage, "--accept-prefixes ten: is not a CIDR"},
		{"invite b --context bare", exitFailed, "Strait's CRDs are not installed"},
		{"accept", exitFailed, "the invite is missing"},
		{"accept one two", exitUsage, `"two" is one argument too many`},
		{"accept one --file two", exitUsage, "exclude each other"},
		{"accept one", exitFailed, "not a token: pass the line that strait invite printed"},
		{"accept --file /nowhere", exitFailed, "--file /nowhere: no such file or directory; check the path"},
		{"accept one --name Not-This", exitUsage, "--name:"},
		{"status --context a", exitOK, ""},
		{"status --context broken", exitFailed, "not all peerings are ready"},
		{"status --context none", exitFailed, "not all peerings are ready"},
		{"status --context a other", exitFailed, "context a: Peering other does not exist; existing Peerings: prod-b"},
		{"status --context a -o tall", exitUsage, "choose table, json, yaml or wide"},
		{"status --context a -o wide --watch", exitUsage, "-o wide goes neither with --watch"},
		{"status --context a --wait=0s", exitUsage, "--wait 0s"},
		{"status --context a --wait", exitOK, ""},
		{"status --context a --wait 5m", exitUsage, "5m is taken for an argument, not for the value of --wait: write --wait=5m"},
		{"status --context broken --wait=1s", exitFailed, "not after 1s: Peering b: no link answers since 09:00"},
		{"status --context a one two --for-remote", exitUsage, "name one"},
		{"status --context none --for-remote", exitFailed, "specify a name (existing Peerings: none)"},
		{"status --kubeconfig /nowhere", exitFailed, "kubeconfig /nowhere: no such file or directory"},
		{"cidr", exitUsage, "strait cidr plan"},
		{"cidr plan", exitUsage, "no CIDR is given"},
		{"cidr plan --context away --remote 169.254.0.0/16", exitUsage, "--remote: 169.254.0.0/16 is "},
		{"cidr plan --remote 10.0.0.0", exitUsage, "--remote 10.0.0.0: is not a CIDR"},
		{"cidr plan --context a --remote 10.0.0.0/16", exitOK, ""},
		{"resolve", exitUsage, "the address is missing"},
		{"resolve here", exitUsage, `"here" is not an IP address`},
		{"resolve 10.71.2.9 --context a", exitOK, ""},
		{"resolve 198.51.100.1 --context a", exitFailed, "Strait does not use 198.51.100.1 in cluster a"},
		{"resolve 10.71.2.9 --context a -o xml", exitUsage, "choose table, json, yaml or address"},
	} {
		_, stderr, code := output("", strings.Fields(c.args)...)
		if code != c.want || !strings.Contains(stderr, c.says) {
			t.Errorf("strait %s ends with %d, want %d, and says %q, want %q in it", c.args, code, c.want, stderr, c.says)
		}
	}
}

func TestStatusPrintsWhatWasAskedFor(t *testing.T) {
	access(t, map[string]string{"a": objects(t, readyObjects).URL})
	table, _, _ := output("", "status", "--context", "a")
	if !strings.Contains(table, "Peering prod-b with cluster b: ready, MTU 1370\n") || !strings.Contains(table, "  10.0.0.0/16   10.71.0.0/16  pods\n") {
		t.Errorf("the table is\n%s", table)
	}
	for form, read := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": func(b []byte, v any) error { return yaml.UnmarshalStrict(b, v) }} {
		text, _, _ := output("", "status", "--context", "a", "-o", form)
		var r operator.Report
		if err := read([]byte(text), &r); err != nil || r.Schema != operator.Schema || !r.Ready || len(r.Peerings) != 1 {
			t.Errorf("-o %s: %v, %+v", form, err, r)
		}
	}
	text, _, _ := output("", "status", "--context", "a", "--for-remote")
	if !strings.HasPrefix(text, "# Apply this in the cluster to be joined with cluster a. It holds public data only.\n# With localPods, ") ||
		!strings.Contains(text, "\napiVersion: strait.dev/v1alpha1\nkind: Peering\nmetadata:\n  name: a\nspec:\n") || strings.Contains(text, "status") {
		t.Errorf("for the other cluster it prints\n%s", text)
	}
}

func TestAddressesAndCIDRsAreExplained(t *testing.T) {
	access(t, map[string]string{"a": objects(t, addressObjects).URL})
	text, _, _ := output("", "resolve", "--context", "a", "10.71.2.9")
	if want := "10.71.2.9: a pod of cluster b, where its address is 10.0.2.9 (Peering prod-b: 10.0.0.0/16 is mapped to 10.71.0.0/16)\n"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	text, _, _ = output("", "resolve", "--context", "a", "-o", "json", "10.71.2.9")
	var r operator.Resolved
	if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Meanings) != 1 || r.Meanings[0].To != "10.0.2.9" {
		t.Errorf("got %s, %v", text, err)
	}
	text, _, _ = output("", "cidr", "plan", "--context", "a", "--remote", "10.0.0.0/16,10.9.0.0/16", "--keep-addresses")
	const want = `REMOTE-CIDR  SEEN-AS       WHY
10.0.0.0/16  10.64.0.0/16  10.0.0.0/16 overlaps this cluster's pod CIDR 10.0.0.0/16
10.9.0.0/16  10.9.0.0/16   10.9.0.0/16 overlaps no prefix in use in this cluster
`
	if text != want {
		t.Errorf("got\n%s, want\n%s", text, want)
	}
}

func TestOneKubeconfigServesBothClusters(t *testing.T) {
	access(t, map[string]string{"a": objects(t, readyObjects).URL, "b": objects(t, readyObjects).URL})
	file := os.Getenv("KUBECONFIG")
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	_, stderr, code := output("", "peer", "--kubeconfig", file, "--context", "a", "--remote-context", "b")
	if want := "strait: context a and context b are the same cluster, a; select the contexts of two clusters\n"; code != exitFailed || stderr != want {
		t.Errorf("ends with %d and says %q, want %q", code, stderr, want)
	}
}

func TestAPeeringIsRotatedAndDeletedAfterDryRuns(t *testing.T) {
	cluster := fakekube.New()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", kubeconfig(t, map[string]*rest.Config{"a": fakekube.Serve(t, cluster.Config())}))
	madeOfAnotherVersion(t, cluster.Client(t)) // Peering b
	for _, c := range []struct{ args, out string }{
		{"rotate-keys b --dry-run", "context a: Peering b would be updated\n"},
		{"rotate-keys b", "context a: the gateways of Peering b use keys of generation 2.\n"},
		{"uninstall --prepare --dry-run", "Peering b would be deleted\n"},
		{"unpeer b --dry-run", "context a: Peering b would be deleted\n"},
		{"unpeer b --yes", "context a: Peering b is deleted, with its gateways and their keys.\nThe other cluster keeps its Peering; delete it there with strait unpeer.\n"},
	} {
		out, stderr, code := output("", append(strings.Fields(c.args), "--context=a")...)
		if code != exitOK || out != c.out {
			t.Errorf("strait %s ends with %d and prints\n%s%s\nwant\n%s", c.args, code, out, stderr, c.out)
		}
	}
	_, stderr, code := output("", "unpeer", "b", "--yes", "--context=a")
	if want := "strait: context a: Peering b does not exist; existing Peerings: none\n"; code != exitFailed || stderr != want {
		t.Errorf("ends with %d and prints %q, want %q", code, stderr, want)
	}
}
