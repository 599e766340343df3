//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/test/fakekube"
)

// terminal returns a terminal on which a person has typed a line already.
func terminal(t *testing.T, typed string) *os.File {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals on this machine: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	if _, err := person.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	return program
}

func TestCommandsThatInterruptTrafficAskOnATerminal(t *testing.T) {
	cluster := fakekube.New()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", kubeconfig(t, map[string]*rest.Config{"a": fakekube.Serve(t, cluster.Config())}))
	madeOfAnotherVersion(t, cluster.Client(t)) // Peering b
	for _, c := range []struct{ args, asks string }{
		{"unpeer b --context a", "Delete Peering b in context a? Connections between the clusters end at once. [y/N] "},
		{"unexport shop/cart --context a", "End the export of shop/cart in context a? Clusters that import it lose its endpoints in this cluster. [y/N] "},
		{"uninstall --prepare --context a", "Delete all Peerings and AddressMappings in context a? Connections to other clusters end at once. [y/N] "},
		{"invite b --replace --context a", "Delete Peering b in context a if it is in use? Its connections end at once. [y/N] "},
		{"node --remove", "Remove all settings of Strait from this node? Its pods lose their connections to other clusters. [y/N] "},
	} {
		for _, answer := range []string{"n\n", "\n", "perhaps\n"} {
			root := newRoot()
			var errs strings.Builder
			root.SetIn(terminal(t, answer))
			root.SetErr(&errs)
			if code := execute(root, strings.Fields(c.args)); code != exitFailed || errs.String() != c.asks+"strait: nothing was changed\n" {
				t.Errorf("strait %s, answered with %q, ends with %d and says\n%s\nwant\n%s", c.args, answer, code, errs.String(), c.asks)
			}
		}
	}
	if all, err := cluster.Client(t).Peerings().Get(t.Context(), "b", metav1.GetOptions{}); err != nil || all.DeletionTimestamp != nil {
		t.Fatalf("without consent: %v, %v", all, err)
	}
	root := newRoot()
	var out strings.Builder
	root.SetIn(terminal(t, "y\n"))
	root.SetOut(&out)
	root.SetErr(&out)
	if code := execute(root, strings.Fields("unpeer b --context a")); code != exitOK || !strings.Contains(out.String(), "Peering b is deleted") {
		t.Errorf("with consent it ends with %d and says\n%s", code, out.String())
	}
}

// No dry run asks: nothing is changed.
func TestDryRunsDoNotAsk(t *testing.T) {
	cluster := fakekube.New()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", kubeconfig(t, map[string]*rest.Config{"a": fakekube.Serve(t, cluster.Config())}))
	madeOfAnotherVersion(t, cluster.Client(t)) // Peering b
	for _, args := range []string{"unpeer b --dry-run", "unexport shop/cart --dry-run", "uninstall --prepare --dry-run", "invite b --replace --dry-run"} {
		if _, stderr, _ := output("", append(strings.Fields(args), "--context=a")...); strings.Contains(stderr, "--yes") {
			t.Errorf("strait %s says %s", args, stderr)
		}
	}
}
