package nodes

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/netns"
)

// programs are the programs from test/kube/prepare for labs, and for Command: one per line.
//
//go:embed programs
var programs string

// tools are the machine's programs that nodes need, and their Debian packages.
var tools = []struct{ file, pkg string }{
	{"runc", "runc"}, {"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"nft", "nftables"}, {"iptables", "iptables"}, {"unshare", "util-linux"}, {"busybox", "busybox-static"},
}

// Lab contains clusters. Its methods are for the test's goroutine; Command is safe for
// concurrent use.
type Lab struct {
	ctx      context.Context // ends shortly before the timeout of the test
	dir      string          // all files of the lab
	lock     *os.File
	programs string // their directory
	router   *netns.Namespace
	cgroups  cgroups
	admins   map[string]*rest.Config // by cluster

	mu      sync.Mutex
	running []*process
}

// New creates a lab without clusters, which is removed when the test ends. If a requirement
// is missing the test is skipped with a message.
func New(t testing.TB) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("left out: real nodes need root; run the tests of this package with sudo")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.file); err != nil {
			t.Skipf("left out: %s is not installed; run: apt-get install -y %s", tool.file, tool.pkg)
		}
	}
	l := &Lab{ctx: untilTimeout(t), programs: kube.Programs(t, strings.Fields(programs)...), admins: make(map[string]*rest.Config)}
	removeRemains(t)
	allowWatches(t)
	t.Cleanup(func() { l.end(t) })
	must(t, l.claimFolder())
	var err error
	l.cgroups, err = newCgroups(filepath.Join(l.dir, "cgroups"), filepath.Base(l.dir))
	must(t, err)
	l.router = netns.New(t)
	l.router.Run(t, "sysctl", "-qw", ipv4.forwarding+"=1", ipv6.forwarding+"=1")
	coreDNS, err := l.coreDNSImage()
	must(t, err)
	must(t, writeBusybox(filepath.Join(l.dir, "busybox.tar"), coreDNS))
	return l
}

// untilTimeout returns a context that ends shortly before go test ends the test binary, so
// that a waiting test can report its condition.
func untilTimeout(t testing.TB) context.Context {
	const reserve = 20 * time.Second
	if of, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := of.Deadline(); ok {
			ctx, cancel := context.WithDeadline(t.Context(), end.Add(-reserve))
			t.Cleanup(cancel)
			return ctx
		}
	}
	return t.Context()
}

// allowWatches raises the limit of inotify instances of root to what the daemons of two
// labs need, permanently. It is a limit of the whole machine, often 128.
func allowWatches(t testing.TB) {
	t.Helper()
	const limit, enough = "/proc/sys/fs/inotify/max_user_instances", 1024
	text, err := os.ReadFile(limit)
	must(t, err)
	if is, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || is >= enough {
		return
	}
	if err := os.WriteFile(limit, []byte(strconv.Itoa(enough)), 0); err != nil {
		t.Logf("nodes may fail to start because of the inotify limit: %v; raise sysctl fs.inotify.max_user_instances", err)
	}
}

// Programs returns the directory of the programs of test/kube/prepare.
func (l *Lab) Programs() string { return l.programs }

// Dir returns a directory for files of the test; it is removed with the lab.
func (l *Lab) Dir() string { return l.dir }

// Kubeconfig returns the path of a file with a context per cluster, named like it, with all
// permissions. Its API servers are reachable from where Command runs.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.dir, "kubeconfig") }

// Command returns a command of this machine that runs where it reaches the nodes and the
// API servers of all clusters, with Kubeconfig as its kubeconfig. Programs of
// test/kube/prepare are in its path. Safe for concurrent use.
func (l *Lab) Command(ctx context.Context, command string, args ...string) *exec.Cmd {
	inside := "--net=" + strings.TrimPrefix(l.router.Here(), "netns ")
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{inside, "--", command}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig(), "PATH="+l.programs+":"+os.Getenv("PATH"),
		"HELM_CACHE_HOME="+l.dir, "HELM_CONFIG_HOME="+l.dir, "HELM_DATA_HOME="+l.dir)
	return cmd
}

// Peak returns the peak memory use of the clusters, with pods and images, in bytes.
func (l *Lab) Peak() (int64, error) { return l.cgroups.peak() }

// end may be called at any stage.
func (l *Lab) end(t testing.TB) {
	for i := len(l.running) - 1; i >= 0; i-- { // nodes before their control plane
		if err := l.running[i].ended(); err != nil && t.Failed() {
			t.Log(err)
		}
		l.running[i].kill()
	}
	if l.dir == "" {
		return
	}
	if err := removeLab(l.dir); err != nil {
		t.Error(err)
	}
	_ = l.lock.Close()
}

// start runs a program of the lab until the lab ends. Safe for concurrent use.
func (l *Lab) start(p *process) (*process, error) {
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = append(l.running, p)
	return p, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
