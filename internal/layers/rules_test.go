package layers

import "strings"

// module is the prefix of this module's import paths.
const module = "strait.dev/strait/"

// layers are all packages, lowest first. A package imports only from the lines above its
// own. A new package must be added here.
var layers = [][]string{
	{"packet", "config", "internal/ratelimit", "internal/smallfile", "internal/columns"},
	{"geneve", "vxlan", "link", "nodeprobe", "nat", "ipam", "internal/capture"},
	{"k8s/api/v1alpha1", "k8s/api/crds", "k8s/api/cilium", "k8s/rbac", "k8s/install"},
	{"k8s/peering", "k8s/services/merge"},
	{"gateway"},
	{"node/genl"},      // generic netlink, for node and for the benchmark's devices
	{"node/route"},     // before internal/daemon: a gateway reads its routes and changes none
	{"internal/netns"}, // for what runs gateways in namespaces: the benchmarks
	{"underlay"},       // before tun: the tunnel uses sockets, never the reverse
	{"node/userspace"}, // Geneve for nodes whose kernels do not support it, used by node
	{"relay"},          // before tun: the tunnel's host serves mapped addresses with it
	{"tun", "node"},
	{"control"}, // separate from the tunnel: it gets connections of any type
	{"k8s/client", "k8s/translate"},
	{"offload/protocol", "offload/lease", "offload/loop"},
	{"offload/budget"},
	{"offload/translate", "offload/streams"},
	{"offload/identity"},
	{"offload/lender", "offload/borrower"},
	{"internal/health", "offload/metrics"},
	{"internal/endpoint", "internal/endpoint/leak", "internal/localsocket"},
	{"internal/daemon"},
	{"k8s/claims", "k8s/services"},
	{"k8s/controller/cidrs", "k8s/controller/condition", "k8s/controller/values"},
	{"k8s/controller/nodeinfo"},
	{"k8s/controller/network", "k8s/controller/workload", "k8s/controller/podaddresses"},
	{"k8s/controller/allocation"},
	{"k8s/gateway", "k8s/controller", "k8s/nodehelper"},
	{"operate/agents", "operate/findings"},
	{"operate/operator"},
	{"operate/trace", "operate/dns", "operate/offload"},
	{"operate/verify", "operate/gather"},
	{"operate/preflight"},
	{"operate/diagnose"},
	{"operate/uninstall"},
	{"internal/plan"},
	{"internal/demo"},
	{"bench/result", "bench/measure"},
	{"bench/traffic", "bench/report"},
	{"bench/rig/traffic"},
	{"bench", "bench/rig", "operate/benchmark"},
	{"cmd/strait"},
}

// pure are the packages of the layers L0 to L2: functions of their arguments.
var pure = []string{"packet", "config", "geneve", "vxlan", "link", "nodeprobe", "nat", "ipam", "internal/capture", "internal/ratelimit", "gateway"}

// aside are packages that belong to no layer: tests and their tools. Only tests import
// them.
var aside = []string{"internal/archive", "internal/chartpack", "internal/conformance", "internal/dashboards", "internal/docgen", "internal/layers", "internal/ociimage", "internal/prose", "internal/raceflag", "internal/release", "internal/sbom", "internal/testreport", "test"}

// helped are the packages that test packages may import, because they replace a part of the
// environment behind the product's own client, or use the product's code as an instrument.
var helped = map[string][]string{
	"test/fakekube": {"k8s/client", "k8s/api"},
	"test/lab":      {"internal/netns", "node", "nodeprobe"}, // what a gateway tells a node
	"test/netns":    {"internal/netns"},
}

// ban forbids some packages an import, given as a path or as a path prefix ending in "/".
type ban struct {
	path string
	to   []string
	why  string
}

// everywhere returns all packages except some.
func everywhere(but ...string) []string {
	var all []string
	for _, layer := range layers {
		for _, pkg := range layer {
			if !within(pkg, but) {
				all = append(all, pkg)
			}
		}
	}
	return all
}

