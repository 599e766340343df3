//go:build nightly

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/test/nodes"
)

const (
	// separated is how long the clusters do not reach each other: long enough that the control
	// plane evicts pods of a node whose lease it does not see renewed.
	separated = 10 * time.Minute
	// kills is how often an agent or an API server is killed.
	kills = 20
)

// split are pods of a that run in b, one for each row of the table of failures. A Deployment and a
// StatefulSet are evicted after 20 seconds, the others never: that they are is Kubernetes' own.
const split = `
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
    spec:
      tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 20}]` + restricted + serves + `
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
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 20}]` + restricted + serves

// alone returns a pod without a controller, which no loss of its node evicts.
func alone(name, policy, script string) string {
	spec := strings.ReplaceAll(restricted, "\n      ", "\n  ")
	return fmt.Sprintf("\n---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: %s}\nspec:\n  restartPolicy: %s\n  tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute}]%s\n    command: [sh, -c, '%s']\n",
		name, policy, spec, script)
}

// Two clusters with offloaded pods are separated for ten minutes: what happens to each pod until
// then and afterwards is what the table "When a part stops" of docs/how-to/offload.md says. Then the
// agents and the API servers of both are killed at random, and no pod is lost or doubled.
func TestOffloadedPodsOutliveASeparation(t *testing.T) {
	w := newWorldOf(t, nodes.Options{CNI: nodes.Bridge}, nodes.Options{CNI: nodes.FlannelVXLAN})
	kubectl := func(cluster string, args ...string) string {
		t.Helper()
		return w.do(t, "", "kubectl", append([]string{"--context=" + cluster, "--namespace=shop"}, args...)...)
	}
	node := "strait-" + peering["a"]
	stage(t, "install", func(t *testing.T) { w.install(t) })
	stage(t, "join", func(t *testing.T) { w.join(t) })
	stage(t, "pods", func(t *testing.T) {
		kubectl("a", "create", "namespace", "shop")
		w.do(t, "", "strait", "lend", "shop", "--to", peering["b"], "--cpu=4", "--memory=4Gi", "--wait=10m", "--context=b")
		w.do(t, "", "strait", "borrow", "--from", peering["a"], "--wait=10m", "--context=a")
		w.do(t, "", "strait", "offload", "shop", "--to", peering["a"], "--wait=10m", "--context=a")
		const forever = "while :; do sleep 1; done"
		all := split + alone("stays", "Always", forever) + alone("killed", "Always", forever) + alone("deleted", "Always", forever) +
			alone("forced", "Always", forever) + alone("finishes", "Never", "sleep 200; echo done") + alone("lost", "Never", forever)
		w.do(t, strings.ReplaceAll(all, "PEERING", peering["a"]), "kubectl", "--context=a", "apply", "--filename=-")
		kubectl("a", "wait", "pods", "--all", "--for=condition=Ready", "--timeout=10m")
	})
	before := w.uids(t, "b")
	in := w.uids(t, "a")

	stage(t, "separated", func(t *testing.T) {
		since := time.Now()
		w.Separate(t, w.a, w.b)
		kubectl("b", "delete", "pod", "killed", "--grace-period=1")
		eventually(t, "the twin that was killed is made again, without the consumer", func() error {
			return unless(w.uids(t, "b")["killed"] != "" && w.uids(t, "b")["killed"] != before["killed"], "%v", w.uids(t, "b"))
		})
		kubectl("b", "delete", "pod", "lost", "--grace-period=1")
		kubectl("a", "delete", "pod", "deleted", "--wait=false")
		kubectl("a", "delete", "pod", "forced", "--force", "--grace-period=0")
		kubectl("a", "wait", "node/"+node, "--for=condition=Ready=Unknown", "--timeout=5m")
		t.Logf("the node was Unknown %v after the separation", time.Since(since).Round(time.Second))
		eventually(t, "the Service has no ready endpoint in a", func() error {
			ready := kubectl("a", "get", "endpointslices", "--selector=kubernetes.io/service-name=front", "--output=jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses}")
			return unless(ready == "", "%s", ready)
		})
		eventually(t, "pods with a toleration of 20 s are evicted", func() error {
			ending := kubectl("a", "get", "pods", "--selector=app in (front, db)", "--output=jsonpath={range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name} {end}")
			return unless(len(strings.Fields(ending)) == 4, "of 3 pods of front and one of db, these end: %s", ending)
		})
		time.Sleep(time.Until(since.Add(separated)))
		for name, uid := range before {
			if is := w.uids(t, "b")[name]; is != uid && name != "killed" && name != "lost" && name != "finishes" {
				t.Errorf("the twin of %s is %q, it was %q: while the clusters are separated, none ends", name, is, uid)
			}
		}
		for _, name := range []string{"deleted", "db-0"} {
			if w.uids(t, "a")[name] != in[name] {
				t.Errorf("pod %s is not the former one in a, although its twin still runs", name)
			}
		}
		if phase := kubectl("b", "get", "pod", "finishes", "--output=jsonpath={.status.phase}"); phase != "Succeeded" {
			t.Errorf("the pod that finishes is %s in b", phase)
		}
	})

	stage(t, "reunited", func(t *testing.T) {
		since := time.Now()
		w.Reunite(t)
		kubectl("a", "wait", "node/"+node, "--for=condition=Ready", "--timeout=5m")
		t.Logf("the node was ready %v after the reunion", time.Since(since).Round(time.Second))
		for _, controller := range []string{"deployment/front", "statefulset/db"} {
			kubectl("a", "rollout", "status", controller, "--timeout=10m")
		}
		eventually(t, "what was deleted is gone, and what was evicted is another pod", func() error {
			a, b := w.uids(t, "a"), w.uids(t, "b")
			for _, gone := range []string{"deleted", "forced"} {
				if a[gone] != "" || b[gone] != "" {
					return fmt.Errorf("%s is %q in a and %q in b", gone, a[gone], b[gone])
				}
			}
			for name := range in {
				if strings.HasPrefix(name, "front-") && (a[name] != "" || b[name] != "") {
					return fmt.Errorf("%s is %q in a and %q in b", name, a[name], b[name])
				}
			}
			return unless(a["db-0"] != in["db-0"] && b["db-0"] != before["db-0"], "db-0 is the former one")
		})
		for name, want := range map[string]string{"finishes": "Succeeded ", "lost": "Failed ", "stays": "Running ", "killed": "Running "} {
			eventually(t, name+" is "+want, func() error {
				is := kubectl("a", "get", "pod", name, "--output=jsonpath={.status.phase} {.status.reason}")
				return unless(strings.HasPrefix(is, want), "%s", is)
			})
			if is := w.uids(t, "a")[name]; is != in[name] {
				t.Errorf("pod %s was replaced", name)
			}
		}
		if w.uids(t, "b")["stays"] != before["stays"] {
			t.Error("the twin of a pod that nothing happened to was replaced")
		}
		if restarts := kubectl("a", "get", "pod", "killed", "--output=jsonpath={.status.containerStatuses[0].restartCount}"); restarts != "1" {
			t.Errorf("the pod whose twin was killed was restarted %s times", restarts)
		}
	})

	stage(t, "random kills", func(t *testing.T) {
		in, before := w.uids(t, "a"), w.uids(t, "b")
		random := rand.New(rand.NewPCG(53, 1))
		force := func(cluster string) {
			kubectl(cluster, "--namespace=strait-offload", "delete", "pods", "--all", "--grace-period=0", "--force")
		}
		killed := map[string]func(){
			"borrower": func() { force("a") }, "lender": func() { force("b") },
			"API server of a": func() { w.a.RestartAPIServer(t, 3*time.Second) }, "API server of b": func() { w.b.RestartAPIServer(t, 3*time.Second) },
		}
		names := []string{"borrower", "lender", "API server of a", "API server of b"}
		for i := range kills {
			name := names[random.IntN(len(names))]
			killed[name]()
			time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
			// Every other time one is deleted meanwhile, and has to be replaced once.
			if i%2 == 0 {
				pods := strings.Fields(kubectl("a", "get", "pods", "--selector=app=front", "--output=jsonpath={.items[*].metadata.name}"))
				kubectl("a", "delete", "pod", pods[random.IntN(len(pods))], "--wait=false")
			}
			kubectl("a", "rollout", "status", "deployment/front", "--timeout=10m")
			eventually(t, fmt.Sprintf("both clusters have the same pods after kill %d, of the %s", i+1, name), func() error {
				return sameOwners(kubectl("a", "get", "pods", "--field-selector=spec.nodeName="+node+",status.phase=Running", "--output=jsonpath={.items[*].metadata.uid}"),
					kubectl("b", "get", "pods", "--field-selector=status.phase=Running", `--output=jsonpath={.items[*].metadata.labels.strait\.dev/origin-uid}`))
			})
		}
		for _, name := range []string{"stays", "killed", "db-0"} {
			if a, b := w.uids(t, "a")[name], w.uids(t, "b")[name]; a != in[name] || b != before[name] {
				t.Errorf("after %d kills, %s is %q in a and %q in b, want %q and %q", kills, name, a, b, in[name], before[name])
			}
		}
	})
	w.takeBack(t, func(cluster string, args ...string) string {
		return w.do(t, "", "kubectl", append([]string{"--context=" + cluster}, args...)...)
	})
}

// uids returns the UIDs of the pods in namespace shop.
func (w *world) uids(t *testing.T, cluster string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for line := range strings.Lines(w.do(t, "", "kubectl", "--context="+cluster, "--namespace=shop", "get", "pods", `--output=jsonpath={range .items[*]}{.metadata.name}{" "}{.metadata.uid}{"\n"}{end}`)) {
		if name, uid, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all[name] = uid
		}
	}
	return all
}

// sameOwners returns an error unless each UID in a has exactly one twin in b, and no other is there.
func sameOwners(a, b string) error {
	want, is := strings.Fields(a), strings.Fields(b)
	slices.Sort(want)
	slices.Sort(is)
	return unless(slices.Equal(want, is), "in a run the pods\n%v\nin b the twins of\n%v", want, is)
}

func unless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
