//go:build nightly

package scale

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/program"
)

// Namespaces of the API, as in an installation.
const (
	systemNamespace  = "strait-system"
	gatewayNamespace = "strait-gateways"
)

// world is the measured cluster, a gateway of another one, and their network.
type world struct {
	size
	out   io.Writer
	begun time.Time
	dir   string // directory of files; accessible to every user because gateways run as user nobody

	api    *kube.Cluster
	admin  *client.Client
	access struct{ controller, gateway, node string } // kubeconfig files

	fabric, near, far, node *netns.Namespace // see wire
	probes                  *prober
	inside, outside         *podSet
}

func newWorld(t *testing.T, s size) *world {
	t.Helper()
	w := &world{size: s, out: t.Output(), begun: time.Now()}
	w.wire(t) // first, because it skips the test without root
	w.api = kube.StartAudited(t)
	var err error
	w.dir, err = os.MkdirTemp("", "strait-scale-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(w.dir) })
	must(t, os.Chmod(w.dir, 0o755))
	w.api.InstallCRDs(t, crds.Files)
	w.admin, err = client.New(w.api.Admin())
	must(t, err)
	for _, one := range []struct {
		into               *string
		namespace, account string
		rules              []byte
	}{
		{&w.access.controller, systemNamespace, "strait-controller", rbac.Controller},
		{&w.access.gateway, gatewayNamespace, "strait-gateway", rbac.Gateway},
		{&w.access.node, systemNamespace, "strait-node", rbac.Node},
	} {
		config := w.api.ServiceAccount(t, one.namespace, one.account)
		w.api.Grant(t, one.rules, one.namespace, one.account)
		*one.into = program.Kubeconfig(t, w.dir, one.account, config)
	}
	program.Relay(t, w.near, w.api.Admin())
	program.Relay(t, w.node, w.api.Admin())
	w.probes = newProber(t, w)
	w.inside, w.outside = newWorkloads(s)
	return w
}

// say prints progress.
func (w *world) say(format string, args ...any) {
	fmt.Fprintf(w.out, "%6.1fs  %s\n", time.Since(w.begun).Seconds(), fmt.Sprintf(format, args...))
}

// The network. One namespace stands for all nodes except one: it has all their addresses.
// The other node is separate, for its node helper.
//
//	far gateway ── fabric ── near gateway (measured)
//	198.51.100.10  │  │      192.0.2.10
//	               │  └ 198.18.0.0/15: the nodes of the near cluster
//	               │    198.51.100.1: the node of the far one
//	              node  203.0.113.2, with a helper
const (
	nearGateway = "192.0.2.10"
	farGateway  = "198.51.100.10"
	farNode     = "198.51.100.1"
	helperNode  = "203.0.113.2"
)

func (w *world) wire(t *testing.T) {
	t.Helper()
	w.fabric = netns.New(t)
	w.fabric.Run(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	w.fabric.IP(t, "route add local 198.18.0.0/15 dev lo")
	w.near = w.attach(t, "near", "192.0.2.1", nearGateway)
	w.far = w.attach(t, "far", farNode, farGateway)
	w.node = w.attach(t, "node", "203.0.113.1", helperNode)
	w.node.Run(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
}

// attach creates a namespace with a link to the fabric, which is its router.
func (w *world) attach(t *testing.T, name, router, address string) *netns.Namespace {
	t.Helper()
	n := netns.New(t)
	w.fabric.IP(t, fmt.Sprintf(`link add name %[1]s type veth peer name eth0 %[2]s
addr add %[3]s/24 dev %[1]s
link set %[1]s up`, name, n.Here(), router))
	n.IP(t, fmt.Sprintf(`addr add %s/24 dev eth0
link set eth0 up
route add default via %s`, address, router))
	return n
}

// CIDRs of the near cluster's pods. The far cluster uses the same CIDRs, and maps these to
// others.
var (
	podRange     = netip.MustParsePrefix("10.0.0.0/11")
	outsideRange = netip.MustParsePrefix("10.32.0.0/16")
)

// after adds n to an IPv4 address.
func after(a netip.Addr, n int) netip.Addr {
	b := a.As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	v += uint32(n)
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within waits for a condition, up to a limit.
func within(t *testing.T, limit time.Duration, what string, done func() error) {
	t.Helper()
	for begun := time.Now(); ; {
		err := done()
		if err == nil {
			return
		}
		if time.Since(begun) > limit {
			t.Fatalf("not within %v: %s: %v", limit, what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
