package operator

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/test/fakekube"
)

const gatewayNamespace = "strait-gateways"

// site is a cluster with an API server in memory and a real controller. The rest of a
// cluster is played by turn: kubelets, the garbage collector, gateways and the helper of
// the one node.
type site struct {
	id     string
	kube   *fakekube.Server
	admin  *client.Client // of the players
	user   Cluster        // what commands use
	writes atomic.Int32   // of commands
}

func newSite(t *testing.T, cluster *fakekube.Server, id, podCIDR, node string) *site {
	t.Helper()
	cluster.InstallCRDs()
	s := &site{id: id, kube: cluster, admin: cluster.Client(t)}
	counted := cluster.Config()
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper { return writes{next, &s.writes} })
	user, err := client.New(counted)
	must(t, err)
	s.user = Cluster{Name: "context " + id, Client: user}
	cluster.ServiceAccount(t, gatewayNamespace, "strait-gateway")
	cluster.ServiceAccount(t, gatewayNamespace, "default")
	_, err = s.admin.ClusterNetworks().Patch(t.Context(), "default", types.ApplyPatchType,
		[]byte(`{"apiVersion":"strait.dev/v1alpha1","kind":"ClusterNetwork","metadata":{"name":"default"},"spec":{"clusterID":"`+id+`"}}`), metav1.PatchOptions{FieldManager: "helm"})
	must(t, err)
	cluster.Add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{PodCIDR: podCIDR, PodCIDRs: []string{podCIDR}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: node}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}})
	return s
}

// control runs the controller until the test ends.
func (s *site) control(t *testing.T) {
	t.Helper()
	c := s.kube.Client(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- controller.Run(ctx, controller.Options{
			Client: c, Namespace: "default", Identity: "first", Log: slog.New(slog.DiscardHandler),
			Gateways: workload.Gateways{Namespace: gatewayNamespace, ServiceAccount: "strait-gateway", Image: "registry.example/strait:v1"},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the controller of %s: %v", s.id, err)
		}
	})
}

// writes counts requests that change something.
type writes struct {
	next  http.RoundTripper
	count *atomic.Int32
}

func (w writes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		w.count.Add(1)
	}
	return w.next.RoundTrip(r)
}

// holdsNot checks that no object that a command or a gateway writes holds a secret.
func (s *site) holdsNot(t *testing.T, secret string) {
	t.Helper()
	peerings, err := s.admin.Peerings().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	secrets, err := s.admin.Secrets(gatewayNamespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	text, err := json.Marshal([]any{peerings, secrets}) // the data of Secrets is in base64
	must(t, err)
	if bytes.Contains(text, []byte(secret)) || bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte(secret))[:40])) {
		t.Errorf("cluster %s holds the private key of the invite", s.id)
	}
}

// get is a Peering.
func (s *site) get(t *testing.T, name string) *v1alpha1.Peering {
	t.Helper()
	p, err := s.admin.Peerings().Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return p
}

// lends makes the cluster lend over a Peering; nil: nothing.
func (s *site) lends(t *testing.T, name string, what *v1alpha1.PeeringLend) {
	t.Helper()
	p := s.get(t, name)
	p.Spec.Lend = what
	_, err := s.admin.Peerings().Update(t.Context(), p, metav1.UpdateOptions{})
	must(t, err)
}

// clear removes all Peerings, and waits until what belonged to their gateways is gone.
func (s *site) clear(t *testing.T) {
	t.Helper()
	must(t, s.admin.Peerings().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	eventually(t, "the gateways are gone", func() bool {
		pods, err := s.admin.Pods(gatewayNamespace).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		return len(pods.Items) == 0
	})
	// A Service that is left would lend its endpoint to the next Peering of that name.
	eventually(t, "the Services are gone", func() bool {
		services, err := s.admin.Services(gatewayNamespace).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		return len(services.Items) == 0
	})
	eventually(t, "the ranges are free", func() bool {
		claims, err := s.admin.AddressClaims().List(t.Context(), metav1.ListOptions{})
		must(t, err)
		return !slices.ContainsFunc(claims.Items, func(c v1alpha1.AddressClaim) bool { return c.Spec.Owner.Kind == "Peering" })
	})
}

// eventually waits for a condition in virtual time.
//
//strait:virtualtime
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after a minute: %s", what)
		}
	}
}

// soon is how tests wait.
func soon() Waiting { return Waiting{For: time.Minute, Every: 100 * time.Millisecond} }
