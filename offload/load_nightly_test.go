//go:build nightly

package offload_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/lender"
	"strait.dev/strait/operate/offload"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/program"
)

// What offloading may cost, as docs/how-to/offload.md states.
const (
	manyPods      = 1000
	podsPerSecond = 20 // that are bound: what a scheduler does on a large cluster for minutes
	startsLater   = 2 * time.Second
	borrowerBound = 64 << 20
	lenderBound   = 96 << 20
	restRequests  = 1.0 // per second and side
	restFor       = time.Minute
)

// A thousand pods of one cluster run in the other, on two real API servers, with both agents as
// programs. What is not there are schedulers and kubelets, and the tunnel: a stand-in reports each
// pod of the provider as running at once, so that only what the agents add is measured.
func TestAThousandPodsMeasured(t *testing.T) {
	p := newPairOf(t, kube.StartAuditedWithNodes, kube.StartAudited)
	agents, _ := p.programs(t)
	for _, c := range []*client.Client{p.a, p.b} {
		must(t, c.ApplyYAML(t.Context(), "/api/v1/namespaces/shop/serviceaccounts/default", []byte("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: shop}}"), "test"))
	}
	p.kubelet(t)

	home := measure(t, p.b, "home", "")
	far := measure(t, p.a, "far", "strait-b")
	report := func(what string, of []time.Duration) time.Duration {
		p99 := of[len(of)*99/100]
		t.Logf("%s: from bound to running %v (p50), %v (p99), %v (longest)", what, of[len(of)/2].Round(time.Millisecond), p99.Round(time.Millisecond), of[len(of)-1].Round(time.Millisecond))
		return p99
	}
	if later := report("offloaded", far) - report("in the provider itself", home); later > startsLater {
		t.Errorf("offloaded pods start %v later (p99), want at most %v", later, startsLater)
	}

	time.Sleep(10 * time.Second) // the last writes
	var before [2]int
	for i, c := range p.of {
		before[i] = requests(t, c)
	}
	time.Sleep(restFor)
	for i, c := range p.of {
		rate := float64(requests(t, c)-before[i]) / restFor.Seconds()
		t.Logf("at rest, the %s makes %.2f requests per second", agents[i].name, rate)
		if rate >= restRequests {
			t.Errorf("at rest, the %s makes %.2f requests per second, want less than %v", agents[i].name, rate, restRequests)
		}
	}

	begun := time.Now()
	for i := range manyPods {
		must(t, p.a.Pods("shop").Delete(t.Context(), "far-"+strconv.Itoa(i), metav1.DeleteOptions{}))
	}
	kube.Until(t, "all pods are gone", func() string {
		for _, c := range []*client.Client{p.a, p.b} {
			all, err := c.Pods("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "app=far"})
			if err != nil || len(all.Items) > 0 {
				return fmt.Sprint(len(all.Items), " pods, ", err)
			}
		}
		return ""
	})
	t.Logf("%d pods were deleted in %v", manyPods, time.Since(begun).Round(time.Second))
	for _, of := range agents {
		peak := of.PeakMemory(t)
		t.Logf("the %s used %.1f MiB at its peak", of.name, float64(peak)/(1<<20))
		if peak > of.bound {
			t.Errorf("the %s used %d MiB, want at most %d", of.name, peak>>20, of.bound>>20)
		}
	}
}

type agent struct {
	*program.Program
	name  string
	bound int64 // of its memory
}

// programs starts both agents in one network namespace, which has all addresses of the tunnel, and
// joins them as the commands do.
func (p *pair) programs(t *testing.T) (agents [2]agent, host *netns.Namespace) {
	t.Helper()
	host = netns.New(t)
	host.IP(t, "link set lo up\naddress add 10.72.0.0/16 dev lo\n")
	for _, c := range p.of {
		program.Relay(t, host, c.Admin())
	}
	dir, err := os.MkdirTemp("", "strait-offload-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	start := func(c *kube.Cluster, name, peering string, more ...string) *program.Program {
		account := c.ServiceAccount(t, offload.Namespace, "strait-"+name+"-"+peering)
		access := program.Kubeconfig(t, dir, name, account)
		return program.Start(t, "the "+name, host, program.Unprivileged, nil, append([]string{name, "--peering", peering, "--namespace", offload.Namespace, "--kubeconfig", access}, more...)...)
	}
	agents = [2]agent{
		{start(p.of[0], "borrower", "b", "--pod-ips", "10.0.1.9"), borrower.Name("b"), borrowerBound},
		{start(p.of[1], "lender", "a", "--listen", ":6097"), lender.Name("a"), lenderBound},
	}
	plenty := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2000"), corev1.ResourceMemory: resource.MustParse("4Ti"), corev1.ResourcePods: resource.MustParse("3000")}
	a, b := operator.Cluster{Name: "a", Client: p.a}, operator.Cluster{Name: "b", Client: p.b}
	_, err = offload.Lend(t.Context(), b, offload.LendOptions{Peering: "a", Namespaces: []string{"shop"}, Level: "restricted", Image: "strait:test", Wait: time.Minute, Resources: plenty})
	must(t, err)
	p.counts(t)
	_, err = offload.Borrow(t.Context(), a, offload.BorrowOptions{Peering: "b", Image: "strait:test", Wait: time.Minute, Resources: plenty})
	must(t, err)
	_, err = offload.Offload(t.Context(), a, "b", []string{"shop"})
	must(t, err)
	p.announce(t)
	await(t, "the node is there", func(ctx context.Context) string {
		if _, err := p.a.Nodes().Get(ctx, "strait-b", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return agents, host
}

// kubelet reports each pod of the provider as running as soon as it exists, and removes each that
// is deleted.
func (p *pair) kubelet(t *testing.T) {
	t.Helper()
	pods := p.b.Pods("shop")
	seen, err := pods.Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	t.Cleanup(seen.Stop)
	changed := make(chan *corev1.Pod, 8*manyPods)
	go func() {
		defer close(changed)
		for e := range seen.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Deleted {
				changed <- pod
			}
		}
	}()
	var number sync.Mutex
	last := netip.MustParseAddr("10.0.2.0")
	for range 8 {
		go func() {
			for pod := range changed {
				switch {
				case pod.DeletionTimestamp != nil:
					now := int64(0)
					_ = pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
				case pod.Status.Phase == corev1.PodPending:
					number.Lock()
					last = last.Next()
					address := last.String()
					number.Unlock()
					pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
						Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}}
					_, _ = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}) // another version comes, or the test ends
				}
			}
		}()
	}
}

