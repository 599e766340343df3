//go:build e2e || nightly

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/test/nodes"
)

// The commands of README.md and of the first tutorial leave nothing behind. Then cluster b permits no privilege in any namespace, so that it
// is installed without node helpers. Services are shared with cluster a in both directions.
func TestServicesAreSharedWithAClusterWithoutNodeHelpers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.followReadme(t)
	w.follow(t, "docs/tutorials/start.md")
	stage(t, "restrict b", func(t *testing.T) { w.restrict(t, "b") })
	before := networks(t, w.b)
	stage(t, "preflight", func(t *testing.T) { w.helpersAreRefused(t, "b") })
	stage(t, "install", func(t *testing.T) {
		w.do(t, "", "helm", "install", "strait", "charts/strait", "--kube-context=a", "--namespace=strait-system", "--create-namespace", "--wait", "--timeout=10m")
		w.do(t, "", "helm", "install", "strait", "charts/strait", "--kube-context=b", "--namespace=strait-system", "--set=node.enabled=false", "--wait", "--timeout=10m")
	})
	stage(t, "join", func(t *testing.T) { w.join(t) })
	stage(t, "verify", func(t *testing.T) {
		t.Log(w.do(t, "", "strait", "verify", "--context=a", "--remote-context=b"))
	})
	var revertDNS func(*testing.T)
	stage(t, "DNS", func(t *testing.T) { revertDNS = w.configureDNS(t) })
	stage(t, "export", func(t *testing.T) { w.startShops(t) })
	directions := [][2]string{{"a", "b"}, {"b", "a"}} // of connections
	for _, d := range directions {
		stage(t, "names from "+d[0], func(t *testing.T) { w.namesAnswer(t, d[0], d[1]) })
	}
	for _, d := range directions {
		stage(t, fmt.Sprintf("%d MiB from %s and back", transferSize>>20, d[0]), func(t *testing.T) { w.transfers(t, d[0], d[1]) })
	}
	for _, d := range directions {
		stage(t, "10,000 connections from "+d[0], func(t *testing.T) { w.connects(t, d[0], d[1]) })
	}
	for _, d := range directions {
		stage(t, "killed gateway, connections from "+d[0], func(t *testing.T) { w.gatewayIsKilled(t, d[0], d[1]) })
	}
	stage(t, "no trace on nodes", func(t *testing.T) {
		if out := w.do(t, "", "kubectl", "--context=b", "get", "daemonsets", "--all-namespaces", "--output=name"); out != "" {
			t.Errorf("b has DaemonSets:\n%s", out)
		}
		now := networks(t, w.b)
		maps.DeleteFunc(now, func(thing string, _ bool) bool { return before[thing] })
		if len(now) > 0 {
			t.Errorf("the nodes of b have\n%s", strings.Join(slices.Sorted(maps.Keys(now)), "\n"))
		}
	})
	stage(t, "uninstall", func(t *testing.T) {
		w.separate(t)
		revertDNS(t)
		w.do(t, "", "helm", "uninstall", "strait", "--kube-context=b", "--namespace=strait-system", "--timeout=10m")
		out := w.do(t, "", "strait", "uninstall", "--check", "--context=b", "--image="+w.image, "--wait=5m")
		if !strings.Contains(out, "refuses pods with the privileges of a node helper") {
			t.Errorf("strait uninstall --check:\n%s", out)
		}
	})
}

