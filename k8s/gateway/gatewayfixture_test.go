package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/k8s/translate"
	"strait.dev/strait/test/fakekube"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/logbuffer"
	"strait.dev/strait/test/ports"
)

// fixture is a cluster with a gateway, b-0 of Peering b, that may do what package rbac says
// and no more.
type fixture struct {
	admin   *client.Client
	options Options
	log     *logbuffer.Buffer

	stop  func() // of the running gateway; nil while none runs
	ended chan error
}

// inMemory is a world with an API server in memory.
func inMemory(t *testing.T) *fixture {
	t.Helper()
	s := fakekube.New(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "pods"}})
	return newFixture(t, s.Config(), s.ServiceAccount(t, "strait", "gateway", rbac.Gateway))
}

// newFixture makes one of the configurations of an administrator and of the gateway.
func newFixture(t *testing.T, admin, account *rest.Config) *fixture {
	t.Helper()
	w := &fixture{log: new(logbuffer.Buffer)}
	var err error
	w.admin, err = client.New(admin)
	must(t, err)

	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "preshared"), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "cache"), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "keys"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "keys", "1.key"), privateKey(8), 0o600))
	free := ports.Free(t, 4)
	at := func(i int) config.ListenAddress {
		return config.ListenAddress{Addr: netip.MustParseAddr("127.0.0.1"), Port: free[i]}
	}
	w.options = Options{
		API: account, Peering: "b", Namespace: "strait", PodUID: "pod-b-0",
		KeyDir: filepath.Join(dir, "keys"), InviteKeyFile: filepath.Join(dir, "invite.key"), PresharedKeyDir: filepath.Join(dir, "preshared"), CacheDir: filepath.Join(dir, "cache"),
		Settings: translate.Settings{
			Name: "b-0", PodAddresses: []netip.Addr{netip.MustParseAddr("192.0.2.10")},
			Geneve: at(0), VXLAN: at(1), Observability: at(2), WireGuardPort: free[3],
		},
		Daemon: daemon.Options{Log: slog.New(slog.NewTextHandler(w.log, nil))},
	}
	t.Cleanup(func() {
		w.halt(t)
		if t.Failed() {
			t.Logf("the gateway logged:\n%s", w.log)
		}
	})
	return w
}

// run starts the gateway.
func (w *fixture) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.stop, w.ended = cancel, make(chan error, 1)
	go func() { w.ended <- Run(ctx, w.options) }()
	w.eventually(t, "alive", func() bool { return w.get("/healthz") == "ok\n" })
}

// halt ends the gateway, if it runs.
func (w *fixture) halt(t *testing.T) {
	t.Helper()
	if w.stop == nil {
		return
	}
	w.stop()
	w.stop = nil
	if err := <-w.ended; err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
}

// eventually waits until something is so, and fails if the gateway ends before.
func (w *fixture) eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	kube.Until(t, what, func() string {
		select {
		case err := <-w.ended:
			w.stop = nil
			t.Fatalf("the gateway ended before it was so: %s: %v", what, err)
		default:
		}
		if !so() {
			return "in force is\n" + w.inForce()
		}
		return ""
	})
}

// get is the body of an answer of the gateway, or its status if that is not 200.
func (w *fixture) get(path string) string {
	answer, err := http.Get("http://" + w.options.Observability.String() + path)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return answer.Status
	}
	return string(body)
}

// ready reports whether the gateway calls itself so.
func (w *fixture) ready() bool { return w.get("/readyz") == "ok\n" }

// has returns a check that the gateway serves that line of metrics, with the gateway's
// labels.
func (w *fixture) has(metric string) func() bool {
	name, value, _ := strings.Cut(metric, " ")
	name, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
	if labels != "" {
		labels += ","
	}
	line := fmt.Sprintf("\n%s{gateway=%q,%speering=%q} %s\n", name, w.options.Name, labels, w.options.Peering, value)
	return func() bool { return strings.Contains(w.get("/metrics"), line) }
}

// inForce is the configuration in force, as the gateway keeps it; empty: none yet.
func (w *fixture) inForce() string {
	text, _ := os.ReadFile(filepath.Join(w.options.CacheDir, cacheName))
	return string(text)
}

// node is what is in force for a node, nil if it is not there.
func (w *fixture) node(name string) *config.Node {
	c, err := config.Parse([]byte(w.inForce()))
	if err != nil {
		return nil
	}
	for i := range c.Overlay.Nodes {
		if c.Overlay.Nodes[i].Name == name {
			return &c.Overlay.Nodes[i]
		}
	}
	return nil
}

// routes is whether just these prefixes lead to a node.
func (w *fixture) routes(node string, prefixes ...string) func() bool {
	return func() bool {
		n := w.node(node)
		return n != nil && fmt.Sprint(n.Prefixes) == fmt.Sprint(prefixes)
	}
}
