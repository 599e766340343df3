package daemon

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/crypto/curve25519"

	"strait.dev/strait/test/logbuffer"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is one gateway in file mode on loopback, with everything a test turns.
type bench struct {
	path      string // of the configuration
	http      string // host:port
	wireGuard uint16
	socket    string // path, or none
	log       logbuffer.Buffer
	reload    chan os.Signal
	stop      chan os.Signal
	ended     chan error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{
		path:   filepath.Join(dir, "gateway.yaml"),
		reload: make(chan os.Signal, 1), stop: make(chan os.Signal, 2), ended: make(chan error, 1),
	}
	free := ports.Free(t, 3)
	b.http = fmt.Sprintf("127.0.0.1:%d", free[1])
	b.wireGuard = free[2]
	writeFile(t, filepath.Join(dir, "private.key"), base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{8}, 32)))
	writeFile(t, b.path, fmt.Sprintf(`apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: a
overlay:
  listen: "127.0.0.1:%d"
  addresses: [10.80.0.1]
  externalAddresses: [10.70.0.1]
  mtu: 1400
  nodes:
  - {name: node-1, underlay: 127.0.0.2, vni: 101, addresses: [10.80.0.11], prefixes: [10.0.1.0/24]}
wireguard:
  listenPort: %d
  privateKeyFile: %s/private.key
  peers:
  - {name: b-0, publicKey: %q}
local: {prefixes: [10.0.0.0/16], externalPrefixes: [10.70.0.0/16]}
masquerade: {sources: [198.51.100.0/24], flows: 1000}
remote: {cluster: b, prefixes: [{cidr: 10.0.0.0/16, seenAs: 10.71.0.0/16}]}
observability: {listen: %q}
`, free[0], b.wireGuard, dir, publicKeyOf(9), b.http))
	return b
}

// publicKeyOf is the public half of a private key of 32 equal bytes.
func publicKeyOf(n byte) string {
	public, err := curve25519.X25519(bytes.Repeat([]byte{n}, 32), curve25519.Basepoint)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(public)
}

// writeFile replaces a file at once: a gateway that watches it never reads a part.
func writeFile(t *testing.T, path, content string) {
	t.Helper()
	whole := path + ".whole"
	if err := errors.Join(os.WriteFile(whole, []byte(content), 0o600), os.Rename(whole, path)); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) edit(t *testing.T, old, new string) {
	t.Helper()
	content, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), old) {
		t.Fatalf("%q is not in the configuration", old)
	}
	writeFile(t, b.path, strings.Replace(string(content), old, new, 1))
}

func (b *bench) start(t *testing.T) {
	t.Helper()
	go func() {
		b.ended <- Run(b.path, Signals{Reload: b.reload, Stop: b.stop}, Options{Log: slog.New(slog.NewTextHandler(&b.log, nil)), Socket: b.socket})
	}()
	t.Cleanup(func() {
		b.stop <- syscall.SIGTERM
		b.stop <- syscall.SIGTERM // no draining
		if err := <-b.ended; err != nil {
			t.Errorf("ended with %v", err)
		}
		if t.Failed() {
			t.Logf("the gateway logged:\n%s", b.log.String())
		}
	})
	b.waitFor(t, "the gateway is ready", func() bool { return b.get("/readyz") == "ok\n" })
}

// get returns the body, or the status if it is not 200, or nothing.
func (b *bench) get(path string) string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + b.http + path)
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusOK {
		return r.Status
	}
	return string(body)
}

// waitFor polls until a condition holds.
func (b *bench) waitFor(t *testing.T, condition string, done func() bool) {
	t.Helper()
	wait.Until(t, condition, func() bool {
		select {
		case err := <-b.ended:
			b.ended <- err // for the cleanup
			t.Fatalf("the gateway ended before %s: %v", condition, err)
		default:
		}
		return done()
	})
}

// waitForLog waits until the gateway has logged a text so many times.
func (b *bench) waitForLog(t *testing.T, text string, times int) {
	t.Helper()
	for {
		logged, more := b.log.Follow()
		if strings.Count(logged, text) >= times {
			return
		}
		select {
		case <-more:
		case err := <-b.ended:
			b.ended <- err // for the cleanup
			t.Fatalf("the gateway ended before it logged %q %d times: %v", text, times, err)
		}
	}
}

// applied is what the gateway logs when a changed configuration has come into force.
const applied = `msg="configuration applied"`

func (b *bench) has(metric string) func() bool {
	return func() bool { return strings.Contains(b.get("/metrics"), "\n"+metric+"\n") }
}