// restrict makes a cluster enforce the Pod Security Standard restricted in all namespaces
// except those of Kubernetes.
func (w *world) restrict(t *testing.T, cluster string) {
	t.Helper()
	// The tutorial leaves the namespace strait-system, as helm uninstall does.
	w.do(t, "", "kubectl", "--context="+cluster, "label", "namespace", "default", "strait-system", "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
	w.do(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: restricted}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [namespaces], operations: [CREATE, UPDATE]}]
  matchConditions:
  - {name: not-of-kubernetes, expression: "!object.metadata.name.startsWith('kube-')"}
  validations:
  - expression: object.metadata.?labels[?'pod-security.kubernetes.io/enforce'].orValue('') == 'restricted'
    message: every namespace enforces restricted
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: restricted}
spec: {policyName: restricted, validationActions: [Deny]}
`, "kubectl", "--context="+cluster, "apply", "--filename=-")
	eventually(t, "the policy is in effect", func() error {
		out, err := w.try(t, "", "kubectl", "--context="+cluster, "create", "namespace", "privileged", "--dry-run=server")
		if err == nil {
			return errors.New(out)
		}
		return nil
	})
}

// helpersAreRefused checks what preflight says of a cluster that permits no node helper.
func (w *world) helpersAreRefused(t *testing.T, cluster string) {
	t.Helper()
	const found = "the cluster refuses a pod with the privileges of the node helper"
	if out, err := w.try(t, "", "strait", "preflight", "--context="+cluster, "--image="+w.image); err == nil || !strings.Contains(out, found) || !strings.Contains(out, "node.enabled=false") {
		t.Errorf("strait preflight: %v\n%s", err, out)
	}
	if out := w.do(t, "", "strait", "preflight", "--without-nodes", "--context="+cluster, "--image="+w.image); strings.Contains(out, found) || !strings.Contains(out, "no pod by its address") {
		t.Errorf("strait preflight --without-nodes:\n%s", out)
	}
}

// networks returns the network configuration of all nodes of a cluster.
func networks(t *testing.T, c *nodes.Cluster) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	for number := 1; number <= c.Nodes(); number++ {
		there, err := network(t, c, number)
		must(t, err)
		for _, thing := range there {
			all[fmt.Sprintf("node %d: %s", number, thing)] = true
		}
	}
	return all
}

// shop is a namespace with servers that comply with restricted: HTTP, and echoes over TCP and
// UDP. They are clients too.
const shop = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      terminationGracePeriodSeconds: 0
      securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: web
        image: BUSYBOX
        command: [sh, -c, 'echo NAME >/tmp/index.html; exec httpd -f -p 8080 -h /tmp']
        readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      - name: echo
        image: STRAIT
        args: [agent, serve]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Service
metadata: {name: web-NAME, namespace: shop}
spec:
  selector: {app: server}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: echo, port: 6099}
  - {name: echo-udp, port: 6099, protocol: UDP}
`

// startShops starts the servers of both clusters and exports their Services: web-a and web-b.
func (w *world) startShops(t *testing.T) {
	t.Helper()
	for _, cluster := range []string{"a", "b"} {
		w.do(t, strings.NewReplacer("NAME", cluster, "BUSYBOX", nodes.Busybox, "STRAIT", w.image).Replace(shop),
			"kubectl", "--context="+cluster, "apply", "--filename=-")
	}
	for _, d := range [][2]string{{"a", "b"}, {"b", "a"}} {
		w.do(t, "", "kubectl", "--context="+d[0], "--namespace=shop", "rollout", "status", "deployment/server", "--timeout=10m")
		w.do(t, "", "strait", "export", "shop/web-"+d[0], "--context="+d[0], "--remote-context="+d[1], "--wait=5m")
	}
}

// namesAnswer calls the Service of another cluster by name, over HTTP and UDP. With a gateway
// without node helpers on the path, servers see the address of a gateway. The pod CIDRs overlap, so
// a gateway of the other cluster may have the address of a client.
func (w *world) namesAnswer(t *testing.T, from, to string) {
	t.Helper()
	eventually(t, "the name answers", func() error {
		out, err := w.try(t, "", "kubectl", "--context="+from, "--namespace=shop", "exec", "deployment/server", "--container=web", "--",
			"timeout", "5", "wget", "-q", "-O-", fmt.Sprintf("http://web-%s.shop.svc.clusterset.local/", to))
		if err == nil && out != to+"\n" {
			err = fmt.Errorf("the answer is %q", out)
		}
		return err
	})
	clients, gateways := w.podAddresses(t, from, "shop"), w.podAddresses(t, to, "strait-gateways")
	for _, check := range []endpoint.Check{
		{ID: "tcp", Protocol: endpoint.TCP, Size: 1000},
		{ID: "udp", Protocol: endpoint.UDP, Size: 1000, Mode: endpoint.Whole},
	} {
		check.To, check.Patience = w.imported(t, from, to), time.Minute
		results, err := w.probe(t, from, endpoint.Order{Sequences: []endpoint.Sequence{{check}}})
		must(t, err)
		r := results[0]
		source := r.Source.String()
		if r.Failure != "" || slices.Contains(clients, source) && !slices.Contains(gateways, source) {
			t.Errorf("over %s: %+v; the clients are %v, the gateways %v", check.Protocol, r, clients, gateways)
		}
	}
}

