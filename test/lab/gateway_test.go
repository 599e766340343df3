//go:build lab || nightly

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

// unprivileged is the user ID of the gateways.
const unprivileged = 65534

// wireGuardPort is the WireGuard port of every gateway.
const wireGuardPort = 51840

// gateway is a real `strait gateway` process in its namespace.
type gateway struct {
	site   *site
	config gatewayConfig
	dir    string // of configuration, key and log
	flags  []string
	env    []string // in addition to the test's own
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended; then cmd.ProcessState is set
}

// newGateway writes the plain configuration of s and the key file; it starts no process.
func newGateway(t *testing.T, s, other *site, key keyPair, peer []byte) *gateway {
	t.Helper()
	g := &gateway{site: s}
	var err error
	if g.dir, err = os.MkdirTemp(workDir, "gateway-"+s.name+"-"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(g.dir, "private.key")
	if err := os.WriteFile(keyFile, []byte(base64.StdEncoding.EncodeToString(key.private)+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(keyFile, unprivileged, unprivileged); err != nil {
		t.Fatal(err)
	}
	g.config = plainConfig(s, other, keyFile, peer)
	t.Cleanup(func() {
		if t.Failed() {
			g.report(t)
		}
		g.kill()
	})
	return g
}

// start runs the gateway as user nobody, without capabilities and without a way to gain
// any.
func (g *gateway) start(t *testing.T) {
	t.Helper()
	binary, err := program.Binary()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(g.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	dropPrivileges := []string{"--reuid", strconv.Itoa(unprivileged), "--regid", strconv.Itoa(unprivileged), "--clear-groups",
		"--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs", "--pdeathsig", "KILL"}
	command := append([]string{binary, "gateway", "--config", g.configFile()}, g.flags...)
	cmd := exec.Command("setpriv", append(dropPrivileges, command...)...)
	cmd.Env = append(os.Environ(), g.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := g.site.gw.in(cmd.Start); err != nil {
		t.Fatalf("start gateway %s: %v", g.site.name, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the state is read from cmd.ProcessState
		close(exited)
	}()
	g.cmd, g.exited = cmd, exited
}

func (g *gateway) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("gateway %s: %v", g.site.name, err)
	}
}

// wait returns the exit status of the ended process, -1 if a signal ended it.
func (g *gateway) wait(t *testing.T) int {
	t.Helper()
	<-g.exited
	return g.cmd.ProcessState.ExitCode()
}

// ended reports whether the process has ended.
func (g *gateway) ended() bool {
	select {
	case <-g.exited:
		return true
	default:
		return false
	}
}

// kill kills the process if it is still running.
func (g *gateway) kill() {
	if g.cmd != nil {
		_ = g.cmd.Process.Kill() // fails only if it has ended
		<-g.exited
	}
}

// waitReady polls /readyz.
func (g *gateway) waitReady(t *testing.T) {
	t.Helper()
	g.waitStatus(t, "/readyz", http.StatusOK)
}

// waitStatus polls a path of the observability endpoint until it returns a status.
func (g *gateway) waitStatus(t *testing.T, path string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("gateway %s answers %s with status %d", g.site.name, path, want), func() bool {
		if g.ended() {
			t.Fatalf("gateway %s ended (%v) before it answered %s with status %d", g.site.name, g.cmd.ProcessState, path, want)
		}
		_, status, err := g.get(path)
		return err == nil && status == want
	})
}

// report prints diagnostics of a gateway after a failure.
func (g *gateway) report(t *testing.T) {
	config, _ := os.ReadFile(g.configFile())
	log, err := os.ReadFile(g.logFile())
	if err != nil {
		log = []byte(err.Error())
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	if len(lines) > 60 {
		lines = lines[len(lines)-60:]
	}
	t.Logf("gateway %s, configuration:\n%s\ndropped:\n%s\nlast lines of its log:\n%s",
		g.site.name, config, g.dropTable(), strings.Join(lines, "\n"))
}

func (g *gateway) configFile() string { return filepath.Join(g.dir, "gateway.yaml") }
func (g *gateway) logFile() string    { return filepath.Join(g.dir, "gateway.log") }

// keyPair is a Curve25519 key pair, clamped like wg genkey.
type keyPair struct{ private, public []byte }

func newKeyPair(t *testing.T) keyPair {
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
	return keyPair{private: private, public: key.PublicKey().Bytes()}
}

// reload makes a change and waits until a reload with that result has been counted.
func (g *gateway) reload(t *testing.T, result string, change func()) {
	t.Helper()
	count := func() float64 { return g.metric(t, "strait_config_reloads_total", `result="`+result+`"`) }
	before := count()
	change()
	eventually(t, "another reload with result "+result, func() bool { return count() > before })
}

// statusField returns a line of /proc/PID/status, its columns joined by single spaces.
func statusField(status, field string) (string, bool) {
	for line := range strings.Lines(status) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == field {
			return strings.Join(strings.Fields(value), " "), true
		}
	}
	return "", false
}
