//go:build lab || nightly

package lab

import (
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// A gateway that can open no more files forwards and keeps its links and its configuration, and recovers without a
// restart.
func TestF19_AGatewayWithoutFileDescriptorsForwards(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	a, b := top.a.gateway, top.b.gateway
	eventually(t, "the links are up", func() bool { return a.linkUp(t) && b.linkUp(t) })
	datagrams := startSequence(t, top)

	b.limitFiles(t, "0") // it keeps those that it has
	b.signal(t, syscall.SIGHUP)
	eventually(t, "the configuration cannot be read", func() bool { return b.logged("too many open files") > 0 })
	ping(t, top.a.pod, top.a.sees(top.b.pod4), 20)
	ping(t, top.b.pod, top.b.sees(top.a.pod6), 20)
	eventually(t, "the link to a gateway without file descriptors is up", func() bool { return a.linkUp(t) })

	b.limitFiles(t, "1024")
	b.reload(t, "ok", func() { b.signal(t, syscall.SIGHUP) })
	datagrams.stop(t)
}

// limitFiles sets how many files the gateway may have open, as its own user, who may raise it again up to the hard limit.
func (g *gateway) limitFiles(t *testing.T, most string) {
	t.Helper()
	as := strconv.Itoa(unprivileged)
	out, err := exec.Command("setpriv", "--reuid", as, "--regid", as, "--clear-groups",
		"prlimit", "--pid", strconv.Itoa(g.cmd.Process.Pid), "--nofile="+most+":").CombinedOutput()
	if err != nil {
		t.Fatalf("limit of gateway %s: %v\n%s", g.site.name, err, out)
	}
}
