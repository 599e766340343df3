//go:build e2e || nightly

package e2e

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// restricted is the part of a pod's spec that runs a busybox script in the cluster of Peering
// PEERING, under the Pod Security level restricted.
const restricted = `
      runtimeClassName: strait-PEERING
      terminationGracePeriodSeconds: 10
      securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: main
        image: strait.test/busybox:1
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}`

// serves is what a server needs beside that. It answers for a while after it was asked to end,
// because clients may connect to it a moment longer.
const serves = `
        command: [sh, -c, 'hostname >/tmp/index.html; httpd -p 8080 -h /tmp; trap "sleep 4; exit" TERM; while :; do sleep 1; done']
        readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}
        volumeMounts: [{name: tmp, mountPath: /tmp}]
      volumes: [{name: tmp, emptyDir: {}}]`

// workloads are the controllers of Kubernetes whose pods run in the other cluster, and a DaemonSet
// whose pods do not.
const workloads = `
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: front}
spec: {selector: {app: front}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: front}
spec:
  replicas: 3
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec:` + restricted + serves + `
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: shop, name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:` + restricted + serves + `
---
apiVersion: batch/v1
kind: Job
metadata: {namespace: shop, name: sum}
spec:
  completions: 2
  template:
    spec:
      restartPolicy: Never` + restricted + `
        command: [sh, -c, 'exit $((40 + 2 - 42))']
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {namespace: shop, name: everywhere}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: 'strait.test/busybox:1', command: [sleep, '100000']}
`

