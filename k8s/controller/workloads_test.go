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
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

const gateways = "strait-gateways"

// asks lets an admin change the gateways of a peering: one, unless it says how many.
func (f *fixture) asks(name string, gateway v1alpha1.GatewaySpec) {
	f.Helper()
	gateway.Replicas = max(gateway.Replicas, 1)
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
	inMemory(t, func(t *testing.T, f *fixture) {
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

func TestT4_AKeyIsNeverWrittenOver(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
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
		if f.logged(strings.TrimSpace(string(key))) {
			t.Error("the key is in the log")
		}
	})
}

func TestKeysRotate(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		config, seen := recorded(f.cluster.Admin())
		f.start(config, "default", "first")
		f.asks("b", v1alpha1.GatewaySpec{})
		const before = "set/b x1 service/b-0 policy/b "
		f.untilWorkloads(before + "secret/b-0-key-1 1.key")
		first := f.privateKey("b-0", 1)
		f.say("b-0", v1alpha1.GatewayReportStatus{PublicKey: publicKey, KeyGeneration: 1})

		f.asks("b", v1alpha1.GatewaySpec{KeyGeneration: 3}) // generations may be left out
		f.untilWorkloads(before + "secret/b-0-key-1 1.key secret/b-0-key-3 3.key")
		next := f.privateKey("b-0", 3)
		if !bytes.Equal(f.privateKey("b-0", 1), first) || bytes.Equal(next, first) {
			t.Error("the old key is not what it was, or the new one is the old one")
		}
		f.say("b-0", v1alpha1.GatewayReportStatus{PublicKey: publicKey, KeyGeneration: 1, NextPublicKey: publicKey2})
		f.asks("b", v1alpha1.GatewaySpec{KeyGeneration: 3, Replicas: 2}) // so that a pass is seen to be over
		f.untilWorkloads("set/b x2 service/b-0 service/b-1 policy/b budget/b secret/b-0-key-1 1.key secret/b-0-key-3 3.key secret/b-1-key-3 3.key")
		if !bytes.Equal(f.privateKey("b-0", 3), next) {
			t.Error("the new key has changed")
		}
		if n := seen.count("GET", "/secrets"); n > 0 {
			t.Errorf("Secrets were read %d times", n)
		}
	})
}

// A running gateway keeps its key in memory. When it starts again, it has none, and the status still has the public key.
func TestF15_ALostKeyIsReplacedWhenItsGatewayHasNoneAnyMore(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.asks("b", v1alpha1.GatewaySpec{})
		const without = "set/b x1 service/b-0 policy/b"
		f.untilWorkloads(without + " secret/b-0-key-1 1.key")
		lost := f.privateKey("b-0", 1)
		says := func(key v1alpha1.PublicKey, generation int32) {
			t.Helper()
			f.say("b-0", v1alpha1.GatewayReportStatus{PublicKey: key, KeyGeneration: generation})
			f.until("status.gateways", func() string {
				if g := f.peering("b").Status.Gateways; len(g) != 1 || key != "" && g[0].PublicKey != key {
					return fmt.Sprint(g)
				}
				return ""
			})
		}
		says(publicKey, 1)
		must(t, f.Secrets(gateways).Delete(t.Context(), "b-0-key-1", metav1.DeleteOptions{}))
		f.pause(5 * time.Minute)
		f.untilWorkloads(without) // another key in the Secret would end the link
		says("", 0)
		f.untilWorkloads(without + " secret/b-0-key-1 1.key")
		if bytes.Equal(f.privateKey("b-0", 1), lost) {
			t.Error("it is the lost key")
		}
		says(publicKey2, 1)
	})
}

func TestWhatIsEditedByHandIsPutRight(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
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
				if *set.Spec.Replicas != 2 || *set.Spec.Template.Spec.TerminationGracePeriodSeconds != 30 {
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
	})
}
