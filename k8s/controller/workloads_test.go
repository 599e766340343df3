//go:build apiserver

package controller_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/kube"
)

const gateways = "strait-gateways"

// asks lets an admin change the gateways of a peering.
func (f *fixture) asks(name string, gateway v1alpha1.GatewaySpec) {
	f.Helper()
	_, err := f.Peerings().Apply(f.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PeeringSpec{
		ClusterID: v1alpha1.ClusterID(name), Gateway: gateway,
	}}, "admin")
	must(f.T, err)
}

// workloads are the names of all that gateways run in.
func (f *fixture) workloads() string {
	ctx, all := f.Context(), metav1.ListOptions{}
	var names []string
	note := func(kind string, object metav1.Object) { names = append(names, kind+"/"+object.GetName()) }
	sets, err := f.StatefulSets(gateways).List(ctx, all)
	must(f.T, err)
	for i := range sets.Items {
		note("set", &sets.Items[i])
		names = append(names, fmt.Sprintf("x%d", *sets.Items[i].Spec.Replicas))
	}
	services, err := f.Services(gateways).List(ctx, all)
	must(f.T, err)
	for i := range services.Items {
		note("service", &services.Items[i])
	}
	policies, err := f.NetworkPolicies(gateways).List(ctx, all)
	must(f.T, err)
	for i := range policies.Items {
		note("policy", &policies.Items[i])
	}
	budgets, err := f.PodDisruptionBudgets(gateways).List(ctx, all)
	must(f.T, err)
	for i := range budgets.Items {
		note("budget", &budgets.Items[i])
	}
	secrets, err := f.Secrets(gateways).List(ctx, all)
	must(f.T, err)
	for i := range secrets.Items {
		note("secret", &secrets.Items[i])
		names = append(names, slices.Sorted(maps.Keys(secrets.Items[i].Data))...)
	}
	return strings.Join(names, " ")
}

func (f *fixture) untilWorkloads(want string) {
	f.Helper()
	f.until("what gateways run in", func() string {
		if got := f.workloads(); got != want {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	})
}

// privateKey is a gateway's of a generation.
func (f *fixture) privateKey(gateway string, generation int) []byte {
	f.Helper()
	secret, err := f.Secrets(gateways).Get(f.Context(), fmt.Sprintf("%s-key-%d", gateway, generation), metav1.GetOptions{})
	must(f.T, err)
	return secret.Data[fmt.Sprintf("%d.key", generation)]
}

// says lets a gateway say which keys it has.
func (f *fixture) says(peering string, gateway v1alpha1.GatewayStatus) {
	f.Helper()
	_, err := f.Peerings().ApplyStatus(f.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: peering},
		Status: v1alpha1.PeeringStatus{Gateways: []v1alpha1.GatewayStatus{gateway}}}, gateway.Name)
	must(f.T, err)
}

const (
	publicKey  = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="
	publicKey2 = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
)

// requests are those of one controller.
type requests struct {
	mu   sync.Mutex
	seen []string // like "PATCH /api/v1/namespaces/strait-gateways/secrets/b-0-key 409"
}

func (r *requests) count(parts ...string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.seen {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(one, part) }) {
			n++
		}
	}
	return n
}

// writes are the requests about what gateways run in.
func (r *requests) writes() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.seen {
		if !strings.HasPrefix(one, "GET ") && strings.Contains(one, "/namespaces/"+gateways+"/") {
			all = append(all, one)
		}
	}
	return all
}

// recorded is the configuration of a client whose requests are seen.
func recorded(config *rest.Config) (*rest.Config, *requests) {
	seen := &requests{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return client.RoundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			seen.mu.Lock()
			defer seen.mu.Unlock()
			status := 0
			if err == nil {
				status = answer.StatusCode
			}
			seen.seen = append(seen.seen, fmt.Sprintf("%s %s %d", r.Method, r.URL.Path, status))
			return answer, err
		})
	})
	return config, seen
}