func (w *world) podAddresses(t *testing.T, cluster, namespace string) []string {
	t.Helper()
	return strings.Fields(w.do(t, "", "kubectl", "--context="+cluster, "--namespace="+namespace, "get", "pods", "--output=jsonpath={.items[*].status.podIP}"))
}

// imported returns the address of the echo servers of another cluster.
func (w *world) imported(t *testing.T, in, of string) netip.AddrPort {
	t.Helper()
	out := w.do(t, "", "kubectl", "--context="+in, "--namespace=shop", "get", "serviceimport", "web-"+of, "--output=jsonpath={.spec.ips[0]}")
	address, err := netip.ParseAddr(out)
	must(t, err)
	return netip.AddrPortFrom(address, endpoint.Port)
}

// probe runs checks in a pod of a cluster.
func (w *world) probe(t *testing.T, cluster string, o endpoint.Order) (results []endpoint.Result, err error) {
	t.Helper()
	in, err := json.Marshal(o)
	must(t, err)
	out, err := w.try(t, string(in), "kubectl", "--context="+cluster, "--namespace=shop", "exec", "--stdin", "deployment/server", "--container=echo", "--", "/strait", "agent", "probe")
	if err == nil {
		err = json.Unmarshal([]byte(out), &results)
	}
	return results, err
}

// transfers sends and receives bytes over one connection, and compares them.
func (w *world) transfers(t *testing.T, from, to string) {
	t.Helper()
	before := map[string]float64{from: w.gatewayCPU(t, from), to: w.gatewayCPU(t, to)}
	begun := time.Now()
	results, err := w.probe(t, from, endpoint.Order{Sequences: []endpoint.Sequence{{{
		ID: "transfer", Protocol: endpoint.TCP, To: w.imported(t, from, to), Size: transferSize, Patience: 20 * time.Minute,
	}}}})
	must(t, err)
	if r := results[0]; r.Failure != "" || r.Bytes != transferSize || r.Interrupted > 0 {
		t.Errorf("%+v", r)
	}
	took, gigabytes := time.Since(begun).Seconds(), 2*float64(transferSize)/1e9
	cost := func(cluster string) float64 { return (w.gatewayCPU(t, cluster) - before[cluster]) / gigabytes }
	note("%s to %s and back: %.2f GB in %.1f s; CPU time per GB: %.1f s of the gateways of a, %.1f s of those of b", from, to, gigabytes, took, cost("a"), cost("b"))
}

// gatewayCPU returns the CPU time of the gateways of a cluster since their start, in seconds.
func (w *world) gatewayCPU(t *testing.T, cluster string) (all float64) {
	t.Helper()
	gateways := []string{"--context=" + cluster, "--namespace=strait-gateways"}
	for pod := range strings.FieldsSeq(w.do(t, "", "kubectl", append(gateways, "get", "pods", "--output=name")...)) {
		page := w.do(t, "", "kubectl", append(gateways, "exec", pod, "--", "/strait", "agent", "fetch", "http://127.0.0.1:8080/metrics")...)
		_, value, found := strings.Cut(page, "\nprocess_cpu_seconds_total ")
		if !found {
			t.Fatalf("%s has no metric of its CPU time:\n%s", pod, page)
		}
		value, _, _ = strings.Cut(value, "\n")
		seconds, err := strconv.ParseFloat(value, 64)
		must(t, err)
		all += seconds
	}
	return all
}

// shortAtOnce is how many short connections are open at a time.
const shortAtOnce = 8

// short returns an order of n short connections.
func short(n int, to netip.AddrPort, patience time.Duration) (o endpoint.Order) {
	o.Sequences = make([]endpoint.Sequence, shortAtOnce)
	for i := range n {
		o.Sequences[i%shortAtOnce] = append(o.Sequences[i%shortAtOnce], endpoint.Check{ID: strconv.Itoa(i), Protocol: endpoint.TCP, To: to, Size: 64, Patience: patience})
	}
	return o
}

// connects opens 10,000 connections, all of which succeed.
func (w *world) connects(t *testing.T, from, to string) {
	t.Helper()
	results, err := w.probe(t, from, short(10_000, w.imported(t, from, to), time.Minute))
	must(t, err)
	failed, _, again, _ := outcomes(t, results)
	note("%s to %s: %d of 10,000 connections tried again", from, to, again)
	if failed > 0 || len(results) != 10_000 || again > 0 && firstTry {
		t.Errorf("of %d connections, %d failed and %d tried again", len(results), failed, again)
	}
}

