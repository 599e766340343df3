//go:build apiserver

package dns

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/program"
)

// Addresses of the DNS servers of a test. Like NodeLocal DNSCache, the cache has a link-local
// address and that of the Service kube-dns.
const (
	linkLocalAddress = "127.0.20.10" // of the cache
	serviceAddress   = "127.0.20.11" // of the cache
	coreDNSAddress   = "127.0.20.12"
	nodeAddress      = "127.0.20.13" // of the name server of the node
)

// nodeCorefile is the configuration of a name server for which no name exists.
const nodeCorefile = ".:53 {\n    errors\n    template ANY ANY {\n        rcode NXDOMAIN\n    }\n}\n"

// coreDNSRole is what kubeadm permits CoreDNS.
const coreDNSRole = `
kind: ClusterRole
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: system:coredns}
rules:
- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
`

// dnsServers are the DNS servers of a cluster and of a node, as processes on loopback, with
// the Corefiles that are in the ConfigMaps of a real API server:
//
//	query ──► cache ── cluster.local, clusterset.local ──► CoreDNS ──► API server
//	                └─ all other names ──► name server of the node
type dnsServers struct {
	*testing.T
	client *client.Client
	port   string
	files  map[string]string            // by ConfigMap
	here   map[string]*strings.Replacer // from the addresses of a cluster to those of the test, by ConfigMap
}

// startDNSServers starts them with the Corefiles of kubeadm and of NodeLocal DNSCache.
func startDNSServers(t *testing.T, cluster *kube.Cluster) *dnsServers {
	t.Helper()
	admin, err := client.New(cluster.Admin())
	must(t, err)
	cluster.Grant(t, []byte(coreDNSRole), metav1.NamespaceSystem, "coredns")
	dir := t.TempDir()
	account := program.Kubeconfig(t, dir, "coredns", cluster.ServiceAccount(t, metav1.NamespaceSystem, "coredns"))
	_, err = admin.Deployments(metav1.NamespaceSystem).Create(t.Context(), deployment("registry.k8s.io/coredns/coredns:v1.15.0"), metav1.CreateOptions{})
	must(t, err)
	_, err = admin.DaemonSets(metav1.NamespaceSystem).Create(t.Context(), realSet(), metav1.CreateOptions{})
	must(t, err)
	var port []string
	for _, p := range ports.Free(t, 6) {
		port = append(port, strconv.Itoa(int(p)))
	}
	s := &dnsServers{T: t, client: admin, port: port[0], files: make(map[string]string), here: map[string]*strings.Replacer{
		"coredns": strings.NewReplacer(":53 {\n", ":"+port[0]+" {\n    bind "+coreDNSAddress+"\n", "/etc/resolv.conf", nodeAddress+":"+port[0],
			"pods insecure", "pods insecure\n       kubeconfig "+account, "reload\n", "reload 2s 1s\n",
			"health {", "health "+coreDNSAddress+":"+port[1]+" {", "ready\n", "ready "+coreDNSAddress+":"+port[2]+"\n", ":9153", coreDNSAddress+":"+port[3]),
		"node-local-dns": strings.NewReplacer(":53 {", ":"+port[0]+" {", "/etc/resolv.conf", nodeAddress+":"+port[0], "reload\n", "reload 2s 1s\n",
			"169.254.20.10:8080", linkLocalAddress+":"+port[4], ":9253", linkLocalAddress+":"+port[5],
			"169.254.20.10", linkLocalAddress, "10.96.0.10", serviceAddress, "10.96.7.7", coreDNSAddress+":"+port[0]),
		"node": strings.NewReplacer(":53 {\n", ":"+port[0]+" {\n    bind "+nodeAddress+"\n"),
	}}
	for name, corefile := range map[string]string{"node": nodeCorefile, "coredns": kubeadm, "node-local-dns": cacheCorefile} {
		_, err = admin.ConfigMaps(metav1.NamespaceSystem).Create(t.Context(), configMap(name, map[string]string{"Corefile": corefile}), metav1.CreateOptions{})
		must(t, err)
		s.files[name] = filepath.Join(dir, name)
		s.mount(name)
		kube.StartProgram(t, "coredns", "-conf", s.files[name])
	}
	return s
}