func TestAPeeringHasWhatItsGatewaysRunIn(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	f.lead()
	f.asks("b", v1alpha1.GatewaySpec{})
	const one = "set/b x1 service/b-0 policy/b secret/b-0-key-1 1.key"
	f.untilWorkloads(one)

	f.asks("b", v1alpha1.GatewaySpec{Replicas: 3})
	f.untilWorkloads("set/b x3 service/b-0 service/b-1 service/b-2 policy/b budget/b secret/b-0-key-1 1.key secret/b-1-key-1 1.key secret/b-2-key-1 1.key")
	first := f.privateKey("b-0", 1)
	if bytes.Equal(first, f.privateKey("b-1", 1)) {
		t.Error("two gateways have one key")
	}

	// Keys stay: a gateway that comes back is the one that the other cluster knows.
	f.asks("b", v1alpha1.GatewaySpec{Replicas: 1})
	f.untilWorkloads(one + " secret/b-1-key-1 1.key secret/b-2-key-1 1.key")
	if !bytes.Equal(f.privateKey("b-0", 1), first) {
		t.Error("the key has changed")
	}

	peering, err := f.Peerings().Get(t.Context(), "b", metav1.GetOptions{})
	must(t, err)
	for _, owned := range f.owned() {
		owners := owned.GetOwnerReferences()
		if len(owners) != 1 || owners[0].UID != peering.UID || owners[0].Kind != "Peering" || !*owners[0].Controller || *owners[0].BlockOwnerDeletion {
			t.Errorf("the owners of %s are %v", owned.GetName(), owners)
		}
		if owned.GetLabels()["strait.dev/peering"] != "b" || owned.GetLabels()["app.kubernetes.io/part-of"] != "strait" {
			t.Errorf("the labels of %s are %v", owned.GetName(), owned.GetLabels())
		}
	}
	policy, err := f.NetworkPolicies(gateways).Get(t.Context(), "b", metav1.GetOptions{})
	must(t, err)
	if got := policy.Spec.Ingress[2].From; len(got) != 1 || got[0].IPBlock.CIDR != "192.0.2.21/32" {
		t.Errorf("frames may come from %v", got)
	}
	f.node("node-2", "192.0.2.22", "10.0.1.0/24")
	f.until("the policy", func() string {
		policy, err := f.NetworkPolicies(gateways).Get(t.Context(), "b", metav1.GetOptions{})
		must(t, err)
		if len(policy.Spec.Ingress[2].From) != 2 {
			return "the new node may not send frames"
		}
		return ""
	})

	// One with the same name is another peering, and takes over what is there.
	must(t, f.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{}))
	f.asks("b", v1alpha1.GatewaySpec{})
	f.until("another owner", func() string {
		now, err := f.Peerings().Get(t.Context(), "b", metav1.GetOptions{})
		must(t, err)
		set, err := f.StatefulSets(gateways).Get(t.Context(), "b", metav1.GetOptions{})
		must(t, err)
		if now.UID == peering.UID || len(set.OwnerReferences) != 1 || set.OwnerReferences[0].UID != now.UID {
			return fmt.Sprint(set.OwnerReferences)
		}
		return ""
	})
}

// owned is everything in the namespace of the gateways.
func (f *fixture) owned() (all []metav1.Object) {
	f.Helper()
	ctx, every := f.Context(), metav1.ListOptions{}
	sets, err := f.StatefulSets(gateways).List(ctx, every)
	must(f.T, err)
	for i := range sets.Items {
		all = append(all, &sets.Items[i])
	}
	services, err := f.Services(gateways).List(ctx, every)
	must(f.T, err)
	for i := range services.Items {
		all = append(all, &services.Items[i])
	}
	policies, err := f.NetworkPolicies(gateways).List(ctx, every)
	must(f.T, err)
	for i := range policies.Items {
		all = append(all, &policies.Items[i])
	}
	secrets, err := f.Secrets(gateways).List(ctx, every)
	must(f.T, err)
	for i := range secrets.Items {
		all = append(all, &secrets.Items[i])
	}
	return all
}

func TestTheServiceOfAGatewayChangesItsType(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.lead()
	last := ""
	for _, c := range []struct {
		service v1alpha1.GatewayService
		want    string
	}{
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeClusterIP}, "ClusterIP 51840"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort}, "NodePort 51840 any"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort, NodePort: new(int32(30100))}, "NodePort 51840 30100"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort, NodePort: new(int32(30110)), Port: 51841}, "NodePort 51841 30110"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeLoadBalancer, Annotations: map[string]string{"example.com/pool": "edge"}}, "LoadBalancer 51840 any edge"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeClusterIP}, "ClusterIP 51840"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("example.com/lb")}, "LoadBalancer 51840 any example.com/lb"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort}, "NodePort 51840 any"},
		{v1alpha1.GatewayService{Type: corev1.ServiceTypeClusterIP, Port: 9}, "ClusterIP 9"},
	} {
		f.asks("b", v1alpha1.GatewaySpec{Replicas: 2, Service: c.service})
		for ordinal := range 2 {
			f.until(fmt.Sprintf("gateway %d, %s after %s", ordinal, c.want, last), func() string {
				service, err := f.Services(gateways).Get(t.Context(), fmt.Sprintf("b-%d", ordinal), metav1.GetOptions{})
				if err != nil {
					return err.Error()
				}
				port := service.Spec.Ports[0]
				got := fmt.Sprintf("%s %d", service.Spec.Type, port.Port)
				switch {
				case port.NodePort >= 30100 && port.NodePort < 30120 && c.service.NodePort != nil:
					got += fmt.Sprintf(" %d", port.NodePort-int32(ordinal))
				case port.NodePort != 0:
					got += " any"
				}
				if pool := service.Annotations["example.com/pool"]; pool != "" {
					got += " " + pool
				}
				if service.Spec.LoadBalancerClass != nil {
					got += " " + *service.Spec.LoadBalancerClass
				}
				if got != c.want || len(service.Spec.Ports) != 1 {
					return got
				}
				return ""
			})
		}
		last = c.want
	}
}