// worksLikeANode runs controllers of Kubernetes on the virtual node of a: what they manage is
// called by name from both clusters, is updated without a failed request, and survives a drain.
func (w *world) worksLikeANode(t *testing.T, kubectl func(cluster string, args ...string) string) {
	t.Helper()
	node := "strait-" + peering["a"]
	rolledOut := func(what string) { kubectl("a", "--namespace=shop", "rollout", "status", what, "--timeout=10m") }
	w.do(t, strings.ReplaceAll(workloads, "PEERING", peering["a"]), "kubectl", "--context=a", "apply", "--filename=-")
	for _, what := range []string{"deployment/front", "statefulset/db", "daemonset/everywhere"} {
		rolledOut(what)
	}
	kubectl("a", "--namespace=shop", "wait", "job/sum", "--for=condition=Complete", "--timeout=10m")
	const phases = `--output=jsonpath={range .items[*]}{.spec.nodeName}{" "}{.status.phase}{"\n"}{end}`
	for app, want := range map[string]string{"app=front": "3 Running", "app=db": "2 Running", "batch.kubernetes.io/job-name=sum": "2 Succeeded", "app=everywhere": fmt.Sprint(nodesOfEach, " elsewhere")} {
		var there, elsewhere int
		phase := ""
		for line := range strings.Lines(kubectl("a", "--namespace=shop", "get", "pods", "--selector="+app, phases)) {
			if on, is, _ := strings.Cut(strings.TrimSpace(line), " "); on == node {
				there++
				phase = is
			} else {
				elsewhere++
			}
		}
		is := fmt.Sprint(there, " ", phase)
		if there == 0 {
			is = fmt.Sprint(elsewhere, " elsewhere")
		}
		if is != want {
			t.Errorf("of pods with %s, %s are on node %s, want %s", app, is, node, want)
		}
	}
	for _, cluster := range w.names {
		for i := range 2 {
			host := fmt.Sprint("db-", i)
			w.says(t, cluster, "http://"+host+".db.shop.svc.cluster.local:8080/", "^"+host+"$")
		}
		w.says(t, cluster, "http://front.shop.svc.cluster.local/", "^front-")
	}
	w.refusesWithReasons(t, kubectl)

	// A rolling update, with requests all the time.
	ended := make(chan error, 1)
	pod := w.web(t, "a", "metadata.name")[0]
	kubectl("a", "exec", pod, "--", "rm", "-f", "/tmp/enough")
	go func() {
		out, err := w.try(t, "", "kubectl", "--context=a", "exec", pod, "--", "sh", "-c",
			`while [ ! -e /tmp/enough ]; do timeout 10 wget -q -O- http://front.shop.svc.cluster.local/ >/dev/null && good=$((good+1)) || bad=$((bad+1)); done; echo "$((good)) $((bad))"`)
		var good, bad int
		if err == nil {
			_, err = fmt.Sscan(out, &good, &bad)
		}
		if err == nil && (bad > 0 || good < 20) {
			err = fmt.Errorf("%d requests failed, %d did not", bad, good)
		}
		ended <- err
	}()
	kubectl("a", "--namespace=shop", "rollout", "restart", "deployment/front")
	rolledOut("deployment/front")
	eventually(t, "the former pods are gone", func() error {
		if all := strings.Fields(kubectl("b", "--namespace=shop", "get", "pods", "--selector=app=front", "--output=name")); len(all) != 3 {
			return errors.New(strings.Join(all, " "))
		}
		return nil
	})
	kubectl("a", "exec", pod, "--", "touch", "/tmp/enough")
	if err := <-ended; err != nil {
		t.Errorf("during a rolling update: %v", err)
	}

	// A label that is changed by hand takes a pod out of its Service, in both clusters.
	odd := strings.TrimPrefix(strings.Fields(kubectl("a", "--namespace=shop", "get", "pods", "--selector=app=front", "--output=name"))[0], "pod/")
	kubectl("a", "--namespace=shop", "label", "pod", odd, "app=odd", "--overwrite")
	for _, cluster := range w.names {
		eventually(t, odd+" is no endpoint in "+cluster, func() error {
			endpoints := kubectl(cluster, "--namespace=shop", "get", "endpointslices", "--selector=kubernetes.io/service-name=front", "--output=jsonpath={.items[*].endpoints[*].targetRef.name}")
			if slices.Contains(strings.Fields(endpoints), odd) {
				return errors.New(endpoints)
			}
			return nil
		})
	}
	kubectl("a", "--namespace=shop", "delete", "pod", odd, "--timeout=10m")

	// Drained, and back.
	rolledOut("deployment/front")
	kubectl("a", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=10m")
	if left := kubectl("b", "--namespace=shop", "get", "pods", "--output=name", "--field-selector=status.phase=Running"); left != "" {
		t.Errorf("after the drain, these run:\n%s", left)
	}
	kubectl("a", "uncordon", node)
	for _, what := range []string{"deployment/front", "statefulset/db"} {
		rolledOut(what)
	}
	for _, cluster := range w.names {
		w.says(t, cluster, "http://db-1.db.shop.svc.cluster.local:8080/", "^db-1$")
	}
	w.do(t, strings.ReplaceAll(workloads, "PEERING", peering["a"]), "kubectl", "--context=a", "delete", "--filename=-", "--timeout=10m")
}

// says calls a URL from a pod of a cluster until the answer matches.
func (w *world) says(t *testing.T, cluster, url, want string) {
	t.Helper()
	eventually(t, url+" answers in "+cluster, func() error {
		out, err := w.try(t, "", "kubectl", "--context="+cluster, "exec", w.web(t, cluster, "metadata.name")[0], "--", "timeout", "5", "wget", "-q", "-O-", url)
		if err == nil && !regexp.MustCompile(want).MatchString(strings.TrimSpace(out)) {
			err = fmt.Errorf("the answer is %q", out)
		}
		return err
	})
}

// refusesWithReasons creates pods that cannot run in the other cluster, each with the reason that
// its user sees.
func (w *world) refusesWithReasons(t *testing.T, kubectl func(cluster string, args ...string) string) {
	t.Helper()
	pod := func(namespace, name, spec string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: %s, name: %s}\nspec:\n  runtimeClassName: strait-%s\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {name: main, image: 'strait.test/busybox:1', command: [sleep, '1000']}\n%s",
			namespace, name, peering["a"], spec)
	}
	refused := []struct{ namespace, name, spec, reason, message string }{
		{"shop", "of-the-host", "  hostNetwork: true\n", "FieldRefused", "spec.hostNetwork"},
		{"shop", "not-restricted", "", "TwinRefused", "violates PodSecurity"},
		{"default", "elsewhere", "", "NamespaceNotOffloaded", "strait offload default --to " + peering["a"]},
	}
	var manifests strings.Builder
	for _, r := range refused {
		manifests.WriteString(pod(r.namespace, r.name, r.spec))
	}
	w.do(t, manifests.String(), "kubectl", "--context=a", "apply", "--filename=-")
	for _, r := range refused {
		eventually(t, r.name+" is refused", func() error {
			is := kubectl("a", "--namespace="+r.namespace, "get", "pod", r.name, "--output=jsonpath={.status.phase} {.status.reason}: {.status.message}")
			events := kubectl("a", "--namespace="+r.namespace, "get", "events", "--field-selector=involvedObject.name="+r.name+",reason="+r.reason, "--output=jsonpath={.items[*].message}")
			if !strings.HasPrefix(is, "Pending "+r.reason+": ") || !strings.Contains(is, r.message) || !strings.Contains(events, r.message) {
				return fmt.Errorf("its status is %q, its events %q", is, events)
			}
			return nil
		})
	}
	begun := time.Now()
	w.do(t, manifests.String(), "kubectl", "--context=a", "delete", "--filename=-", "--timeout=10m")
	t.Logf("the refused pods were deleted in %v", time.Since(begun).Round(time.Second))
}