var bans = []ban{
	{"os", pure, "the verdict on a packet must not depend on the machine; callers read files"},
	{"os/", pure, "the verdict on a packet must not depend on the machine; callers read files"},
	{"io/fs", pure, "callers read files"},
	{"net", pure, "sockets belong to underlay; addresses are net/netip"},
	{"net/http", pure, "HTTP endpoints belong to internal/health"},
	{"syscall", pure, "system calls belong to underlay and node"},
	{"unsafe", pure, "packets are untrusted: every access is bounds-checked"},
	{"log", pure, "packets are counted, not logged"},
	{"log/slog", pure, "packets are counted, not logged"},
	{"context", pure, "nothing here blocks, so there is nothing to cancel"},
	{"math/rand", pure, "randomness is an argument, a *rand.Rand of math/rand/v2"},

	{"golang.org/x/sys/", pure, "system calls belong to underlay and node"},
	{"golang.zx2c4.com/", pure, "the packet path does not depend on its transport; tun connects it to WireGuard"},
	{"gvisor.dev/", everywhere("tun", "relay", "internal/demo", "bench"),
		"packets are forwarded without a host stack; netstack is the gateway's own host, in tun and relay, and the demo's pods"},
	{"github.com/prometheus/", everywhere("internal/health", "internal/daemon", "internal/demo", "k8s", "offload/metrics"),
		"the packet path keeps plain counters; the process that serves them reads them"},
	{"github.com/vishvananda/", everywhere("node"), "the gateway has no capability to change a kernel; only the node helper has"},
	{"github.com/google/nftables", everywhere("node"), "the gateway has no capability to change a kernel; only the node helper has"},
	{"github.com/google/nftables/", everywhere("node"), "the gateway has no capability to change a kernel; only the node helper has"},
	{"github.com/mdlayher/", everywhere("node"), "the gateway has no capability to change a kernel; only the node helper has"},
	{"k8s.io/", everywhere("k8s", "offload", "operate", "cmd/strait"), "a gateway runs from a file, without Kubernetes; objects become configuration in k8s"},
	{module + "operate/", everywhere("operate", "cmd/strait"), "it is the work of operators on their own machines; what runs in clusters does not need it"},
	{"golang.org/x/sys/", []string{"operate"}, "operators work on other platforms than Linux, too"},
	{"syscall", []string{"operate"}, "operators work on other platforms than Linux, too"},
	{"sigs.k8s.io/controller-runtime", everywhere(), "plain client-go informers are enough"},
	{"github.com/spf13/", everywhere("cmd/strait"), "the command line is wiring, in cmd/strait"},
	{"gonum.org/", everywhere("bench"), "plots are for reports, not for a gateway"},
	{"C", everywhere(), "the binary is static and cross-compiles"},
}

// forbids reports whether the ban covers the import.
func (b ban) forbids(path string) bool {
	return path == b.path || strings.HasSuffix(b.path, "/") && strings.HasPrefix(path, b.path)
}

// calls are functions that pure packages must not use, with the reason.
var calls = map[string]string{
	"time.Now": "time is an argument", "time.Since": "time is an argument", "time.Until": "time is an argument",
	"time.Sleep": "nothing here blocks", "time.After": "nothing here blocks", "time.Tick": "nothing here blocks",
	"time.NewTimer": "the caller drives timers", "time.NewTicker": "the caller drives timers", "time.AfterFunc": "the caller drives timers",
}

// layerOf returns the index of a package's layer, or -1.
func layerOf(pkg string) int {
	for i, layer := range layers {
		for _, p := range layer {
			if p == pkg {
				return i
			}
		}
	}
	return -1
}

// within reports whether a package is one of these or below one.
func within(pkg string, of []string) bool {
	for _, p := range of {
		if pkg == p || strings.HasPrefix(pkg, p+"/") {
			return true
		}
	}
	return false
}