func TestT4_AKeyIsNeverWrittenOver(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	stop := f.lead()
	f.asks("b", v1alpha1.GatewaySpec{})
	f.untilWorkloads("set/b x1 service/b-0 policy/b secret/b-0-key-1 1.key")
	key := f.privateKey("b-0", 1)
	if len(key) != 45 || key[44] != '\n' {
		t.Error("the key does not have the form of wg genkey")
	}
	stop()
	again := func(what string) {
		t.Helper()
		config, seen := recorded(f.cluster.Admin())
		stop := f.start(config, "default", what)
		f.until(what, func() string {
			if seen.count("POST", "/secrets 409") == 0 {
				return "no key was refused"
			}
			return ""
		})
		stop()
		if !bytes.Equal(f.privateKey("b-0", 1), key) {
			t.Errorf("%s: the key has changed", what)
		}
	}
	again("another controller")

	// A key that an admin brought counts as well.
	must(t, f.Secrets(gateways).Delete(t.Context(), "b-0-key-1", metav1.DeleteOptions{}))
	_, err := f.Secrets(gateways).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "b-0-key-1", Namespace: gateways},
		Data: map[string][]byte{"1.key": key}}, metav1.CreateOptions{})
	must(t, err)
	again("a key of an admin")
	if f.log.contain(strings.TrimSpace(string(key))) {
		t.Error("the key is in the log")
	}
}

func TestKeysRotate(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	config, seen := recorded(f.cluster.Admin())
	f.start(config, "default", "first")
	f.asks("b", v1alpha1.GatewaySpec{})
	const before = "set/b x1 service/b-0 policy/b "
	f.untilWorkloads(before + "secret/b-0-key-1 1.key")
	first := f.privateKey("b-0", 1)
	f.says("b", v1alpha1.GatewayStatus{Name: "b-0", PublicKey: publicKey, KeyGeneration: 1})

	f.asks("b", v1alpha1.GatewaySpec{KeyGeneration: 3}) // generations may be left out
	f.untilWorkloads(before + "secret/b-0-key-1 1.key secret/b-0-key-3 3.key")
	next := f.privateKey("b-0", 3)
	if !bytes.Equal(f.privateKey("b-0", 1), first) || bytes.Equal(next, first) {
		t.Error("the old key is not what it was, or the new one is the old one")
	}
	f.says("b", v1alpha1.GatewayStatus{Name: "b-0", PublicKey: publicKey, KeyGeneration: 1, NextPublicKey: publicKey2})
	f.asks("b", v1alpha1.GatewaySpec{KeyGeneration: 3, Replicas: 2}) // so that a pass is seen to be over
	f.untilWorkloads("set/b x2 service/b-0 service/b-1 policy/b budget/b secret/b-0-key-1 1.key secret/b-0-key-3 3.key secret/b-1-key-3 3.key")
	if !bytes.Equal(f.privateKey("b-0", 3), next) {
		t.Error("the new key has changed")
	}
	if n := seen.count("GET", "/secrets"); n > 0 {
		t.Errorf("Secrets were read %d times", n)
	}
}