func TestAChangedFileIsAppliedWithoutASignal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t)
	if !b.has("strait_nodes 1")() {
		t.Error("it does not begin with one node")
	}
	b.edit(t, "  - {name: node-1,", "  - {name: node-2, underlay: 127.0.0.3, vni: 102, addresses: [10.80.0.12], prefixes: [10.0.2.0/24]}\n  - {name: node-1,")
	b.waitForLog(t, applied, 1)
	if !b.has("strait_nodes 2")() || !b.has(`strait_config_reloads_total{result="ok"} 1`)() {
		t.Errorf("there are not two nodes and one reload:\n%s", b.get("/metrics"))
	}
}

func TestFaultyFileChangesNothingAndIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t)
	for i, c := range []struct{ old, new, says string }{
		{"vni: 101", "vni: 0", ":10: overlay.nodes[0].vni"},
		{"vni: 0", "vnii: 101", "vnii"},
		{"vnii: 101", "vni: 101", ""},
		{"listenPort: ", "listenPort: 1", "wireguard.listenPort"},
	} {
		b.edit(t, c.old, c.new)
		b.reload <- syscall.SIGHUP
		if c.says == "" {
			b.waitForLog(t, applied, 1)
			continue
		}
		b.waitForLog(t, c.says, 1)
		if !b.has("strait_nodes 1")() || b.get("/readyz") != "ok\n" {
			t.Errorf("fault %d changed the running gateway", i)
		}
	}
}

func TestMetricsNameEveryReasonFromTheStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t)
	if !b.has(`strait_dropped_packets_total{direction="egress",reason="spoofed_source"} 0`)() {
		t.Error("a reason is missing")
	}
	if !b.has(`strait_link_up{peer="b-0"} 0`)() || !b.has("strait_inner_mtu_bytes 1400")() {
		t.Error("a link without peer is not down, or the MTU is not told")
	}
	if got := b.get("/debug/pprof/"); !strings.HasPrefix(got, "404") {
		t.Errorf("profiles are served: %.40q", got)
	}
}

func TestAnAddressInUseIsReportedAfterRetriesAndEndsCleanly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	taken, err := net.Listen("tcp", b.http)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		b.ended <- Run(b.path, Signals{Stop: b.stop}, Options{Log: slog.New(slog.NewTextHandler(&b.log, nil))})
	}()
	b.waitForLog(t, "waiting for an address", 1)
	taken.Close() // the predecessor is gone
	b.waitFor(t, "the gateway is ready", func() bool { return b.get("/readyz") == "ok\n" })
	b.stop <- syscall.SIGTERM
	b.stop <- syscall.SIGTERM
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
}

func TestT4_KeyFilesThatHoldNoKeyAreRefusedWithoutRepeatingThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := "c2VjcmV0LXNlY3JldA=="
	for name, c := range map[string]struct{ content, says string }{
		"short":     {secret, "32 bytes in base64"},
		"not text":  {"\x00\x01" + secret, "32 bytes in base64"},
		"empty":     {"", "32 bytes in base64"},
		"zero key":  {base64.StdEncoding.EncodeToString(make([]byte, 32)), "zero key"},
		"two lines": {secret + "\n" + secret, "32 bytes in base64"},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		writeFile(t, path, c.content)
		_, err := readKey(path, genPrivate)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error repeats the file: %v", name, err)
		}
	}
	if _, err := readKey(filepath.Join(dir, "none"), genPrivate); err == nil || !strings.Contains(err.Error(), "wg genkey") {
		t.Errorf("a missing file is answered with %v", err)
	}
}

func TestOwnKeyAsPeerIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.edit(t, publicKeyOf(9), publicKeyOf(8))
	err := Run(b.path, Signals{}, Options{Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "wireguard.peers[0].publicKey is this gateway's own") {
		t.Errorf("started, or said %v", err)
	}
}

// keyFile keeps a private key of 32 equal bytes next to the configuration.
func (b *bench) keyFile(t *testing.T, name string, n byte) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(b.path), name)
	writeFile(t, path, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)))
	return path
}

func TestNetns21_AnyOwnKeyAsPeerIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	next := b.keyFile(t, "next.key", 7)
	peer := func(name string, key byte, file string) string {
		return fmt.Sprintf("  - {name: %s, publicKey: %q, privateKeyFile: %q}\n", name, publicKeyOf(key), file)
	}
	b.edit(t, "local:", peer("b-1", 10, next)+peer("b-2", 7, "")+"local:")
	err := Run(b.path, Signals{}, Options{Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "wireguard.peers[2].publicKey is this gateway's own") {
		t.Errorf("started, or said %v", err)
	}
}

