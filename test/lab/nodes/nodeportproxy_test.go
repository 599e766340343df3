//go:build lab || nightly

package nodes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"strait.dev/strait/test/lab"
)

// kubeProxy is the path of the real kube-proxy, which test/kube/prepare builds into a
// directory named by the hash of its table of programs. If it is missing, the test is
// skipped.
func kubeProxy(t *testing.T) string {
	t.Helper()
	table, err := os.ReadFile("../../kube/programs")
	if os.IsNotExist(err) {
		t.Skip("left out: kube-proxy is found with the sources of the tests; run this on the machine that has them")
	}
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(table)
	program := filepath.Join(cache, "strait", "programs", hex.EncodeToString(hash[:8]), "kube-proxy")
	if _, err := os.Stat(program); err != nil {
		t.Skip("left out: kube-proxy has not been built; run: test/kube/prepare kube-proxy")
	}
	for _, tool := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("left out: %s is not installed; run: apt-get install -y iptables (test/packages lists all)", tool)
		}
	}
	return program
}

// startKubeProxy runs kube-proxy on a node, in the mode "iptables" or "nftables", until the
// test ends. It gets its Services from an API on the node's loopback interface.
func startKubeProxy(t *testing.T, program, mode string, node *lab.Namespace, address netip.Addr, services ...nodePortService) {
	t.Helper()
	api := node.ListenTCP(t, netip.MustParseAddrPort("127.0.0.1:6443"))
	server := &http.Server{Handler: serviceAPI(address, services)}
	go func() { _ = server.Serve(api) }() // ends with the listener
	t.Cleanup(func() { _ = server.Close() })

	dir := t.TempDir()
	for name, text := range map[string]string{
		"kubeconfig": `{apiVersion: v1, kind: Config, current-context: lab,
clusters: [{name: lab, cluster: {server: "http://127.0.0.1:6443"}}], contexts: [{name: lab, context: {cluster: lab}}]}`,
		"kube-proxy.yaml": fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: %s
clientConnection: {kubeconfig: %s, contentType: application/json, acceptContentTypes: application/json}
clusterCIDR: %s
hostnameOverride: node-a
nodePortAddresses: ["%s/32"]
conntrack: {maxPerCore: 0, min: 0} # a setting of the whole machine
`, mode, filepath.Join(dir, "kubeconfig"), lab.PodCIDRs[0], address),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	logFile := filepath.Join(dir, "kube-proxy.log")
	log, err := os.Create(logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("setpriv", "--pdeathsig", "KILL", program, "--config="+filepath.Join(dir, "kube-proxy.yaml"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := node.In(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(logFile)
			t.Logf("kube-proxy printed last:\n%s", text[max(0, len(text)-4000):])
		}
	})
}

// nodePortService is a Service with one remote endpoint: it has no local pod, so only its
// address is known.
type nodePortService struct {
	name      string
	clusterIP netip.Addr
	nodePort  int
	policy    string // externalTrafficPolicy
	endpoint  netip.AddrPort
}

// serviceAPI is the part of the Kubernetes API that kube-proxy uses. Its objects never
// change.
func serviceAPI(node netip.Addr, services []nodePortService) http.Handler {
	var objects, slices []string
	for _, s := range services {
		objects, slices = append(objects, s.service()), append(slices, s.slice())
	}
	lists := map[string]string{
		"/api/v1/nodes":    listObject("v1", "NodeList", nodeObject(node)),
		"/api/v1/services": listObject("v1", "ServiceList", objects...),
		"/apis/discovery.k8s.io/v1/endpointslices": listObject("discovery.k8s.io/v1", "EndpointSliceList", slices...),
		"/apis/networking.k8s.io/v1/servicecidrs":  listObject("networking.k8s.io/v1", "ServiceCIDRList"),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		list, ok := lists[r.URL.Path]
		query := r.URL.Query()
		switch {
		case r.URL.Path == "/api/v1/nodes/node-a":
			fmt.Fprint(w, nodeObject(node))
		case !ok:
			refuse(w, http.StatusNotFound, "NotFound")
		case query.Get("sendInitialEvents") == "true": // the client falls back to a list
			refuse(w, http.StatusUnprocessableEntity, "Invalid")
		case query.Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprint(w, list)
		}
	})
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code})
}

func listObject(version, kind string, items ...string) string {
	return fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"resourceVersion": "1"}, "items": [%s]}`,
		version, kind, strings.Join(items, ","))
}

func nodeObject(address netip.Addr) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "uid": "1", "resourceVersion": "1"},
		"status": {"addresses": [{"type": "InternalIP", "address": %q}]}}`, address)
}

func (s *nodePortService) service() string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service",
		"metadata": {"name": %[1]q, "namespace": "default", "uid": %[1]q, "resourceVersion": "1"},
		"spec": {"type": "NodePort", "clusterIP": %[2]q, "clusterIPs": [%[2]q], "ipFamilies": ["IPv4"],
			"externalTrafficPolicy": %[3]q, "internalTrafficPolicy": "Cluster", "sessionAffinity": "None", "ports": [
				{"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": %[4]d, "nodePort": %[5]d},
				{"name": "udp", "protocol": "UDP", "port": 80, "targetPort": %[4]d, "nodePort": %[5]d}]}}`,
		s.name, s.clusterIP, s.policy, s.endpoint.Port(), s.nodePort)
}

// slice places the endpoint on this node: with the policy Local, kube-proxy ignores others
// for external traffic.
func (s *nodePortService) slice() string {
	return fmt.Sprintf(`{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": {"name": %[1]q, "namespace": "default", "uid": %[1]q, "resourceVersion": "1",
			"labels": {"kubernetes.io/service-name": %[1]q}},
		"ports": [{"name": "tcp", "protocol": "TCP", "port": %[3]d}, {"name": "udp", "protocol": "UDP", "port": %[3]d}],
		"endpoints": [{"addresses": [%[2]q], "nodeName": "node-a", "conditions": {"ready": true}}]}`,
		s.name, s.endpoint.Addr(), s.endpoint.Port())
}

// serveNames replies to every request with its source address, as the server sees it.
func serveNames(t *testing.T, n *lab.Namespace, at netip.AddrPort) {
	t.Helper()
	l, c := n.ListenTCP(t, at), n.ListenUDP(t, at)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			go func() {
				defer conn.Close()
				for buffer := make([]byte, 64); ; {
					if _, err := conn.Read(buffer); err != nil {
						return
					}
					if _, err := fmt.Fprint(conn, conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()); err != nil {
						return
					}
				}
			}()
		}
	}()
	go func() {
		for buffer := make([]byte, 64); ; {
			_, from, err := c.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = c.WriteToUDPAddrPort([]byte(from.Addr().Unmap().String()), from)
		}
	}()
}
