//go:build e2e || nightly

package nodes

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/test/wait"
)

// kubectl runs kubectl in a cluster, which must succeed, and returns its output.
func kubectl(t *testing.T, lab *Lab, context, input string, args ...string) string {
	t.Helper()
	cmd := lab.Command(t.Context(), "kubectl", append([]string{"--context=" + context}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, &errs)
	}
	return string(out)
}

// workloads are a pod on each node that serves its name, one in each node's network with a
// capability, and some without privileges.
const workloads = `
apiVersion: v1
kind: Namespace
metadata: {name: restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
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
        command: [sh, -c, 'hostname >/tmp/index.html; echo serving; exec httpd -f -p 8080 -h /tmp']
        readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: host}
spec:
  selector: {matchLabels: {app: host}}
  template:
    metadata: {labels: {app: host}}
    spec:
      terminationGracePeriodSeconds: 0
      hostNetwork: true
      containers:
      - name: host
        image: strait.test/busybox:1
        command: [sh, -c, 'ip link add made type bridge && exec sleep infinity']
        securityContext: {capabilities: {drop: [ALL], add: [NET_ADMIN]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: strict, namespace: restricted}
spec:
  replicas: 2
  selector: {matchLabels: {app: strict}}
  template:
    metadata: {labels: {app: strict}}
    spec:
      terminationGracePeriodSeconds: 0
      securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: strict
        image: strait.test/busybox:1
        resources: {limits: {memory: 64Mi, cpu: 200m}}
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
`

func TestPodsRunAsInAnyCluster(t *testing.T) {
	t.Parallel()
	lab := New(t)
	clusters := lab.Start(t, Options{Name: "a", Index: 1, Nodes: 2}, Options{Name: "b", Index: 2, Nodes: 2, CNI: FlannelVXLAN, Families: DualStack})
	for _, c := range clusters {
		kubectl(t, lab, c.name, workloads, "apply", "-f", "-")
	}
	for _, c := range clusters {
		run := func(args ...string) string { t.Helper(); return kubectl(t, lab, c.name, "", args...) }
		for _, what := range []string{"daemonset/web", "daemonset/host", "--namespace=restricted deployment/strict"} {
			run(append([]string{"rollout", "status", "--timeout=10m"}, strings.Fields(what)...)...)
		}
		of := func(field string) []string {
			return strings.Fields(run("get", "pods", "--selector=app=web", "--output=jsonpath={.items[*]."+field+"}"))
		}
		names := of("metadata.name")
		for i, f := range c.families {
			addresses := of(fmt.Sprintf("status.podIPs[%d].ip", i))
			for pod, address := range addresses {
				if in := netip.MustParseAddr(address); !netip.MustParsePrefix(f.podRange(0, 1)).Contains(in) && !netip.MustParsePrefix(f.podRange(0, 2)).Contains(in) {
					t.Errorf("%s: a pod has the address %s", c.name, address)
				}
				run("exec", names[1-pod], "--", "ping", "-c", "1", "-W", "60", address)
			}
			service := run("get", "service", "web", fmt.Sprintf("--output=jsonpath={.spec.clusterIPs[%d]}", i))
			// kube-proxy learns of the pods a moment later than the DaemonSet.
			wait.Until(t, fmt.Sprintf("%s: the Service at %s answers with the name of a pod", c.name, service), func() bool {
				get := lab.Command(t.Context(), "kubectl", "--context="+c.name, "exec", names[0], "--", "wget", "-q", "-O-", "http://"+net.JoinHostPort(service, "80")+"/")
				out, err := get.Output()
				return err == nil && slices.Contains(names, strings.TrimSpace(string(out)))
			})
		}
		if out := run("logs", names[0]); out != "serving\n" {
			t.Errorf("%s: a pod's log is %q", c.name, out)
		}
		service := run("get", "service", "web", "--output=jsonpath={.spec.clusterIP}")
		if out := run("exec", names[1], "--", "nslookup", "-type=A", "web.default.svc.cluster.local."); !strings.Contains(out, "Address: "+service) {
			t.Errorf("%s: the name of the Service %s resolves to %q", c.name, service, out)
		}
		for node := 1; node <= 2; node++ {
			if out, err := c.OnNode(t, node, "ip", "link", "show", "made"); err != nil {
				t.Errorf("%s: the pod with NET_ADMIN has no effect: %v %s", c.name, err, out)
			}
		}
	}
	a, b := clusters[0], clusters[1]
	if out := kubectl(t, lab, b.name, "", "get", "nodes", `--output=jsonpath={.items[*].metadata.annotations.flannel\.alpha\.coreos\.com/backend-type}`); out != "vxlan vxlan" {
		t.Errorf("Flannel's backends are %q", out)
	}
	pod := strings.Fields(kubectl(t, lab, a.name, "", "get", "pods", "--selector=app=web", "--output=jsonpath={.items[*].metadata.name}"))[0]
	kubectl(t, lab, a.name, "", "exec", pod, "--", "wget", "-q", "-O-", "http://"+ipv4.node(b.index, 1)+":30080/")
	peak, err := lab.Peak()
	must(t, err)
	t.Logf("peak memory %d MiB", peak>>20)
}

func TestNothingIsLeftOfALab(t *testing.T) {
	t.Parallel()
	var groups cgroups
	var dir string
	t.Run("lab", func(t *testing.T) {
		lab := New(t)
		lab.Start(t, Options{Name: "a", Index: 1, Nodes: 1})
		groups, dir = lab.cgroups, lab.dir
	})
	for _, path := range append(groups, dir) {
		if _, err := os.Stat(path); dir != "" && !os.IsNotExist(err) {
			t.Errorf("%s was left (%v)", path, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	if dir != "" && strings.Contains(string(mounts), filepath.Base(dir)) {
		t.Errorf("mounts were left:\n%s", mounts)
	}
}
