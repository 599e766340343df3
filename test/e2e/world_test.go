//go:build e2e || nightly

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/test/nodes"
	"strait.dev/strait/test/program"
)

// nodesOfEach is the number of nodes of each cluster.
const nodesOfEach = 2

// world is two or more clusters, a, b and so on, with the image on their nodes and nothing
// installed.
type world struct {
	*nodes.Lab
	names    []string // the contexts of the clusters
	clusters []*nodes.Cluster
	a, b     *nodes.Cluster // the first two
	image    string
	path     string // of commands
	failure  string // of the last command of do that failed
}

// nodeNumber returns the number of a node in its cluster, from 1.
func nodeNumber(t *testing.T, cluster, node string) int {
	t.Helper()
	number, err := strconv.Atoi(strings.TrimPrefix(node, cluster+"-node-"))
	must(t, err)
	return number
}

// newWorld starts two clusters with the same pod CIDR, one of them on Flannel.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, nodes.Options{CNI: nodes.Bridge}, nodes.Options{CNI: nodes.FlannelVXLAN})
}

// newWorldOf starts clusters with these options. Their names, indexes and numbers of nodes
// are set here.
func newWorldOf(t *testing.T, all ...nodes.Options) *world {
	t.Helper()
	w := &world{Lab: nodes.New(t)}
	var archive string
	stage(t, "image", func(t *testing.T) {
		binary, err := program.Binary()
		must(t, err)
		w.path = strings.Join([]string{filepath.Dir(binary), w.Programs(), os.Getenv("PATH")}, ":")
		archive, w.image = writeImage(t, w.Dir())
	})
	begun := time.Now()
	for i := range all {
		w.names = append(w.names, string(rune('a'+i)))
		all[i].Name, all[i].Index, all[i].Nodes = w.names[i], i+1, nodesOfEach
	}
	w.clusters = w.Start(t, all...)
	w.a, w.b = w.clusters[0], w.clusters[1]
	for _, c := range w.clusters {
		c.LoadImage(t, archive)
	}
	noteStage("clusters", begun)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s%s", w.state(t), w.failure) // again, below all that
		}
		if peak, err := w.Peak(); err != nil {
			t.Error(err)
		} else {
			note("peak memory %d MiB", peak>>20)
		}
	})
	return w
}

// command returns an operator's command, run in the root of the repository.
func (w *world) command(t *testing.T, name string, args ...string) *exec.Cmd {
	cmd := w.Command(t.Context(), name, args...)
	cmd.Dir = repository
	cmd.Env = append(cmd.Env, "PATH="+w.path, "PLATFORMS=linux-"+runtime.GOARCH) // of make image
	return cmd
}

// do runs a command, which must succeed, and returns its standard output.
func (w *world) do(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	out, err := w.try(t, input, name, args...)
	if err != nil {
		w.failure = fmt.Sprintf("== %s: %v", t.Name(), err)
		t.Fatal(err)
	}
	return out
}

// try runs a command. Its error contains all output.
func (w *world) try(t *testing.T, input, name string, args ...string) (string, error) {
	t.Helper()
	cmd := w.command(t, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, &out, &errs)
	}
	return out.String(), nil
}

// state returns the first diagnostics for a failure.
func (w *world) state(t *testing.T) string {
	var all strings.Builder
	for _, cluster := range w.names {
		for _, args := range []string{
			"get pods --all-namespaces --output=wide", "get events --all-namespaces --sort-by=.lastTimestamp",
			"get clusternetworks,peerings,nodeattachments --output=wide",
			"logs --namespace=strait-system --selector=app.kubernetes.io/component=controller --tail=15 --prefix",
			"logs --namespace=strait-gateways --selector=app.kubernetes.io/component=gateway --tail=15 --prefix",
			"logs --namespace=strait-nodes --selector=app.kubernetes.io/component=node --tail=15 --prefix",
		} {
			cmd := w.Command(context.WithoutCancel(t.Context()), "kubectl", append([]string{"--context=" + cluster}, strings.Fields(args)...)...)
			out, _ := cmd.CombinedOutput() // it may itself be the failure
			fmt.Fprintf(&all, "== %s: kubectl %s\n%s", cluster, args, tail(string(out), 30))
		}
	}
	return all.String()
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines-1):], "")
}
