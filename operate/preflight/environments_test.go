package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/node"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/test/fakekube"
)

const goldenFindings = "findings.golden.txt"

var update = flag.Bool("update", false, "write the golden files anew")

// described is the first document of an input: what a cluster reports apart from its objects,
// which are the other documents.
type described struct {
	Name    string                     // of the environment
	Page    string                     // in docs/how-to/environments; empty: none
	Tests   []string                   // of packets in such an environment: a file and a name in it, as in a_test.go: TestA
	Version string                     // of the API server
	APIs    map[string]json.RawMessage // responses by path, of resources that the API server of the test lacks
	Refusal string                     // why an admission plugin refuses pods in the host network; empty: it admits them
	Report  json.RawMessage            // of each node, a node.Inspection
	Reports map[string]json.RawMessage // fields that differ, by node
}

// inspection returns the report of a node.
func (d *described) inspection(t *testing.T, name string) (is node.Inspection) {
	t.Helper()
	for _, text := range []json.RawMessage{d.Report, d.Reports[name]} {
		if text != nil {
			decoder := json.NewDecoder(bytes.NewReader(text))
			decoder.DisallowUnknownFields()
			must(t, decoder.Decode(&is))
		}
	}
	is.Time = time.Now()
	return is
}

// readEnvironment reads an input.
func readEnvironment(t *testing.T, file string) (d described, objects []runtime.Object) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	if !bytes.HasPrefix(text, []byte("# Source: ")) {
		t.Errorf("%s does not begin with its source", file)
	}
	for i, document := range strings.Split(string(text), "\n---\n") {
		if i == 0 {
			must(t, yaml.UnmarshalStrict([]byte(document), &d))
			continue
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%s, document %d: %v", file, i+1, err)
		}
		objects = append(objects, object)
	}
	return d, objects
}

// describedNodes are the agents on the nodes of an input. UDP passes between them.
type describedNodes struct {
	agents  map[string]agents.Agent
	nodes   map[string]*corev1.Node
	reports map[string]node.Inspection // by node
}

func (n *describedNodes) Exec(ctx context.Context, name string, stdin io.Reader, stdout io.Writer, args ...string) error {
	switch strings.Join(args[:2], " ") {
	case "agent node":
		return json.NewEncoder(stdout).Encode(n.reports[n.agents[name].Node])
	case "agent serve":
		<-ctx.Done()
		return ctx.Err()
	case "agent probe":
		var o endpoint.Order
		if err := json.NewDecoder(stdin).Decode(&o); err != nil {
			return err
		}
		return json.NewEncoder(stdout).Encode(make([]endpoint.Result, len(o.Sequences)))
	}
	return fmt.Errorf("unexpected command %q", args)
}

func (n *describedNodes) Pod(name string) *corev1.Pod {
	pod := new(corev1.Pod)
	for _, a := range n.nodes[n.agents[name].Node].Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: a.Address})
		}
	}
	return pod
}

func (n *describedNodes) Service(context.Context, string, string, corev1.ServiceType, ...corev1.ServicePort) (*corev1.Service, error) {
	return nil, errors.New("there is one cluster")
}

func (n *describedNodes) End(context.Context) error { return nil }

// Each directory in testdata/environments describes a cluster of a provider or distribution
// in input.yaml. The findings are those of strait preflight, as it prints them.
func TestPreflightOfEachEnvironmentPrintsTheExpectedFindings(t *testing.T) {
	for _, input := range environmentInputs(t) {
		t.Run(filepath.Base(filepath.Dir(input)), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { checkEnvironment(t, input) })
		})
	}
}

func environmentInputs(t *testing.T) []string {
	t.Helper()
	inputs, err := filepath.Glob("testdata/environments/*/input.yaml")
	must(t, err)
	if len(inputs) == 0 {
		t.Fatal("no inputs")
	}
	return inputs
}

