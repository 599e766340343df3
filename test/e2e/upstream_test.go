//go:build nightly

package e2e

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/offload"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/nodes"
)

// upstreamFiles are the files of Kubernetes' own end-to-end suite whose specs say what pods, their volumes,
// their controllers and their Services do on any node.
var upstreamFiles = []string{
	"common/node/(pods|container_probe|lifecycle_hook|runtime|init_container|containers|downwardapi|expansion|security_context|secrets|configmap|kubelet|ephemeral_containers).go",
	"common/storage/(configmap_volume|downwardapi|downwardapi_volume|empty_dir|projected_combined|projected_configmap|projected_downwardapi|projected_secret|secrets_volume).go",
	"e2e/node/(pods|pre_stop|pod_gc|kubelet_authz).go",
	"apps/(deployment|statefulset|job|replica_set).go",
	"network/service.go",
}

// upstreamLabels selects specs that need neither a feature that is off by default, nor a cluster of their
// own, nor many minutes.
const upstreamLabels = "Conformance && !Serial && !Slow && !Disruptive && !Flaky"

// waived are specs that cannot pass on a node whose pods run in another cluster, each with the reason.
var waived = []struct{ name, why string }{
	{"Ephemeral Containers", "containers that are added to a pod that runs stay in the consumer"},
	{"(HostPort|host port|hostPort|recreate evicted statefulset)", "a twin has no ports of its machine"},
	{"(lifecycle hook|PreStop)", "pods call each other at addresses that they have in the consumer; twins have others"},
	{"(session affinity|serve a basic endpoint|serve endpoints on same port|serve multiport endpoints)", "the shell of the lab's busybox runs its own nc, which lacks options that the suite uses"},
	{"serve a basic image on each replica", "it calls pods through the API server, which is not in the pod network of the lab"},
	{"(consumable via the environment|with various prefixes)", "the shell of the lab's busybox drops variables with a hyphen in their names"},
	{"(KubeletManagedEtcHosts|hostNetwork)", "a twin has nothing of its machine"},
	{"PersistentVolume", "claims are not carried over"},
	{"(ServiceAccount|service account|token)", "a twin has no token for the API server of the consumer"},
	{"(NodePort|LoadBalancer|ExternalName)", "nodes of this cluster cannot be scheduled to in this test, and node ports are not carried over"},
	{"(podname|annotation|labels on modification|namespace)", "downward API volumes have the twin's namespace, and no annotations"},
	{"(pod failure policy|evicted pods|PodFailurePolicy)", "the suite's pods are privileged"},
	{"AllowPrivilegeEscalation", "the suite's image with a setuid program cannot be built here"},
	{"resize", "resources of a pod that runs do not change"},
}

