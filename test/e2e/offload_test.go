//go:build e2e || nightly

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// guest is a pod of a that runs in b and serves what its ConfigMap and its Secret say, beside
// host, which does not run in b. Both are endpoints of a Service.
const guest = `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: shop, name: settings}
data: {NAME: guest}
---
apiVersion: v1
kind: Secret
metadata: {namespace: shop, name: password}
stringData: {word: open}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: shop}
spec: {selector: {serves: shop}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: host, labels: {serves: shop}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: host
    image: strait.test/busybox:1
    command: [sh, -c, 'echo host >/tmp/index.html; exec httpd -f -p 8080 -h /tmp']
    readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: guest, labels: {app: guest, serves: shop}}
spec:
  runtimeClassName: strait-PEERING
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: guest
    image: strait.test/busybox:1
    command: [sh, -c, 'echo $NAME $(cat /password/word) >/tmp/index.html; exec httpd -f -p 8080 -h /tmp']
    envFrom: [{configMapRef: {name: settings}}]
    volumeMounts: [{name: password, mountPath: /password}, {name: tmp, mountPath: /tmp}]
    readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  volumes: [{name: password, secret: {secretName: password}}, {name: tmp, emptyDir: {}}]
`

// offloads runs pods of a in b, one of them through a restart of both agents, and takes them back.
func (w *world) offloads(t *testing.T) {
	t.Helper()
	kubectl := func(cluster string, args ...string) string {
		t.Helper()
		return w.do(t, "", "kubectl", append([]string{"--context=" + cluster}, args...)...)
	}
	kubectl("a", "create", "namespace", "shop")
	t.Log(w.do(t, "", "strait", "lend", "shop", "--to", peering["b"], "--cpu=4", "--memory=4Gi", "--wait=10m", "--context=b"))
	t.Log(w.do(t, "", "strait", "borrow", "--from", peering["a"], "--cpu=2", "--wait=10m", "--context=a"))
	t.Log(w.do(t, "", "strait", "offload", "shop", "--to", peering["a"], "--context=a"))
	node := "strait-" + peering["a"]
	eventually(t, "the node is ready", func() error {
		_, err := w.try(t, "", "kubectl", "--context=a", "wait", "node/"+node, "--for=condition=Ready", "--timeout=5s")
		return err
	})
	if cpu := kubectl("a", "get", "node", node, "--output=jsonpath={.status.allocatable.cpu}"); cpu != "2" {
		t.Errorf("the node has %s CPUs, want the lesser of 4 and 2", cpu)
	}
	w.do(t, strings.ReplaceAll(guest, "PEERING", peering["a"]), "kubectl", "--context=a", "apply", "--filename=-")
	kubectl("a", "--namespace=shop", "wait", "pod/guest", "--for=condition=Ready", "--timeout=10m")
	if on := kubectl("a", "--namespace=shop", "get", "pod", "guest", "--output=jsonpath={.spec.nodeName}"); on != node {
		t.Errorf("the pod is on node %s, want %s", on, node)
	}
	twin := kubectl("b", "--namespace=shop", "get", "pod", "guest", "--output=jsonpath={.metadata.uid}")
	address := kubectl("a", "--namespace=shop", "get", "pod", "guest", "--output=jsonpath={.status.podIP}")
	for _, pod := range w.web(t, "a", "metadata.name") {
		kubectl("a", "exec", pod, "--", "ping", "-c1", "-W60", address)
	}
	for _, cluster := range w.names {
		w.shopServes(t, cluster)
	}
	t.Log(w.do(t, "", "strait", "trace", "default/"+w.web(t, "a", "metadata.name")[0], address+":8080", "--context=a", "--remote-context=b"))
	w.talks(t)

	for _, cluster := range w.names {
		kubectl(cluster, "--namespace=strait-offload", "delete", "pods", "--all", "--grace-period=0", "--force")
		kubectl(cluster, "--namespace=strait-offload", "wait", "deployment", "--all", "--for=condition=Available", "--timeout=10m")
	}
	if now := kubectl("b", "--namespace=shop", "get", "pod", "guest", "--output=jsonpath={.metadata.uid}"); now != twin {
		t.Errorf("after a restart of both agents the twin is %s, before it was %s", now, twin)
	}
	kubectl("a", "--namespace=shop", "delete", "pod", "guest", "--timeout=10m")
	eventually(t, "nothing of the pod is left in b", func() error {
		if left := kubectl("b", "--namespace=shop", "get", "pods,podtemplates,secrets", "--output=name"); left != "" {
			return errors.New(left)
		}
		return nil
	})
	w.worksLikeANode(t, kubectl)
	for problem := range strings.Lines(kubectl("a", "get", "clusternetwork", "default", `--output=jsonpath={range .status.conditions[?(@.status!="True")]}{.message}{"\n"}{end}`)) {
		t.Errorf("while pods of a run in b, ClusterNetwork default of a says: %s", problem)
	}
	if nodes := kubectl("a", "get", "clusternetwork", "default", "--output=jsonpath={.status.nodeCIDRs}"); strings.Contains(nodes, "10.0.") {
		t.Errorf("the CIDRs of the nodes of a are %s: one is that of a pod", nodes)
	}
	w.takeBack(t, kubectl)
}

// shopServes calls the Service of the offloaded namespace by its name, from pods of a cluster, until
// the pods in both clusters have answered.
func (w *world) shopServes(t *testing.T, cluster string) {
	t.Helper()
	missing := map[string]bool{"host": true, "guest open": true}
	eventually(t, "the Service answers in "+cluster+" from both clusters", func() error {
		out, err := w.try(t, "", "kubectl", "--context="+cluster, "exec", w.web(t, cluster, "metadata.name")[0], "--", "timeout", "5", "wget", "-q", "-O-", "http://shop.shop.svc.cluster.local/")
		if err != nil {
			return err
		}
		delete(missing, strings.TrimSpace(out))
		if len(missing) > 0 {
			return fmt.Errorf("no answer of %v", missing)
		}
		return nil
	})
}

// takeBack removes everything of offloading, as operators do it.
func (w *world) takeBack(t *testing.T, kubectl func(cluster string, args ...string) string) {
	t.Helper()
	t.Log(w.do(t, "", "strait", "unborrow", "--from", peering["a"], "--context=a", "--yes", "--wait=10m"))
	if left := kubectl("a", "get", "nodes,runtimeclasses", "--selector=strait.dev/peering", "--output=name"); left != "" {
		t.Errorf("after strait unborrow, this is left:\n%s", left)
	}
	t.Log(w.do(t, "", "strait", "unlend", "--all", "--from", peering["b"], "--context=b", "--yes", "--wait=10m"))
	kubectl("a", "delete", "namespace", "shop", "--timeout=10m")
	for _, cluster := range w.names {
		eventually(t, "the namespaces of offloading are deleted in "+cluster, func() error {
			if left := kubectl(cluster, "get", "namespaces", "strait-offload", "shop", "--ignore-not-found", "--output=name"); left != "" {
				return errors.New(left)
			}
			return nil
		})
	}
}