// realSet is the DaemonSet of NodeLocal DNSCache as the API server accepts it.
func realSet() *appsv1.DaemonSet {
	set := cacheSet("node-local-dns", "node-local-dns", "registry.k8s.io/dns/k8s-dns-node-cache:1.26.4", "node-local-dns")
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Labels}
	set.Spec.Template.Labels = set.Labels
	return set
}

// mount writes the Corefile in a ConfigMap to its file, as a kubelet does.
func (s *dnsServers) mount(name string) {
	s.Helper()
	text := s.here[name].Replace(data(s.T, s.client, name)["Corefile"])
	must(s.T, os.WriteFile(s.files[name]+".new", []byte(text), 0o600))
	must(s.T, os.Rename(s.files[name]+".new", s.files[name]))
}

// untilAnswered waits until a server answers for a name with an address, or with none if the
// name does not exist.
func (s *dnsServers) untilAnswered(server, name string, want ...string) {
	s.Helper()
	with := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(server, s.port))
	}}
	kube.Until(s.T, name+" at "+server, func() string {
		is := lookup(s.Context(), with, name)
		if slices.Equal(is.Addresses, want) && is.NotFound == (want == nil) {
			return ""
		}
		return strings.TrimSpace(is.Error + " " + strings.Join(is.Addresses, " "))
	})
}

// change applies a plan, and mounts the ConfigMaps again.
func (s *dnsServers) change(plan *Plan) {
	s.Helper()
	must(s.T, plan.Apply(s.Context(), s.client))
	for name := range s.files {
		s.mount(name)
	}
}

func TestNamesOfImportedServicesExistAtANodeLocalDNSCache(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t)
	cluster.InstallCRDs(t, fstest.MapFS{"imports.yaml": {Data: mcscrds.ServiceImportCRD}})
	s := startDNSServers(t, cluster)
	must(t, cluster.Namespace(t.Context(), "shop"))
	_, err := s.client.ServiceImports("shop").Create(t.Context(), &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Name: "cart"}, Spec: mcsv1beta1.ServiceImportSpec{
		Type: mcsv1beta1.ClusterSetIP, IPs: []string{"10.96.3.4"}, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}}, metav1.CreateOptions{})
	must(t, err)
	kubernetes, err := cluster.Kubernetes().CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	must(t, err)
	const own, imported, other = "kubernetes.default.svc.cluster.local", "cart.shop.svc.clusterset.local", "www.example.org"
	caches := []string{linkLocalAddress, serviceAddress}
	for _, cache := range caches {
		s.untilAnswered(cache, own, kubernetes.Spec.ClusterIP)
		s.untilAnswered(cache, imported)
	}

	// CoreDNS alone serves the zone: the cache asks the name server of the node.
	all, err := PlanConfigure(t.Context(), s.client, inKubeSystem)
	must(t, err)
	i := slices.IndexFunc(all.Changes, func(c Change) bool { return c.Object == "ConfigMap kube-system/node-local-dns" })
	if i < 0 || len(all.Changes) != 3 {
		t.Fatalf("planned: %v", objectsOf(all))
	}
	s.change(&Plan{Changes: slices.Delete(slices.Clone(all.Changes), i, i+1)})
	s.untilAnswered(coreDNSAddress, imported, "10.96.3.4")
	for _, cache := range caches {
		s.untilAnswered(cache, imported)
	}
	check := operator.Cluster{Name: "a", Client: s.client}
	if is := d002(t, Check(t.Context(), check, inKubeSystem)); is.Severity != findings.Warning || !strings.Contains(is.Message, "node-local-dns") {
		t.Errorf("the check finds %+v", is)
	}

	s.change(&Plan{Changes: all.Changes[i : i+1]})
	for _, cache := range caches {
		s.untilAnswered(cache, imported, "10.96.3.4")
		s.untilAnswered(cache, "absent.shop.svc.clusterset.local")
		s.untilAnswered(cache, own, kubernetes.Spec.ClusterIP)
		s.untilAnswered(cache, other)
	}
	if is := d002(t, Check(t.Context(), check, inKubeSystem)); is.Severity != findings.OK {
		t.Errorf("the check finds %+v", is)
	}

	removal, err := PlanRemove(t.Context(), s.client, inKubeSystem)
	must(t, err)
	s.change(removal)
	for _, cache := range caches {
		s.untilAnswered(cache, imported)
		s.untilAnswered(cache, own, kubernetes.Spec.ClusterIP)
	}
}