// The names of the files differ, so the configuration alone does not tell.
func TestTwoLinksWithTheSameKeysAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.edit(t, "local:", fmt.Sprintf("  - {name: b-1, publicKey: %q, privateKeyFile: %q}\nlocal:", publicKeyOf(9), b.keyFile(t, "copy.key", 8)))
	err := Run(b.path, Signals{}, Options{Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "wireguard.peers[1] has the same two keys as wireguard.peers[0]; give one of them another key") {
		t.Errorf("started, or said %v", err)
	}
}

func TestAMissingKeyOfAPeerIsNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.edit(t, "name: b-0,", "name: b-0, privateKeyFile: /nowhere/next.key,")
	err := Run(b.path, Signals{}, Options{Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "wireguard.peers[0].privateKeyFile: /nowhere/next.key does not exist") {
		t.Errorf("started, or said %v", err)
	}
}

// A changed key file is no reason to restart: the links with that key are replaced.
func TestAChangedPrivateKeyIsTakenInPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t)
	b.keyFile(t, "private.key", 6)
	b.waitForLog(t, applied, 1)
	if told := fmt.Sprintf(`msg="gateway uses a new key" publicKey=%q`, publicKeyOf(6)); !strings.Contains(b.log.String(), told) {
		t.Errorf("it does not log %s", told)
	}
	if !b.has(`strait_link_up{peer="b-0"} 0`)() || !b.has(`strait_config_reloads_total{result="ok"} 1`)() {
		t.Errorf("the link is gone, or the reload is not counted:\n%s", b.get("/metrics"))
	}
}

func TestAKeyFileThatWasNamedLaterIsWatchedToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	next := b.keyFile(t, "next.key", 7)
	b.start(t)
	b.edit(t, "  - {name: b-0,", fmt.Sprintf("  - {name: b-0-next, gateway: b-0, publicKey: %q, privateKeyFile: %q}\n  - {name: b-0,", publicKeyOf(9), next))
	b.waitForLog(t, applied, 1)
	if !b.has(`strait_link_up{peer="b-0-next"} 0`)() || !b.has(`strait_config_reloads_total{result="ok"} 1`)() {
		t.Errorf("there is no second link, or the reload is not counted:\n%s", b.get("/metrics"))
	}
	writeFile(t, next, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{5}, 32))+"\n")
	b.waitForLog(t, applied, 2)
	if !b.has(`strait_config_reloads_total{result="ok"} 2`)() {
		t.Errorf("the second reload is not counted:\n%s", b.get("/metrics"))
	}
}

// The file and the Secret of a pod are updated up to a minute apart.
func TestAConfigurationWhoseKeyFileComesLaterIsAppliedThen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t)
	next := filepath.Join(filepath.Dir(b.path), "next.key")
	b.edit(t, "name: b-0,", fmt.Sprintf("name: b-0, privateKeyFile: %q,", next))
	b.waitForLog(t, next+" does not exist", 1)
	b.keyFile(t, "next.key", 7)
	b.waitForLog(t, applied, 1)
	b.keyFile(t, "next.key", 5)
	b.waitForLog(t, applied, 2)
}

// Not parallel: it measures the memory of the process.
func TestReloadGivesTheMemoryOfReadingBack(t *testing.T) {
	b := newBench(t)
	var nodes strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&nodes, "  - {name: spare-%d, underlay: 127.1.%d.%d, vni: %d, addresses: [10.80.%d.%d], prefixes: [10.0.%d.%d/29]}\n",
			i, i>>8, i&0xff, 1000+i, 64+i>>8, i&0xff, 64+i>>5, i<<3&0xff)
	}
	b.edit(t, "wireguard:\n", nodes.String()+"wireguard:\n")
	b.start(t)
	held := func() int {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapSys - m.HeapReleased)
	}
	before := held()
	for i := range 3 {
		b.reload <- syscall.SIGHUP
		b.waitForLog(t, applied, i+1)
	}
	if !b.has(`strait_config_reloads_total{result="ok"} 3`)() {
		t.Errorf("three reloads are not counted:\n%s", b.get("/metrics"))
	}
	if grown := held() - before; grown > 8<<20 {
		t.Errorf("three reloads of %d nodes hold %d MiB more", 3000, grown>>20)
	}
}
