package main

import (
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrongInputs holds the errors of wrong inputs in testdata/errors.golden, which
// make generate writes. Every line of an error has the prefix, and every error a remedy.
func TestWrongInputs(t *testing.T) {
	golden, err := filepath.Abs("testdata/errors.golden")
	if err != nil {
		t.Fatal(err)
	}
	away := httptest.NewServer(nil)
	away.Close()
	access(t, map[string]string{"a": objects(t, readyObjects).URL, "away": away.URL})
	usable := os.Getenv("KUBECONFIG")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("POD_NAMESPACE", "")
	t.Setenv("POD_NAME", "")
	t.Chdir(t.TempDir())
	writeGatewayConfigs(t)
	var b strings.Builder
	for _, c := range []struct{ about, kubeconfig, args string }{
		{"an unknown command", usable, "stauts"},
		{"an unknown subcommand", usable, "cidr pln"},
		{"an unknown flag", usable, "status --contxt a"},
		{"text instead of a number", usable, "peer --remote-context a --replicas many"},
		{"text instead of a duration", usable, "peer --remote-context a --wait soon"},
		{"an unknown choice", usable, "peer --remote-context a --service-type Mesh"},
		{"an unknown output format", usable, "status -o tall"},
		{"a flag without a value", usable, "status --context"},
		{"flags that exclude each other", usable, "preflight --report --remote-context a"},
		{"no remote cluster", usable, "peer --context a"},
		{"an unknown context", usable, "status --context b"},
		{"a file that does not exist", usable, "accept --file /nowhere/b.invite"},
		{"a directory instead of a file", usable, "bench compare . ."},
		{"a KUBECONFIG that does not exist", "/nowhere/config", "status"},
		{"text instead of a CIDR, checked before the cluster is contacted", usable, "cidr plan --context away --remote ten"},
		{"a CIDR that cannot be mapped, checked before the cluster is contacted", usable, "cidr plan --context away --remote 127.0.0.0/8"},
		{"an arrow that is not quoted", usable, "trace default/web -"},
		{"the name of a Service of one cluster", usable, "trace default/web cart.shop.svc.cluster.local:80"},
		{"a short name of a Service", usable, "trace default/web cart:80"},
		{"a format that a list does not have", usable, "bench --list -o benchstat"},
		{"a negative time to wait, where the value is optional", usable, "status --wait -1s"},
		{"a negative time to wait", usable, "peer --remote-context a --wait -1s"},
		{"a time to wait as a separate word", usable, "export shop/cart --wait 5m"},
		{"a time to wait as a separate word, of a check", usable, "dns check --wait 5m"},
		{"a negative timeout", usable, "status --request-timeout -5s"},
		{"a timeout of nothing", usable, "verify --short --request-timeout 0s"},
		{"a flag that is like no other", usable, "status --yes"},
		{"one letter of a flag", usable, "status --v"},
		{"help of an unknown command", usable, "help foo"},
		{"help of an unknown subcommand", usable, "help dns chekc"},
		{"a group without its subcommand", usable, "dns"},
		{"another group without its subcommand", usable, "cidr"},
		{"a deletion that cannot ask", usable, "unpeer b --context away"},
		{"a deletion of exports that cannot ask", usable, "unexport shop/cart --context away"},
		{"a preparation that cannot ask", usable, "uninstall --prepare --context away"},
		{"a replacement that cannot ask", usable, "invite b --replace --context away"},
		{"a disruption that cannot ask", usable, "verify --disrupt --context a --remote-context away"},
		{"a removal from the node that cannot ask", usable, "node --remove"},
		{"a directory for the result of a benchmark", usable, "bench --file ."},
		{"a directory for the page of a benchmark", usable, "bench --html ."},
		{"a folder that does not exist for the result", usable, "bench peer --json /nowhere/result.json"},
		{"a directory for the report", usable, "bench peer --report ."},
		{"a directory for the bundle", usable, "gather --context away --file ."},
		{"a directory for packets", usable, "capture b-0 --context away --file ."},
		{"a directory for JUnit XML", usable, "verify --context away --junit ."},
		{"a kubeconfig that is text", usable, "status --kubeconfig garbage.key"},
		{"a kubeconfig that is not YAML", usable, "status --kubeconfig garbage.yaml"},
		{"a kubeconfig of another kind", usable, "status --kubeconfig wrong.yaml"},
		{"a kubeconfig without an end", usable, "status --kubeconfig /dev/zero"},
		{"a kubeconfig that is a directory", usable, "status --kubeconfig ."},
		{"a KUBECONFIG without an end", "/dev/zero", "status"},
		{"a kubeconfig of a program without an end", usable, "node --node node-1 --kubeconfig /dev/zero"},
		{"a kubeconfig of a program that is text", usable, "node --node node-1 --kubeconfig garbage.key"},
		{"a context whose cluster is missing", "incomplete.kubeconfig", "status --context no-cluster"},
		{"a context whose user is missing", "incomplete.kubeconfig", "status --context no-user"},
		{"a context whose cluster has no server", "incomplete.kubeconfig", "services shop/cart --context no-server"},
		{"a current context that is missing", "incomplete.kubeconfig", "status"},
		{"a configuration without an end", usable, "gateway --config /dev/zero --check"},
		{"a key without an end", usable, "gateway --config endless.yaml --check"},
		{"an invite without an end", usable, "accept --file /dev/zero"},
		{"a template without an end", usable, "controller --namespace x --identity y --gateway-template /dev/zero"},
		{"a template of nodes without an end", usable, "controller --namespace x --identity y --node-template /dev/zero"},
		{"a ClusterNetwork without an end", usable, "controller --namespace x --identity y --cluster-network /dev/zero"},
		{"a result without an end", usable, "bench compare /dev/zero /dev/zero"},
		{"keys that cannot be used", usable, "gateway --config wrong.yaml --check"},
		{"a key that other users can read", usable, "gateway --config open.yaml --check"},
	} {
		t.Setenv("KUBECONFIG", c.kubeconfig)
		_, stderr, code := output("", strings.Fields(c.args)...)
		fmt.Fprintf(&b, "# %s\n$ strait %s\n%s(exit code %d)\n\n", c.about, c.args, stderr, code)
		for line := range strings.Lines(stderr) {
			if !strings.HasPrefix(line, errorPrefix) {
				t.Errorf("strait %s: a line without %q: %s", c.args, errorPrefix, line)
			}
		}
		for _, artefact := range []string{"strconv", "time: ", "open /", "open .", "stat /", "[", "<nil>", "%!"} {
			if strings.Contains(strings.ReplaceAll(stderr, "peers[", ""), artefact) {
				t.Errorf("strait %s: %q in the error %s", c.args, artefact, stderr)
			}
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil || b.String() != string(want) {
		t.Errorf("testdata/errors.golden differs (%v): if the errors are as they should be, run make generate; now they are\n%s", err, b.String())
	}
}

// writeGatewayConfigs writes two configurations with their keys to the current directory:
// wrong.yaml, whose keys cannot be used, and open.yaml, whose key every user can read.
func writeGatewayConfigs(t *testing.T) {
	t.Helper()
	key := base64.StdEncoding.EncodeToString(append(make([]byte, 31), 64))
	config := func(private, preshared string) string {
		return fmt.Sprintf(`apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: a
overlay:
  listen: "127.0.0.1:6091"
  addresses: [10.80.0.1]
  nodes:
  - {name: node-1, underlay: 127.0.0.2, vni: 101, addresses: [10.80.0.11], prefixes: [10.0.1.0/24]}
wireguard:
  listenPort: 51840
  privateKeyFile: %s
  peers:
  - {name: b-0, publicKey: %q, presharedKeyFile: missing.psk}
  - {name: b-1, publicKey: %q, presharedKeyFile: %s}
local: {prefixes: [10.0.0.0/16]}
remote: {cluster: b, prefixes: [{cidr: 10.0.0.0/16, seenAs: 10.71.0.0/16}]}
`, private, base64.StdEncoding.EncodeToString(append(make([]byte, 31), 9)), base64.StdEncoding.EncodeToString(append(make([]byte, 31), 10)), preshared)
	}
	for name, text := range map[string]string{
		"wrong.yaml": config("garbage.key", "."), "open.yaml": strings.Replace(config("open.key", "open.key"), ", presharedKeyFile: missing.psk", "", 1),
		"endless.yaml": config("/dev/zero", "open.key"),
		"garbage.key":  "secret garbage", "open.key": key, "garbage.yaml": "clusters:\n  - a: [\nb",
		"incomplete.kubeconfig": `apiVersion: v1
kind: Config
current-context: gone
clusters:
- {name: here, cluster: {server: "https://192.0.2.1:6443"}}
- {name: bare, cluster: {}}
contexts:
- {name: no-cluster, context: {cluster: missing, user: ""}}
- {name: no-user, context: {cluster: here, user: missing}}
- {name: no-server, context: {cluster: bare}}
`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod("open.key", 0o644); err != nil {
		t.Fatal(err)
	}
}
