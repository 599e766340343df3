//go:build e2e || nightly

package e2e

import (
	"net"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/test/nodes"
)

// The life of an installation: install, join, use, upgrade, uninstall. The clusters have the same CIDRs in
// both IP families.
func TestClustersAreJoinedWithHelm(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, nodes.Options{Families: nodes.DualStack}, nodes.Options{CNI: nodes.FlannelVXLAN, Families: nodes.DualStack})
	stage(t, "MetalLB", func(t *testing.T) { w.a.StartMetalLB(t) })
	before, err := w.everything(t)
	must(t, err)
	stage(t, "install", func(t *testing.T) { w.install(t) })
	stage(t, "join", func(t *testing.T) { w.joinBy(t, "LoadBalancer") })
	w.balanced(t)
	var web string
	stage(t, "pods", func(t *testing.T) {
		web = w.podsMeet(t)
		w.podsMeetInSecondFamily(t)
	})
	stage(t, "Service", func(t *testing.T) { w.serviceIsReached(t, web) })
	stage(t, "verify", func(t *testing.T) { w.verifiedIn(t, "IPv4", "IPv6") })
	stage(t, "diagnose", func(t *testing.T) { t.Log(w.do(t, "", "strait", "diagnose", "--context=a", "--remote-context=b")) })
	stage(t, "offload", func(t *testing.T) { w.offloads(t) })
	w.follow(t, "docs/tutorials/offload.md")
	var revertDNS func(*testing.T)
	stage(t, "DNS", func(t *testing.T) { revertDNS = w.configureDNS(t) })
	w.follow(t, "docs/tutorials/services.md")
	stage(t, "27 behaviours of Services", func(t *testing.T) { w.servicesAreShared(t, false) })
	stage(t, "capture", func(t *testing.T) { w.captured(t, web) })
	stage(t, "bench", func(t *testing.T) { w.measured(t) })
	stage(t, "upgrade", func(t *testing.T) {
		w.replace(t, web, 2)
		w.scale(t, 1)
		w.replace(t, web, 1)
	})
	stage(t, "unpeer", func(t *testing.T) { w.separate(t) })
	stage(t, "uninstall", func(t *testing.T) {
		w.removePods(t)
		revertDNS(t) // before the CRD of ServiceImports is deleted
		w.uninstall(t)
		w.nothingIsLeft(t, before)
	})
}

// install installs the chart in all clusters, with additional arguments for helm install.
func (w *world) install(t *testing.T, more ...string) {
	t.Helper()
	for _, cluster := range w.names {
		w.do(t, "", "helm", append([]string{"install", "strait", "charts/strait", "--kube-context=" + cluster,
			"--namespace=strait-system", "--create-namespace", "--wait", "--timeout=10m"}, more...)...)
	}
}

func (w *world) join(t *testing.T) {
	t.Helper()
	w.joinBy(t, "NodePort")
}

// joinBy joins the clusters by an invite with the endpoints of Services of a type in a.
func (w *world) joinBy(t *testing.T, service string) {
	t.Helper()
	invite := w.do(t, "", "strait", "invite", "b", "--context=a", "--service-type="+service, "--wait=10m")
	w.do(t, invite, "strait", "accept", "--context=b", "--name=a", "--wait=10m")
	for _, cluster := range w.names {
		t.Log(w.do(t, "", "strait", "status", "--context="+cluster, "--wait=10m"))
	}
}

// balanced checks that the endpoints of the gateways of a are the addresses of a load balancer.
func (w *world) balanced(t *testing.T) {
	t.Helper()
	var hosts []string
	for _, endpoint := range strings.Fields(w.do(t, "", "kubectl", "--context=a", "get", "peering", peering["a"], "--output=jsonpath={.status.gateways[*].endpoints[*]}")) {
		host, _, err := net.SplitHostPort(endpoint)
		must(t, err)
		hosts = append(hosts, host)
	}
	ingress := strings.Fields(w.do(t, "", "kubectl", "--context=a", "--namespace=strait-gateways", "get", "services", "--output=jsonpath={.items[*].status.loadBalancer.ingress[*].ip}"))
	slices.Sort(hosts)
	slices.Sort(ingress)
	if len(ingress) == 0 || !slices.Equal(hosts, ingress) {
		t.Errorf("the gateways of a have the endpoints %v, and their Services the addresses %v", hosts, ingress)
	}
}

// separate deletes both Peerings. strait unpeer returns when nothing of them is left.
func (w *world) separate(t *testing.T) {
	t.Helper()
	w.do(t, "", "strait", "unpeer", "b", "--context=a", "--remote-context=b", "--wait=5m", "--yes")
	for _, cluster := range w.names {
		out := w.do(t, "", "kubectl", "--context="+cluster, "--namespace=strait-gateways", "get", "peerings,statefulsets,services,secrets", "--output=name")
		if out != "" {
			t.Errorf("in %s, this is left:\n%s", cluster, out)
		}
	}
}

