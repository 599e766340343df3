package controller_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/test/fakekube"
	"strait.dev/strait/test/logbuffer"
	"strait.dev/strait/test/ports"
)

// cluster is an API server, real or in memory.
type cluster interface {
	Admin() *rest.Config
	Kubernetes() kubernetes.Interface
	// Account is the configuration of a service account that may do what rules grant.
	Account(t testing.TB, namespace, name string, rules []byte) *rest.Config
}

// fixture is a cluster with controllers.
type fixture struct {
	*testing.T
	*client.Client
	cluster cluster
	log     *logbuffer.Buffer
	real    bool              // Kubernetes' own controllers run StatefulSets
	served  map[string]string // where controllers serve health and metrics, by identity; nil: nowhere

	wait  func(t testing.TB, what string, check func() string)
	pause func(time.Duration)
}

// memory is an API server in memory.
type memory struct{ *fakekube.Server }

func (m memory) Admin() *rest.Config { return m.Config() }

func (m memory) Account(t testing.TB, namespace, name string, rules []byte) *rest.Config {
	t.Helper()
	return m.ServiceAccount(t, namespace, name, rules)
}

// inMemory runs a test with an API server in memory, in virtual time.
func inMemory(t *testing.T, test func(*testing.T, *fixture)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fakekube.New(
			&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gateways}})
		test(t, &fixture{T: t, Client: s.Client(t), cluster: memory{s}, log: new(logbuffer.Buffer), wait: await, pause: sleep})
	})
}

// await waits until check has nothing to complain of, for more time than a controller
// takes for anything. It looks more and more rarely, after a hundredth of the time that has
// passed: a look takes a millisecond of a processor, and nothing of virtual time.
//
//strait:virtualtime
func await(t testing.TB, what string, check func() string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(max(10*time.Millisecond, time.Since(begun)/100)) {
		complaint := check()
		if complaint == "" {
			return
		}
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("%s: %s", what, complaint)
		}
	}
}

//strait:virtualtime
func sleep(d time.Duration) { time.Sleep(d) }

//strait:virtualtime
func since(begun time.Time) time.Duration { return time.Since(begun) }

// start starts a controller, which leads once no other controller holds the lease of the
// namespace. It ends with the test, or when the result is called.
func (f *fixture) start(config *rest.Config, namespace, identity string, more ...func(*controller.Options)) (stop func()) {
	f.Helper()
	c, err := client.New(config)
	must(f.T, err)
	if f.served != nil {
		f.served[identity] = ports.Address(f.T)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	o := controller.Options{
		Client: c, Namespace: namespace, Identity: identity,
		Gateways: workload.Gateways{Namespace: "strait-gateways", ServiceAccount: "strait-gateway", Image: "registry.example/strait:v1"},
		Listen:   f.served[identity],
		Log:      slog.New(slog.NewTextHandler(io.MultiWriter(f.Output(), f.log), nil)).With("controller", identity),
	}
	for _, change := range more {
		change(&o)
	}
	go func() { done <- controller.Run(ctx, o) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			f.Errorf("controller %s: %v", identity, err)
		}
	}
	f.Cleanup(stop)
	return stop
}

// logged reports whether a controller has logged a text.
func (f *fixture) logged(text string) bool { return strings.Contains(f.log.String(), text) }

// lead starts a controller with all rights.
func (f *fixture) lead() (stop func()) { return f.start(f.cluster.Admin(), "default", "first") }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits until check has nothing to complain of.
func (f *fixture) until(what string, check func() string) {
	f.Helper()
	f.wait(f, what, check)
}

// node creates a node with an address and a range for pods, if that is not "".
func (f *fixture) node(name, address, podCIDR string) {
	f.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if podCIDR != "" {
		node.Spec.PodCIDR, node.Spec.PodCIDRs = podCIDR, []string{podCIDR}
	}
	created, err := f.cluster.Kubernetes().CoreV1().Nodes().Create(f.Context(), node, metav1.CreateOptions{})
	must(f.T, err)
	created.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: name}}
	_, err = f.cluster.Kubernetes().CoreV1().Nodes().UpdateStatus(f.Context(), created, metav1.UpdateOptions{})
	must(f.T, err)
}

