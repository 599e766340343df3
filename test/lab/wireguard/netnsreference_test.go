//go:build lab || nightly

package wireguard

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"strait.dev/strait/test/lab"
)

// kind is a WireGuard implementation other than Strait's.
type kind string

const (
	wireGuardGo     kind = "wireguard-go"
	kernelWireGuard kind = "kernel"
)

// need skips the test if this machine does not have it.
func (k kind) need(t *testing.T) {
	t.Helper()
	if k == kernelWireGuard {
		lab.NeedWireGuard(t)
		return
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skipf("wireguard-go left out: it needs a TUN device (%v); run it on a machine with one", err)
	}
	if _, err := exec.LookPath("wg"); err != nil {
		t.Skip("wireguard-go left out: wg is not installed; run: apt-get install -y wireguard-tools")
	}
}

// wireGuardGoBinary is the program, in the version that the gateway contains: built once
// per run.
var wireGuardGoBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(lab.WorkDir, "wireguard-go")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "golang.zx2c4.com/wireguard")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(build.Args, " "), err, out)
	}
	return path, nil
})

// controlSockets is the directory of wireguard-go's control sockets for wg, shared by all
// namespaces.
const controlSockets = "/var/run/wireguard"

// wireGuard is a device of the reference.
type wireGuard struct {
	ns     *lab.Namespace
	device string
	key    lab.KeyPair
}

// devices is how many devices of the reference there were so far.
var devices atomic.Int32

// startWireGuard creates a device with a new key, up and without addresses or peers. It is
// removed when the test ends.
func startWireGuard(t *testing.T, k kind, ns *lab.Namespace, port int) *wireGuard {
	t.Helper()
	w := &wireGuard{ns: ns, device: fmt.Sprintf("wg%d-%d", os.Getpid(), devices.Add(1)), key: lab.NewKeyPair(t)}
	if k == kernelWireGuard {
		ns.IP(t, "link add "+w.device+" type wireguard")
	} else {
		w.run(t)
	}
	w.setKey(t, w.key)
	w.set(t, "listen-port", fmt.Sprint(port))
	ns.IP(t, "link set "+w.device+" up")
	return w
}

// run starts wireguard-go.
func (w *wireGuard) run(t *testing.T) {
	t.Helper()
	binary, err := wireGuardGoBinary()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder // read after the process has ended
	cmd := exec.Command("setpriv", "--pdeathsig", "KILL", binary, "-f", w.device)
	cmd.Env = append(os.Environ(), "LOG_LEVEL=error")
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := w.ns.In(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it then removes its control socket
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("wireguard-go in %s printed:\n%s", w.ns.Role, said.String())
		}
	})
	// The socket exists before it listens. wg removes a socket that refuses its connection, and
	// then looks for a device of the kernel.
	lab.Eventually(t, "wireguard-go listens for wg", func() bool {
		c, err := net.Dial("unix", filepath.Join(controlSockets, w.device+".sock"))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func (w *wireGuard) set(t *testing.T, args ...string) {
	t.Helper()
	w.ns.Run(t, "wg", append([]string{"set", w.device}, args...)...)
}

// peer configures the peer with a public key.
func (w *wireGuard) peer(t *testing.T, public []byte, args ...string) {
	t.Helper()
	w.set(t, append([]string{"peer", base64.StdEncoding.EncodeToString(public)}, args...)...)
}

// setKey sets another private key.
func (w *wireGuard) setKey(t *testing.T, key lab.KeyPair) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "private.key")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key.Private)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.set(t, "private-key", file)
	w.key = key
}

// show returns what wg shows of a peer under a heading; columns are separated by tabs.
func (w *wireGuard) show(t *testing.T, what string, public []byte) string {
	t.Helper()
	out := w.ns.Run(t, "wg", "show", w.device, what)
	for line := range strings.Lines(out) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), "\t"); key == base64.StdEncoding.EncodeToString(public) {
			return value
		}
	}
	t.Fatalf("wg show %s %s has no such peer:\n%s", w.device, what, out)
	return ""
}
