// Package netns provides tests with kernel network namespaces, which are removed when the
// test ends.
package netns

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"strait.dev/strait/internal/netns"
)

// Namespace is a network namespace. Safe for concurrent use.
type Namespace struct{ *netns.Namespace }

// Tool is a program of the machine, and its Debian package.
type Tool struct{ Name, Package string }

// tools are required for every namespace.
var tools = []Tool{{"ip", "iproute2"}, {"nft", "nftables"}, {"ping", "iputils-ping"}}

// Missing returns in one line why tests with namespaces and these tools cannot run on this
// machine, and the remedy. It is empty if they can.
func Missing(more ...Tool) string {
	if os.Geteuid() != 0 {
		return "left out: network namespaces need root; run the tests of this package with sudo"
	}
	for _, tool := range append(tools[:len(tools):len(tools)], more...) {
		if _, err := exec.LookPath(tool.Name); err != nil {
			return fmt.Sprintf("left out: %s is not installed; run: apt-get install -y %s", tool.Name, tool.Package)
		}
	}
	n, err := netns.New()
	if err != nil {
		return fmt.Sprintf("left out: network namespaces cannot be created (%v); give the container CAP_SYS_ADMIN and CAP_NET_ADMIN", err)
	}
	_ = n.Close() // it is open
	return ""
}

var missing = sync.OnceValue(func() string { return Missing() })

// New creates a namespace, or skips the test with the reason.
func New(t testing.TB) *Namespace {
	t.Helper()
	return create(t, netns.New)
}

// Add creates a namespace with a name, or skips the test with the reason.
func Add(t testing.TB, name string) *Namespace {
	t.Helper()
	return create(t, func() (*netns.Namespace, error) { return netns.Add(name) })
}

func create(t testing.TB, create func() (*netns.Namespace, error)) *Namespace {
	t.Helper()
	if why := missing(); why != "" {
		t.Skip(why)
	}
	inner, err := create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
	n := &Namespace{inner}
	n.IP(t, "link set lo up")
	return n
}

// IP runs one `ip` command per line of script. All must succeed.
func (n *Namespace) IP(t testing.TB, script string) {
	t.Helper()
	if err := n.Namespace.IP(script); err != nil {
		t.Fatal(err)
	}
}

// NFT runs a script of nft, which must succeed.
func (n *Namespace) NFT(t testing.TB, script string) {
	t.Helper()
	if out, err := n.Output(script, exec.Command("nft", "-f", "-")); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, script)
	}
}

// Run runs a command, which must succeed, and returns its output.
func (n *Namespace) Run(t testing.TB, command string, args ...string) string {
	t.Helper()
	out, err := n.Try(command, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// Try runs a command and returns its output.
func (n *Namespace) Try(command string, args ...string) (string, error) {
	return n.Output("", exec.Command(command, args...))
}

// Start runs a command in the background. The returned function waits for its end and
// returns its output.
func (n *Namespace) Start(t testing.TB, command string, args ...string) func() string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := n.In(cmd.Start); err != nil {
		t.Fatal(err)
	}
	return func() string {
		_ = cmd.Wait() // the output contains the error
		return out.String()
	}
}