func (f *fixture) deleteNode(name string) {
	f.Helper()
	must(f.T, f.cluster.Kubernetes().CoreV1().Nodes().Delete(f.Context(), name, metav1.DeleteOptions{}))
}

// network applies a ClusterNetwork as kubectl and Helm do, who take no field from others.
func (f *fixture) network(spec string) {
	f.Helper()
	body := `{"apiVersion":"strait.dev/v1alpha1","kind":"ClusterNetwork","metadata":{"name":"default"},"spec":` + spec + `}`
	_, err := f.ClusterNetworks().Patch(f.Context(), "default", types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "helm"})
	must(f.T, err)
}

// peer applies a peering with ranges like "10.0.0.0/16" or "10.0.0.0/16=10.71.0.0/16".
func (f *fixture) peer(name string, replicas int32, ranges ...string) {
	f.Helper()
	peering := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.PeeringSpec{ClusterID: v1alpha1.ClusterID(name), Gateway: v1alpha1.GatewaySpec{Replicas: replicas}}}
	for _, text := range ranges {
		cidr, seenAs, _ := strings.Cut(text, "=")
		peering.Spec.Prefixes = append(peering.Spec.Prefixes, v1alpha1.RemotePrefix{CIDR: v1alpha1.CIDR(cidr), SeenAs: v1alpha1.CIDR(seenAs)})
	}
	_, err := f.Peerings().Apply(f.Context(), peering, "admin")
	must(f.T, err)
}

// views is where a peering is seen, like "10.0.0.0/16>10.71.0.0/16", and its condition.
func (f *fixture) views(name string) string {
	peering, err := f.Peerings().Get(f.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	var views []string
	for _, p := range peering.Status.Prefixes {
		views = append(views, fmt.Sprintf("%s>%s", p.CIDR, p.SeenAs))
	}
	conflict := meta.FindStatusCondition(peering.Status.Conditions, v1alpha1.ConditionCIDRConflict)
	if conflict == nil || conflict.ObservedGeneration != peering.Generation {
		return "not checked yet"
	}
	return strings.Join(append(views, conflict.Reason), " ")
}

func (f *fixture) untilSeen(name, want string) {
	f.Helper()
	f.until("Peering "+name, func() string {
		if got := f.views(name); got != want {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	})
}

// conflict is the condition of a peering, once it is looked at.
func (f *fixture) conflict(name string) *metav1.Condition {
	peering, err := f.Peerings().Get(f.Context(), name, metav1.GetOptions{})
	must(f.T, err)
	return meta.FindStatusCondition(peering.Status.Conditions, v1alpha1.ConditionCIDRConflict)
}

// attached is every attachment, like "node-1 1 10.80.0.1 10.70.0.1".
func (f *fixture) attached() (all []string) {
	list, err := f.NodeAttachments().List(f.Context(), metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}
	}
	for _, a := range list.Items {
		all = append(all, fmt.Sprintf("%s %d %s %s", a.Name, a.Spec.Index, a.Spec.InternalAddresses, a.Spec.ExternalAddresses))
	}
	return all
}

func (f *fixture) untilAttached(want ...string) {
	f.Helper()
	f.until("NodeAttachments", func() string {
		if got := f.attached(); !slices.Equal(got, want) {
			return fmt.Sprintf("%q, want %q", got, want)
		}
		return ""
	})
}

// untilClaims waits until these are the names of all claims, and all are bound.
func (f *fixture) untilClaims(want ...string) {
	f.Helper()
	f.until("AddressClaims", func() string {
		list, err := f.AddressClaims().List(f.Context(), metav1.ListOptions{})
		must(f.T, err)
		var got []string
		for _, claim := range list.Items {
			if !claim.Status.Bound {
				return claim.Name + " is not bound"
			}
			got = append(got, claim.Name)
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			return fmt.Sprintf("%q, want %q", got, want)
		}
		return ""
	})
}