//strait:virtualtime
func checkEnvironment(t *testing.T, input string) {
	t.Helper()
	d, objects := readEnvironment(t, input)
	cluster := fakekube.New(objects...)
	cluster.DeleteCRDs()
	cluster.Handle("/version", answer(func() []byte { return fmt.Appendf(nil, `{"gitVersion":%q}`, d.Version) }))
	for path, response := range d.APIs {
		cluster.Handle(path, answer(func() []byte { return response }))
	}
	o := Options{Local: clusterOf(t, "context a", cluster.Config())}
	if d.Refusal != "" {
		cluster.Fail(func(q fakekube.Request) error {
			if q.Verb == "create" && q.Resource == "pods" && strings.HasSuffix(q.Namespace, "-host") {
				return apierrors.NewForbidden(corev1.Resource("pods"), "node-0", errors.New(d.Refusal))
			}
			return nil
		})
	} else {
		nodes, reports := make(map[string]*corev1.Node), make(map[string]node.Inspection)
		for _, object := range objects {
			if n, is := object.(*corev1.Node); is {
				nodes[n.Name], reports[n.Name] = n, d.inspection(t, n.Name)
			}
		}
		o.start = func(_ context.Context, _ agents.Options, all ...agents.Agent) (podGroup, error) {
			group := &describedNodes{agents: make(map[string]agents.Agent), nodes: nodes, reports: reports}
			for _, a := range all {
				group.agents[a.Name] = a
			}
			return group, nil
		}
	}
	all, err := Run(t.Context(), o)
	must(t, err)
	var got bytes.Buffer
	must(t, findings.Table(&got, all))
	golden := filepath.Join(filepath.Dir(input), goldenFindings)
	if *update {
		must(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if got.String() != string(want) {
		t.Errorf("the findings differ from %s; if they are right, run the test with -update:\n%s", golden, got.String())
	}
}

// answer returns a handler with one response.
func answer(body func() []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
		_, _ = w.Write(body()) // into memory
	})
}

// The markers of the table of environments in its page.
const (
	compatibility = "../../docs/reference/compatibility.md"
	tableBegins   = "<!-- The table is written by make generate. -->\n\n"
	tableEnds     = "\n<!-- End of the table. -->"
)

func TestTheTableOfEnvironmentsIsCurrent(t *testing.T) {
	text, err := os.ReadFile(compatibility)
	must(t, err)
	before, rest, begins := strings.Cut(string(text), tableBegins)
	got, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s lacks the markers of the table", compatibility)
	}
	want := environmentTable(t)
	if *update {
		must(t, os.WriteFile(compatibility, []byte(before+tableBegins+want+tableEnds+after), 0o644))
	} else if got != want {
		t.Errorf("the table of environments in %s is out of date; run: make generate\n%s", compatibility, want)
	}
}

// perCluster are checks whose results depend on a cluster's nodes and DNS server rather than
// on its environment. The table leaves them out.
var perCluster = []string{"STRAIT-N005", "STRAIT-D001"}

func environmentTable(t *testing.T) string {
	t.Helper()
	var table strings.Builder
	table.WriteString("| environment | packets tested | errors | warnings | all findings |\n|---|---|---|---|---|\n")
	for _, input := range environmentInputs(t) {
		d, _ := readEnvironment(t, input)
		name, tested := d.Name, "no"
		if d.Page != "" {
			name = fmt.Sprintf("[%s](../how-to/environments/%s)", d.Name, d.Page)
		}
		var tests []string
		for _, test := range d.Tests {
			tests = append(tests, testedBy(t, test))
		}
		if len(tests) > 0 {
			tested = strings.Join(tests, "; ")
		}
		golden := filepath.Join(filepath.Dir(input), goldenFindings)
		text, err := os.ReadFile(golden)
		must(t, err)
		fmt.Fprintf(&table, "| %s | %s | %s | %s | [text](../../operate/preflight/%s) |\n", name, tested, codesOf(string(text), "ERROR"), codesOf(string(text), "WARNING"), golden)
	}
	return table.String()
}

// testedBy returns the entry of a test in the table, with the command that runs it. It fails
// if the test does not exist.
func testedBy(t *testing.T, test string) string {
	t.Helper()
	file, name, _ := strings.Cut(test, ": ")
	text, err := os.ReadFile(filepath.Join("../..", file))
	must(t, err)
	tier, _, _ := strings.Cut(strings.TrimPrefix(string(text), "//go:build "), "\n")
	what := "rules of " + name
	switch {
	case strings.Contains(string(text), fmt.Sprintf("func %s(t *testing.T)", name)):
		what = "`" + name + "`"
	case !strings.Contains(string(text), fmt.Sprintf("name: %q", name)):
		t.Errorf("%s has no test %s", file, name)
	}
	return fmt.Sprintf("%s (`make %s`)", what, tier)
}

// codesOf returns the codes of a section of a golden file as links, without those of
// perCluster.
func codesOf(text, section string) string {
	_, rest, found := strings.Cut("\n"+text, "\n"+section+"\n")
	if !found {
		return "none"
	}
	rest, _, _ = strings.Cut(rest, "\n\n")
	var codes []string
	for line := range strings.Lines(rest) {
		code, _, _ := strings.Cut(strings.TrimPrefix(line, "  "), " ")
		link := fmt.Sprintf("[%s](../troubleshooting/STRAIT-%[1]s.md)", strings.TrimPrefix(code, "STRAIT-"))
		if strings.HasPrefix(code, "STRAIT-") && !slices.Contains(perCluster, code) && !slices.Contains(codes, link) {
			codes = append(codes, link)
		}
	}
	if len(codes) == 0 {
		return "none"
	}
	return strings.Join(codes, ", ")
}