func TestNothingIsWrittenWhileNothingChanges(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	config, seen := recorded(f.cluster.Admin())
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	f.start(config, "default", "first")
	f.asks("b", v1alpha1.GatewaySpec{Replicas: 2})
	f.untilWorkloads("set/b x2 service/b-0 service/b-1 policy/b budget/b secret/b-0-key-1 1.key secret/b-1-key-1 1.key")
	passes := 0
	pass := func() { // a pass that somebody else's write causes
		t.Helper()
		passes++
		before := seen.count("GET", "/configmaps/kubeadm-config")
		kube.EditStatus(t, f.Services(gateways), "b-0", func(service *corev1.Service) {
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: fmt.Sprintf("lb-%d.example", passes)}}
		})
		f.until("a pass", func() string {
			if seen.count("GET", "/configmaps/kubeadm-config") == before {
				return "none"
			}
			return ""
		})
	}
	f.asks("b", v1alpha1.GatewaySpec{Replicas: 2, Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeLoadBalancer}})
	f.until("load balancers", func() string {
		service, err := f.Services(gateways).Get(t.Context(), "b-1", metav1.GetOptions{})
		must(t, err)
		return strings.TrimPrefix(string(service.Spec.Type), "LoadBalancer")
	})
	pass()
	pass()
	before := seen.writes()
	for range 3 {
		pass()
	}
	if after := seen.writes(); len(after) != len(before) {
		t.Errorf("it wrote %q", after[len(before):])
	}
}

func TestWhatIsEditedByHandIsPutRight(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	f.lead()
	f.asks("b", v1alpha1.GatewaySpec{Replicas: 2})
	const whole = "set/b x2 service/b-0 service/b-1 policy/b budget/b secret/b-0-key-1 1.key secret/b-1-key-1 1.key"
	f.untilWorkloads(whole)
	ctx, edit := t.Context(), metav1.PatchOptions{FieldManager: "kubectl-edit"}
	for range 2 { // also the second time
		_, err := f.StatefulSets(gateways).Patch(ctx, "b", types.MergePatchType, []byte(`{"spec":{"replicas":0,"template":{"spec":{"hostNetwork":false,"terminationGracePeriodSeconds":99}}}}`), edit)
		must(t, err)
		f.until("the StatefulSet", func() string {
			set, err := f.StatefulSets(gateways).Get(ctx, "b", metav1.GetOptions{})
			must(t, err)
			if *set.Spec.Replicas != 2 || *set.Spec.Template.Spec.TerminationGracePeriodSeconds != 10 {
				return fmt.Sprint(*set.Spec.Replicas, *set.Spec.Template.Spec.TerminationGracePeriodSeconds)
			}
			return ""
		})
	}
	must(t, f.StatefulSets(gateways).Delete(ctx, "b", metav1.DeleteOptions{}))
	must(t, f.Services(gateways).Delete(ctx, "b-1", metav1.DeleteOptions{}))
	must(t, f.NetworkPolicies(gateways).Delete(ctx, "b", metav1.DeleteOptions{}))
	must(t, f.PodDisruptionBudgets(gateways).Delete(ctx, "b", metav1.DeleteOptions{}))
	f.untilWorkloads(whole)
}

func TestOnePeeringsTroubleIsNotAnothers(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.lead()
	nodePort := func(port int32) v1alpha1.GatewaySpec {
		return v1alpha1.GatewaySpec{Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort, NodePort: &port}}
	}
	f.asks("b", nodePort(30150))
	f.untilWorkloads("set/b x1 service/b-0 policy/b secret/b-0-key-1 1.key")
	f.asks("c", nodePort(30150))
	f.asks("d", nodePort(30151))
	f.untilWorkloads("set/b x1 set/c x1 set/d x1 service/b-0 service/d-0 policy/b policy/c policy/d secret/b-0-key-1 1.key secret/c-0-key-1 1.key secret/d-0-key-1 1.key")
	f.until("a remedy", func() string {
		if !f.log.contain("Service strait-gateways/c-0") || !f.log.contain("choose another spec.gateway.service.nodePort, or leave it out") {
			return "none is logged"
		}
		return ""
	})
	f.asks("c", nodePort(30152))
	f.until("the Service of c", func() string {
		_, err := f.Services(gateways).Get(t.Context(), "c-0", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return err.Error()
		}
		must(t, err)
		return ""
	})
}

func TestGatewaysWaitForTheirNamespace(t *testing.T) {
	cluster := kube.Start(t)
	f := newFixture(t, cluster)
	ctx := t.Context()
	must(t, cluster.Kubernetes().CoreV1().Namespaces().Delete(ctx, gateways, metav1.DeleteOptions{})) // and nobody finishes that here
	f.asks("b", v1alpha1.GatewaySpec{})
	f.lead()
	f.until("a remedy", func() string {
		if !f.log.contain("create namespace strait-gateways") {
			return "none is logged"
		}
		return ""
	})
}