func (w *world) uninstall(t *testing.T) {
	t.Helper()
	for _, cluster := range w.names {
		w.do(t, "", "helm", "uninstall", "strait", "--kube-context="+cluster, "--namespace=strait-system", "--timeout=10m")
		w.do(t, "", "kubectl", "--context="+cluster, "delete", "crd", "--selector=app.kubernetes.io/part-of=strait", "--timeout=10m")
		// Helm keeps the CRDs of the Multi-Cluster Services API: they may belong to other products too.
		w.do(t, "", "kubectl", "--context="+cluster, "delete", "crd", "serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io", "--timeout=10m")
		w.do(t, "", "kubectl", "--context="+cluster, "delete", "namespace", "strait-system", "--timeout=10m") // Helm does not delete the namespace that it created
	}
}

// pods are a server on each node that returns the name of its cluster.
const pods = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: strait.test/busybox:1
        command: [sh, -c, 'echo NAME >/tmp/index.html; exec httpd -f -p 8080 -h /tmp']
        readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
`

// podsMeet makes each pod of both clusters connect to all pods of the other one. It returns
// the address to which cluster a maps a server of b.
func (w *world) podsMeet(t *testing.T) (seen string) {
	t.Helper()
	for _, cluster := range w.names {
		w.do(t, strings.ReplaceAll(pods, "NAME", cluster), "kubectl", "--context="+cluster, "apply", "--filename=-")
	}
	for _, way := range [][2]string{{"b", "a"}, {"a", "b"}} {
		here, there := way[0], way[1]
		for _, cluster := range way {
			w.do(t, "", "kubectl", "--context="+cluster, "rollout", "status", "daemonset/web", "--timeout=10m")
		}
		for _, address := range w.web(t, there, "status.podIP") {
			seen = strings.TrimSpace(w.do(t, "", "strait", "resolve", address, "--of="+there, "--context="+here, "--output=address"))
			for _, pod := range w.web(t, here, "metadata.name") {
				w.do(t, "", "kubectl", "--context="+here, "exec", pod, "--", "ping", "-c1", "-W60", seen)
				w.answers(t, here, pod, net.JoinHostPort(seen, "8080"), there)
			}
		}
	}
	return seen
}

// web returns a field of each server.
func (w *world) web(t *testing.T, cluster, field string) []string {
	t.Helper()
	return w.fields(t, cluster, "web", field)
}

// fields returns a field of each pod with a label app.
func (w *world) fields(t *testing.T, cluster, app, field string) []string {
	t.Helper()
	return strings.Fields(w.do(t, "", "kubectl", "--context="+cluster, "get", "pods", "--selector=app="+app, "--output=jsonpath={.items[*]."+field+"}"))
}

// answers checks that a pod reaches a server of the given cluster.
func (w *world) answers(t *testing.T, cluster, pod, server, of string) {
	t.Helper()
	out := w.do(t, "", "kubectl", "--context="+cluster, "exec", pod, "--", "wget", "-q", "-O-", "http://"+server+"/")
	if out != of+"\n" {
		t.Errorf("from %s, %s answers %q, want a server of %s", cluster, server, out, of)
	}
}

// serviceIsReached connects to a server of b through a Service of a.
func (w *world) serviceIsReached(t *testing.T, seen string) {
	t.Helper()
	family := "IPv4"
	if strings.Contains(seen, ":") {
		family = "IPv6"
	}
	w.do(t, strings.NewReplacer("SEEN", seen, "FAMILY", family).Replace(`
apiVersion: v1
kind: Service
metadata: {name: web-of-b}
spec: {ipFamilies: [FAMILY], ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-of-b, labels: {kubernetes.io/service-name: web-of-b}}
addressType: FAMILY
ports: [{port: 8080}]
endpoints: [{addresses: ["SEEN"]}]
`), "kubectl", "--context=a", "apply", "--filename=-")
	address := w.do(t, "", "kubectl", "--context=a", "get", "service", "web-of-b", "--output=jsonpath={.spec.clusterIP}")
	server := net.JoinHostPort(address, "80")
	for _, pod := range w.web(t, "a", "metadata.name") {
		eventually(t, "Service "+address+" answers", func() error {
			_, err := w.try(t, "", "kubectl", "--context=a", "exec", pod, "--", "timeout", "5", "wget", "-q", "-O-", "http://"+server+"/")
			return err
		})
		w.answers(t, "a", pod, server, "b")
	}
}

func (w *world) removePods(t *testing.T) {
	t.Helper()
	w.do(t, "", "kubectl", "--context=a", "delete", "service/web-of-b", "daemonset/web", "--cascade=foreground")
	w.do(t, "", "kubectl", "--context=b", "delete", "daemonset/web", "--cascade=foreground")
}
