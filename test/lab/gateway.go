package lab

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"strait.dev/strait/test/program"
)

// Unprivileged is the user ID of the gateways.
const Unprivileged = 65534

// WireGuardPort is the WireGuard port of every gateway.
const WireGuardPort = 51840

// Gateway is a real `strait gateway` process in its namespace.
type Gateway struct {
	Site   *Site
	Config GatewayConfig
	Dir    string // of configuration, key and log
	Flags  []string
	Env    []string // in addition to the test's own
	Cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended; then cmd.ProcessState is set
}

// NewGateway writes the plain configuration of s and the key file; it starts no process.
func NewGateway(t *testing.T, s, other *Site, key KeyPair, peer []byte) *Gateway {
	t.Helper()
	g := &Gateway{Site: s}
	var err error
	if g.Dir, err = os.MkdirTemp(WorkDir, "gateway-"+s.Name+"-"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(g.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(g.Dir, "private.key")
	if err := os.WriteFile(keyFile, []byte(base64.StdEncoding.EncodeToString(key.Private)+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(keyFile, Unprivileged, Unprivileged); err != nil {
		t.Fatal(err)
	}
	g.Config = plainConfig(s, other, keyFile, peer)
	t.Cleanup(func() {
		if t.Failed() {
			g.report(t)
		}
		g.Kill()
	})
	return g
}

// Start runs the gateway as user nobody, without capabilities and without a way to gain
// any.
func (g *Gateway) Start(t *testing.T) {
	t.Helper()
	binary, err := program.Binary()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(g.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	dropPrivileges := []string{"--reuid", strconv.Itoa(Unprivileged), "--regid", strconv.Itoa(Unprivileged), "--clear-groups",
		"--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs", "--pdeathsig", "KILL"}
	command := append([]string{binary, "gateway", "--config", g.ConfigFile()}, g.Flags...)
	cmd := exec.Command("setpriv", append(dropPrivileges, command...)...)
	cmd.Env = append(os.Environ(), g.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := g.Site.GW.In(cmd.Start); err != nil {
		t.Fatalf("start gateway %s: %v", g.Site.Name, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the state is read from cmd.ProcessState
		close(exited)
	}()
	g.Cmd, g.exited = cmd, exited
}

// Signal sends a signal to the process.
func (g *Gateway) Signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := g.Cmd.Process.Signal(sig); err != nil {
		t.Fatalf("gateway %s: %v", g.Site.Name, err)
	}
}

// Wait returns the exit status of the ended process, -1 if a signal ended it.
func (g *Gateway) Wait(t *testing.T) int {
	t.Helper()
	<-g.exited
	return g.Cmd.ProcessState.ExitCode()
}

// Ended reports whether the process has ended.
func (g *Gateway) Ended() bool {
	select {
	case <-g.exited:
		return true
	default:
		return false
	}
}

// Kill kills the process if it is still running.
func (g *Gateway) Kill() {
	if g.Cmd != nil {
		_ = g.Cmd.Process.Kill() // fails only if it has ended
		<-g.exited
	}
}

// WaitReady polls /readyz.
func (g *Gateway) WaitReady(t *testing.T) {
	t.Helper()
	g.waitStatus(t, "/readyz", http.StatusOK)
}

// waitStatus polls a path of the observability endpoint until it returns a status.
func (g *Gateway) waitStatus(t *testing.T, path string, want int) {
	t.Helper()
	Eventually(t, fmt.Sprintf("gateway %s answers %s with status %d", g.Site.Name, path, want), func() bool {
		if g.Ended() {
			t.Fatalf("gateway %s ended (%v) before it answered %s with status %d", g.Site.Name, g.Cmd.ProcessState, path, want)
		}
		_, status, err := g.Get(path)
		return err == nil && status == want
	})
}

// report prints diagnostics of a gateway after a failure.
func (g *Gateway) report(t *testing.T) {
	config, _ := os.ReadFile(g.ConfigFile())
	log, err := os.ReadFile(g.LogFile())
	if err != nil {
		log = []byte(err.Error())
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	if len(lines) > 60 {
		lines = lines[len(lines)-60:]
	}
	t.Logf("gateway %s, configuration:\n%s\ndropped:\n%s\nlast lines of its log:\n%s",
		g.Site.Name, config, g.DropTable(), strings.Join(lines, "\n"))
}

// ConfigFile is the path of the configuration.
func (g *Gateway) ConfigFile() string { return filepath.Join(g.Dir, "gateway.yaml") }

// LogFile is the path of the log, of all processes one after the other.
func (g *Gateway) LogFile() string { return filepath.Join(g.Dir, "gateway.log") }

// KeyPair is a Curve25519 key pair, clamped like wg genkey.
type KeyPair struct{ Private, Public []byte }

// NewKeyPair generates a key pair.
func NewKeyPair(t *testing.T) KeyPair {
	t.Helper()
	private := make([]byte, 32)
	if _, err := rand.Read(private); err != nil {
		t.Fatal(err)
	}
	private[0] &= 248
	private[31] = private[31]&127 | 64
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return KeyPair{Private: private, Public: key.PublicKey().Bytes()}
}

// Reload makes a change and waits until a reload with that result has been counted.
func (g *Gateway) Reload(t *testing.T, result string, change func()) {
	t.Helper()
	count := func() float64 { return g.Metric(t, "strait_config_reloads_total", `result="`+result+`"`) }
	before := count()
	change()
	Eventually(t, "another reload with result "+result, func() bool { return count() > before })
}

// StatusField returns a line of /proc/PID/status, its columns joined by single spaces.
func StatusField(status, field string) (string, bool) {
	for line := range strings.Lines(status) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == field {
			return strings.Join(strings.Fields(value), " "), true
		}
	}
	return "", false
}
