//go:build lab || nightly

package process

import (
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"strait.dev/strait/test/lab"
)

// A gateway that can open no more files forwards and keeps its links and its configuration, and recovers without a
// restart.
func TestF19_AGatewayWithoutFileDescriptorsForwards(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	a, b := top.A.Gateway, top.B.Gateway
	lab.Eventually(t, "the links are up", func() bool { return a.LinkUp(t) && b.LinkUp(t) })
	datagrams := lab.StartSequence(t, top)

	limitFiles(t, b, "0") // it keeps those that it has
	b.Signal(t, syscall.SIGHUP)
	lab.Eventually(t, "the configuration cannot be read", func() bool { return b.Logged("too many open files") > 0 })
	lab.Ping(t, top.A.Pod, top.A.Sees(top.B.Pod4), 20)
	lab.Ping(t, top.B.Pod, top.B.Sees(top.A.Pod6), 20)
	lab.Eventually(t, "the link to a gateway without file descriptors is up", func() bool { return a.LinkUp(t) })

	limitFiles(t, b, "1024")
	b.Reload(t, "ok", func() { b.Signal(t, syscall.SIGHUP) })
	datagrams.Stop(t)
}

// limitFiles sets how many files the gateway may have open, as its own user, who may raise it again up to the hard limit.
func limitFiles(t *testing.T, g *lab.Gateway, most string) {
	t.Helper()
	as := strconv.Itoa(lab.Unprivileged)
	out, err := exec.Command("setpriv", "--reuid", as, "--regid", as, "--clear-groups",
		"prlimit", "--pid", strconv.Itoa(g.Cmd.Process.Pid), "--nofile="+most+":").CombinedOutput()
	if err != nil {
		t.Fatalf("limit of gateway %s: %v\n%s", g.Site.Name, err, out)
	}
}