// Specs of Kubernetes' own suite run with the virtual node as the only one that pods are scheduled to.
func TestKubernetesOwnSpecsRunOnTheVirtualNode(t *testing.T) {
	programs := kube.Programs(t, "e2e.test", "ginkgo", "agnhost")
	w := newWorld(t)
	kubectl := func(cluster string, args ...string) string {
		t.Helper()
		return w.do(t, "", "kubectl", append([]string{"--context=" + cluster}, args...)...)
	}
	stage(t, "install", func(t *testing.T) { w.install(t) })
	stage(t, "join", func(t *testing.T) { w.join(t) })
	stage(t, "node", func(t *testing.T) {
		archive := filepath.Join(w.Dir(), "agnhost.tar")
		const upstream = "registry.k8s.io/e2e-test-images/"
		agnhost := filepath.Join(programs, "agnhost")
		tools := map[string]string{
			"/bin/curl":      "#!/bin/sh\nfor url; do :; done\nexec wget -q -T 5 -O - \"$url\"\n",
			"/localhost.crt": "a StatefulSet of the suite is ready when its web server has this file\n",
		}
		must(t, nodes.WriteImage(archive, nodes.Image{
			Names:      []string{upstream + "agnhost:2.63.0", upstream + "agnhost:2.55", upstream + "nginx:1.27-0", upstream + "nginx:1.15-4"},
			Entrypoint: []string{"/agnhost"}, Arguments: []string{"pause"}, Programs: map[string]string{"/agnhost": agnhost, "/agnhost-2": agnhost}, Scripts: tools,
		}))
		busybox := filepath.Join(w.Dir(), "busybox-upstream.tar")
		must(t, nodes.WriteImage(busybox, nodes.Image{Names: []string{upstream + "busybox:1.37.0-1"}, Arguments: []string{"/bin/sh"}}))
		pause := filepath.Join(w.Dir(), "pause.tar")
		must(t, nodes.WriteImage(pause, nodes.Image{Names: []string{"registry.k8s.io/pause:3.10.2"}, Entrypoint: []string{"/bin/sleep", "infinity"}}))
		for _, c := range w.clusters {
			for _, one := range []string{archive, busybox, pause} {
				c.LoadImage(t, one)
			}
		}
		kubectl("a", "create", "namespace", "first")
		w.do(t, "", "strait", "lend", "first", "--to", peering["b"], "--pod-security=baseline", "--pods=200", "--context=b")
		w.do(t, "", "strait", "borrow", "--from", peering["a"], "--context=a")
		w.do(t, "", "strait", "offload", "first", "--to", peering["a"], "--wait=10m", "--context=a")
		kubectl("a", "taint", "node", "strait-"+peering["a"], "strait.dev/remote-")
		kubectl("a", "cordon", "a-node-1", "a-node-2")
	})
	offloading := w.offloadAll(t)
	stage(t, "specs", func(t *testing.T) {
		focus := make([]string, len(upstreamFiles))
		for i, file := range upstreamFiles {
			focus[i] = "--focus-file=" + file
		}
		args := append(append([]string{"--procs=6", "--no-color", "--label-filter=" + upstreamLabels, "--timeout=2h", "--output-dir=" + w.Dir(), "--junit-report=specs.xml"}, focus...),
			filepath.Join(programs, "e2e.test"), "--", "--kubeconfig="+w.Kubeconfig(), "--context=a", "--provider=skeleton", "--allowed-not-ready-nodes=-1", "--minStartupPods=-1",
			"--kubectl-path="+filepath.Join(programs, "kubectl"))
		cmd := w.command(t, filepath.Join(programs, "ginkgo"), args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Logf("the suite ends with: %v", err) // the report says which specs failed
		}
		t.Logf("the end of its output:\n%s", tail(out.String(), 40))
	})
	offloading()
	reports, err := filepath.Glob(filepath.Join(w.Dir(), "*specs.xml")) // named for the suite
	must(t, err)
	if len(reports) != 1 {
		t.Fatalf("the suite wrote the reports %v", reports)
	}
	judgeSpecs(t, reports[0])
}