// outcomes counts the connections that failed, those of them that were established before, those that tried again, and the
// most attempts of one. It prints the first failures.
func outcomes(t *testing.T, results []endpoint.Result) (failed, established, again, most int) {
	t.Helper()
	for _, r := range results {
		if r.Failure != "" {
			if failed++; failed < 5 {
				t.Logf("%+v", r)
			}
			if r.RTT > 0 {
				established++
			}
		}
		if r.Tries > 1 {
			again++
		}
		most = max(most, r.Tries)
	}
	return failed, established, again, most
}

// gatewayIsKilled kills a gateway of b while pods of one cluster connect to a Service of the other. Connections that begin
// a second later succeed as fast as any; those before may need the kernel's first retransmission (RFC 6298 section 2).
// Connections that the gateway has accepted end with it: a client that waits for the server's first byte does not notice.
func (w *world) gatewayIsKilled(t *testing.T, from, to string) {
	t.Helper()
	const batch, retransmission = 250, 1200 * time.Millisecond
	server := w.imported(t, from, to)
	var over atomic.Bool // the first second
	ended, done := make(chan struct{}), make(chan error, 1)
	var during, after []endpoint.Result
	go func() {
		for {
			patience, results := connectWithin+retransmission, &during
			if over.Load() {
				patience, results = connectWithin, &after
			}
			some, err := w.probe(t, from, short(batch, server, patience))
			*results = append(*results, some...)
			if err != nil {
				done <- err
				return
			}
			select {
			case <-ended:
				if results == &after { // at least one batch begins later, however slow the machine is
					done <- nil
					return
				}
			default:
			}
		}
	}()
	time.Sleep(2 * time.Second) // connections are opened meanwhile
	w.killGateway(t, w.b, "b", peering["b"]+"-0", func() {
		time.AfterFunc(time.Second, func() { over.Store(true) })
	})
	time.Sleep(2 * time.Second)
	close(ended)
	must(t, <-done)
	for _, phase := range []struct {
		name    string
		results []endpoint.Result
		lost    int // at most, of those that were established
	}{{"until a second after the loss of a gateway", during, shortAtOnce}, {"later", after, 0}} {
		failed, established, again, most := outcomes(t, phase.results)
		note("%s to %s: %d connections %s, %d tried again, with up to %d attempts, %d failed, %d of them after they were established", from, to, len(phase.results), phase.name, again, most, failed, established)
		if failed > established || established > phase.lost || len(phase.results) == 0 {
			t.Errorf("%d of %d connections %s failed, %d of them after they were established", failed, len(phase.results), phase.name, established)
		}
	}
	w.joined(t, 2)
}

// killGateway kills the process of a gateway, runs killed, and waits until the container is back.
func (w *world) killGateway(t *testing.T, c *nodes.Cluster, cluster, pod string, killed func()) {
	t.Helper()
	get := func(field string) string {
		return w.do(t, "", "kubectl", "--context="+cluster, "--namespace=strait-gateways", "get", "pod", pod, "--output=jsonpath="+field)
	}
	const restarts = "{.status.containerStatuses[0].restartCount}"
	node, before := get("{.spec.nodeName}"), get(restarts)
	out, err := c.OnNode(t, nodeNumber(t, cluster, node), "sh", "-c", `for p in /proc/[0-9]*; do
	if tr '\0' ' ' <$p/cmdline | grep -q '^/strait gateway ' && tr '\0' '\n' <$p/environ | grep -qx POD_NAME=`+pod+`; then kill -KILL ${p#/proc/}; echo killed; fi
done 2>/dev/null`)
	if !strings.Contains(out, "killed") {
		t.Fatalf("gateway %s is not found: %v\n%s", pod, err, out)
	}
	killed()
	eventually(t, pod+" runs again", func() error {
		if out := get(restarts + ` {.status.conditions[?(@.type=="Ready")].status}`); strings.HasPrefix(out, before+" ") || !strings.HasSuffix(out, " True") {
			return fmt.Errorf("restarts and readiness: %q", out)
		}
		return nil
	})
}