// measure creates pods at podsPerSecond, and returns the sorted times from the answer of the API
// server until a watch shows each as running.
func measure(t *testing.T, c *client.Client, app, node string) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	seen, err := c.Pods("shop").Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	must(t, err)
	defer seen.Stop()
	var mu sync.Mutex
	created := make(map[string]time.Time)
	go func() {
		ticks := time.NewTicker(time.Second / podsPerSecond)
		defer ticks.Stop()
		for i := range manyPods {
			<-ticks.C
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app + "-" + strconv.Itoa(i), Labels: map[string]string{"app": app}},
				Spec: corev1.PodSpec{
					NodeName: node, ServiceAccountName: "default",
					SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
					Containers: []corev1.Container{{Name: "web", Image: "web:1", SecurityContext: &corev1.SecurityContext{
						AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
				},
			}
			begun := time.Now()
			mu.Lock()
			created[pod.Name] = begun
			mu.Unlock()
			if _, err := c.Pods("shop").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				t.Errorf("create %s: %v", pod.Name, err)
				cancel()
				return
			}
		}
	}()
	var all []time.Duration
	runs := make(map[string]bool)
	for e := range seen.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || runs[pod.Name] || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		runs[pod.Name] = true
		mu.Lock()
		all = append(all, time.Since(created[pod.Name]))
		mu.Unlock()
		if len(all) == manyPods {
			slices.Sort(all)
			return all
		}
	}
	t.Fatalf("%d pods of %d run", len(all), manyPods)
	return nil
}

// requests returns how many requests the agents of a cluster have made.
func requests(t *testing.T, c *kube.Cluster) (n int) {
	t.Helper()
	for r, count := range c.Requests(t) {
		if r.User == "system:serviceaccount:"+offload.Namespace+":"+borrower.Name("b") || r.User == "system:serviceaccount:"+offload.Namespace+":"+lender.Name("a") {
			n += count
		}
	}
	return n
}
