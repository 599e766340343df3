package lab

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/program"
)

// tools are the programs that scenarios run inside the namespaces, and their Debian
// packages.
var tools = []struct{ name, pkg string }{
	{"ip", "iproute2"}, {"ping", "iputils-ping"}, {"traceroute", "traceroute"},
	{"ethtool", "ethtool"}, {"nft", "nftables"}, {"setpriv", "util-linux"},
}

// WorkDir contains the files of gateways: the binary, their configuration and keys. Every
// user can access it because the gateways run as user nobody.
var WorkDir string

// leftOut is why no lab can run on this machine, or empty.
var leftOut = missing()

// Need skips the test with the reason if no lab can run on this machine.
func Need(t *testing.T) {
	t.Helper()
	if leftOut != "" {
		t.Skip(leftOut)
	}
}

// Main runs the tests of a package and returns the exit status. Its TestMain calls it.
func Main(m *testing.M) int {
	if leftOut != "" {
		return m.Run() // every test skips with the reason
	}
	removeStale()
	var err error
	if WorkDir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", namePrefix, os.Getpid())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(WorkDir)
	defer program.Remove()
	if err := os.Chmod(WorkDir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// missing returns in one line what this machine lacks for the labs and how to install it.
func missing() string {
	if os.Geteuid() != 0 {
		return "lab left out: network namespaces need root; run: sudo make lab"
	}
	if err := mayMakeNamespaces(); err != nil {
		return fmt.Sprintf("lab left out: network namespaces cannot be created (%v); give the container CAP_SYS_ADMIN and CAP_NET_ADMIN", err)
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.name); err != nil {
			return fmt.Sprintf("lab left out: %s is not installed; run: apt-get install -y %s (test/packages lists all)", tool.name, tool.pkg)
		}
	}
	return ""
}

// mayMakeNamespaces creates a namespace on a thread that ends afterwards.
func mayMakeNamespaces() error {
	tried := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		tried <- unix.Unshare(unix.CLONE_NEWNET)
	}()
	return <-tried
}