// offloadAll offloads each namespace that the suite creates, and takes it back when it is deleted, until
// the returned function is called.
func (w *world) offloadAll(t *testing.T) (stop func()) {
	t.Helper()
	clusters := make(map[string]operator.Cluster)
	for name, c := range map[string]*nodes.Cluster{"a": w.a, "b": w.b} {
		of, err := client.New(c.Admin())
		must(t, err)
		clusters[name] = operator.Cluster{Name: name, Client: of}
	}
	api, err := kubernetes.NewForConfig(w.a.Admin())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	seen, err := api.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{LabelSelector: "e2e-run"})
	must(t, err)
	lend := func(name string) (lent bool) {
		_, err := offload.Lend(ctx, clusters["b"], offload.LendOptions{Peering: peering["b"], Namespaces: []string{name}, Level: "baseline", Image: w.image, Wait: time.Minute})
		if lent = err == nil; lent {
			_, err = offload.Offload(ctx, clusters["a"], peering["a"], []string{name})
		}
		if is, gone := api.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil && gone == nil && is.DeletionTimestamp == nil {
			t.Errorf("offload namespace %s: %v", name, err)
		}
		return lent
	}
	var running sync.WaitGroup
	running.Go(func() {
		lent := make(map[string]bool) // false: it was gone already
		var ended []string
		for {
			var enough <-chan time.Time // many are taken back at once, and new ones come first: a spec waits for them
			if len(ended) >= 20 {
				enough = time.After(100 * time.Millisecond)
			}
			select {
			case e, open := <-seen.ResultChan():
				is, ok := e.Object.(*corev1.Namespace)
				switch {
				case !open:
					return
				case !ok:
				case e.Type == watch.Deleted && lent[is.Name]:
					ended = append(ended, is.Name)
				case e.Type == watch.Added:
					lent[is.Name] = lend(is.Name)
				}
			case <-enough:
				_, err := offload.Unlend(ctx, clusters["b"], offload.UnlendOptions{Peering: peering["b"], Namespaces: ended, Wait: time.Minute, Say: func(string) {}})
				if err != nil && ctx.Err() == nil {
					t.Errorf("take back %v: %v", ended, err)
				}
				ended = nil
			}
		}
	})
	return func() { cancel(); seen.Stop(); running.Wait() }
}

// judgeSpecs prints the outcome of each spec, and demands that nine of ten that are not waived passed.
func judgeSpecs(t *testing.T, report string) {
	t.Helper()
	var suites struct {
		Suites []struct {
			Cases []struct {
				Name    string    `xml:"name,attr"`
				Status  string    `xml:"status,attr"`
				Failure *struct { // nil: none
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	text, err := os.ReadFile(report)
	must(t, err)
	must(t, xml.Unmarshal(text, &suites))
	count := make(map[string]int)
	var lines []string
	for _, suite := range suites.Suites {
		for _, c := range suite.Cases {
			if c.Status == "skipped" || !strings.HasPrefix(c.Name, "[It]") {
				continue
			}
			outcome := c.Status
			for _, one := range waived {
				if c.Status != "passed" && regexp.MustCompile(one.name).MatchString(c.Name) {
					outcome = "waived: " + one.why
				}
			}
			kind, _, _ := strings.Cut(outcome, ":")
			count[kind]++
			line := fmt.Sprintf("%s\t%s", outcome, strings.TrimPrefix(c.Name, "[It] "))
			if kind == "failed" && c.Failure != nil {
				line += "\t" + strings.Join(strings.Fields(c.Failure.Message), " ")
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	t.Logf("%v\n%s", count, strings.Join(lines, "\n"))
	if page := os.Getenv("SPECS_PAGE"); page != "" {
		must(t, os.WriteFile(filepath.Join(repository, page), []byte(specsPage(count, lines)), 0o600))
	}
	judged := 0
	for kind, n := range count {
		if kind != "waived" {
			judged += n
		}
	}
	if judged < 100 || count["passed"]*10 < judged*9 {
		t.Errorf("%d of %d specs passed, want at least 100, and nine of ten", count["passed"], judged)
	}
}

// specsPage returns a page with the outcome of each spec.
func specsPage(count map[string]int, lines []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Kubernetes' own specs on the virtual node

Kubernetes' end-to-end suite, with the [virtual node](../explanation/offloading.md) as the only node that pods are scheduled to: %d specs passed, %d failed, and %d are waived because they ask for what twins, or the machine of the test, do not have. Written by `+"`make specs`"+`.

| outcome | spec |
|---|---|
`, count["passed"], count["failed"], count["waived"])
	for _, line := range lines {
		outcome, name, _ := strings.Cut(line, "\t")
		name, _, _ = strings.Cut(name, "\t")
		fmt.Fprintf(&b, "| %s | `%s` |\n", outcome, strings.ReplaceAll(name, "|", "\\|"))
	}
	return b.String()
}
