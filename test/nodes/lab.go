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

// programs are those of test/kube/prepare that a lab consists of, and those that Command is
// for: one on a line.
//
//go:embed programs
var programs string

// tools are what nodes need of the machine, and the Debian packages that have them.
var tools = []struct{ file, pkg string }{
	{"runc", "runc"}, {"/usr/lib/cni/bridge", "containernetworking-plugins"},
	{"nft", "nftables"}, {"unshare", "util-linux"}, {"busybox", "busybox-static"},
}

// Lab is what clusters stand in. Its methods are for the test's goroutine, but Command.
type Lab struct {
	ctx      context.Context // of what the lab waits for: ends when the test is about to run out of time
	dir      string          // everything that the lab writes
	lock     *os.File
	programs string // their folder
	router   *netns.Namespace
	cgroups  cgroups
	admins   map[string]*rest.Config // by the cluster

	mu      sync.Mutex
	running []*process
}

// New makes a lab without clusters that ends with the test. Where something is missing the
// test is skipped, and says what.
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
	l.router.Run(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	must(t, writeBusybox(filepath.Join(l.dir, "busybox.tar")))
	return l
}

// untilTimeout ends shortly before go test ends the test binary, so that a test that waits in vain can say for what.
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

// allowWatches raises how many watchers of files root may have to what the daemons of two
// labs need, and leaves it there. It is a limit of the whole machine, often 128.
func allowWatches(t testing.TB) {
	t.Helper()
	const limit, enough = "/proc/sys/fs/inotify/max_user_instances", 1024
	text, err := os.ReadFile(limit)
	must(t, err)
	if is, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || is >= enough {
		return
	}
	if err := os.WriteFile(limit, []byte(strconv.Itoa(enough)), 0); err != nil {
		t.Logf("nodes may not start for want of watchers: %v; raise sysctl fs.inotify.max_user_instances", err)
	}
}

// Programs is the folder of the programs of test/kube/prepare.
func (l *Lab) Programs() string { return l.programs }

// Dir is a folder for what a test writes; it is removed with the lab.
func (l *Lab) Dir() string { return l.dir }

// Kubeconfig is the path of a file with a context for each cluster, of its name, that may
// do everything there. Its API servers are reached from where Command runs.
func (l *Lab) Kubeconfig() string { return filepath.Join(l.dir, "kubeconfig") }

// Command is a command of this machine that runs where it reaches the nodes and the API
// servers of all clusters, with Kubeconfig as its own. Programs of test/kube/prepare are
// found by their names. It is for any goroutine.
func (l *Lab) Command(ctx context.Context, command string, args ...string) *exec.Cmd {
	inside := "--net=" + strings.TrimPrefix(l.router.Here(), "netns ")
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{inside, "--", command}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig(), "PATH="+l.programs+":"+os.Getenv("PATH"),
		"HELM_CACHE_HOME="+l.dir, "HELM_CONFIG_HOME="+l.dir, "HELM_DATA_HOME="+l.dir)
	return cmd
}

// Peak is the most memory that the clusters had at once, with pods and images, in bytes.
func (l *Lab) Peak() (int64, error) { return l.cgroups.peak() }

// end may be called at any stage.
func (l *Lab) end(t testing.TB) {
	for i := len(l.running) - 1; i >= 0; i-- { // nodes before what they report to
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

// start runs a program of the lab until the lab ends. It is for any goroutine.
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
