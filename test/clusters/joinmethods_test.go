//go:build apiserver || nightly

package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/kube"
)

func TestClustersAreJoinedWithTwoKubeconfigs(t *testing.T) {
	p := newPair(t)
	p.a.network(t)
	p.b.network(t)
	joined := p.joinByPeer(t)
	old := p.a.runGateway(t, "b-0", 0, "9")
	p.b.runGateway(t, "a-0", 0, "9").serveNodePort(t) // the other side connects to this one
	p.joined(t, <-joined)
	t.Logf("strait status prints\n%s", operator(t, 0, "status", "--kubeconfig", p.a.access.admin))

	t.Run("again after one side was deleted and created", func(t *testing.T) {
		key := p.a.peering(t, "b").Status.Gateways[0].PublicKey
		must(t, p.a.admin.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{}))
		old.remove(t)
		p.a.collect(t)
		joined := p.joinByPeer(t)
		p.a.runGateway(t, "b-0", 0, "11")
		if out := <-joined; !strings.HasPrefix(out, "1 ") {
			t.Errorf("without --yes, strait peer adds keys to those that a Peering trusts: %s", out)
		}
		p.joined(t, <-p.joinByPeer(t, "--yes"))
		if p.a.peering(t, "b").Status.Gateways[0].PublicKey == key {
			t.Error("the gateway has its old key")
		}
	})
}

// joinByPeer joins both clusters with strait peer, which waits for gateways that have not
// started yet.
func (p *pair) joinByPeer(t *testing.T, arguments ...string) <-chan string {
	joined := make(chan string, 1)
	go func() {
		out, status := operate(t, append([]string{"peer", "--kubeconfig", p.a.access.admin, "--remote-kubeconfig", p.b.access.admin, "--service-type", "NodePort", "--replicas", "1", "--wait", joinWait}, arguments...)...)
		joined <- fmt.Sprintf("%d %s", status, out)
	}()
	return joined
}

// joined checks the result of strait peer, and that pods reach each other.
func (p *pair) joined(t *testing.T, out string) {
	t.Helper()
	if !strings.HasPrefix(out, "0 ") {
		t.Fatalf("strait peer ended with %s", out)
	}
	pingAll(t, p.a, p.b, p.a.ready(t, "b"))
	pingAll(t, p.b, p.a, p.b.ready(t, "a"))
}

// collect does the garbage collector's work until the test ends, and once before it returns. The controller
// may create objects of a Peering that was deleted until it sees the deletion.
func (c *cluster) collect(t *testing.T) {
	t.Helper()
	must(t, c.collectOnce(t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = c.collectOnce(ctx) // tried again
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

// collectOnce deletes the objects of gateways whose Peerings do not exist.
func (c *cluster) collectOnce(ctx context.Context) error {
	type object struct {
		metav1.Object
		remove func(ctx context.Context, name string, o metav1.DeleteOptions) error
	}
	var objects []object
	sets, err := c.admin.StatefulSets(gatewayNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range sets.Items {
		objects = append(objects, object{&sets.Items[i], c.admin.StatefulSets(gatewayNamespace).Delete})
	}
	secrets, err := c.admin.Secrets(gatewayNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range secrets.Items {
		objects = append(objects, object{&secrets.Items[i], c.admin.Secrets(gatewayNamespace).Delete})
	}
	policies, err := c.admin.NetworkPolicies(gatewayNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range policies.Items {
		objects = append(objects, object{&policies.Items[i], c.admin.NetworkPolicies(gatewayNamespace).Delete})
	}
	services, err := c.admin.Services(gatewayNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range services.Items {
		objects = append(objects, object{&services.Items[i], c.admin.Services(gatewayNamespace).Delete})
	}
	peerings, err := c.admin.Peerings().List(ctx, metav1.ListOptions{}) // last, so that it has the owners of all objects
	if err != nil {
		return err
	}
	for _, o := range objects {
		if len(o.GetOwnerReferences()) == 0 || slices.ContainsFunc(peerings.Items, func(p v1alpha1.Peering) bool { return ownedBy(o, p.UID) }) {
			continue
		}
		uid := o.GetUID()
		err := o.remove(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// The two clusters never reach each other's API servers: they are joined by a token.
func TestClustersAreJoinedWithAnInvite(t *testing.T) {
	p := newPair(t)
	p.a.network(t)
	p.b.network(t)
	invited := make(chan string, 1)
	go func() {
		out, status := operate(t, "invite", "b", "--kubeconfig", p.a.access.admin, "--service-type", "NodePort", "--replicas", "1")
		invited <- fmt.Sprintf("%d %s", status, out)
	}()
	p.a.runGateway(t, "b-0", 0, "9").serveNodePort(t)
	token, ok := strings.CutPrefix(<-invited, "0 ")
	if !ok {
		t.Fatalf("strait invite ended with %s", token)
	}
	accepted := make(chan string, 1)
	go func() {
		out, status := operate(t, "accept", strings.TrimSpace(token), "--kubeconfig", p.b.access.admin, "--replicas", "1")
		accepted <- fmt.Sprintf("%d %s", status, out)
	}()
	p.b.runGateway(t, "a-0", 0, "9")
	if out := <-accepted; !strings.HasPrefix(out, "0 ") {
		t.Fatalf("strait accept ended with %s", out)
	}
	b, a := p.a.ready(t, "b"), p.b.ready(t, "a")
	pingAll(t, p.a, p.b, b)
	pingAll(t, p.b, p.a, a)

	within(t, 20*time.Second, "the key of the invite is no longer trusted", func() error {
		links := p.a.report(t, "b-0").Links
		if len(links) != 1 || links[0].Remote != "a-0" {
			return fmt.Errorf("%+v", links)
		}
		return nil
	})
	p.b.secretIsGone(t, "a-invite")
	if out, status := operate(t, "accept", strings.TrimSpace(token), "--name", "again", "--wait", "5s", "--kubeconfig", p.b.access.admin); status == 0 {
		t.Errorf("the invite works twice:\n%s", out)
	}
}

// secretIsGone checks that a Secret was deleted.
func (c *cluster) secretIsGone(t *testing.T, name string) {
	t.Helper()
	within(t, 20*time.Second, "Secret "+name+" is deleted", func() error {
		if _, err := c.admin.Secrets(gatewayNamespace).Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			return errors.New("it exists")
		}
		return nil
	})
}

// Changes in one cluster propagate to the other without an operation there.
func TestChangesAreAnnouncedThroughTheTunnel(t *testing.T) {
	p := newPair(t)
	b, _ := p.join(t)

	t.Run("a CIDR outside the grant is refused, and nothing else changes", func(t *testing.T) {
		before := p.a.peering(t, "b").Status.Prefixes
		p.b.podCIDRs(t, "10.0.0.0/16", "fd00:10::/48", "100.99.0.0/16")
		within(t, 30*time.Second, "both sides report the refusal", func() error {
			a, b := p.b.report(t, "a-0"), p.a.report(t, "b-0")
			if !strings.Contains(b.Refused, "100.99.0.0/16") {
				return fmt.Errorf("in the refusing cluster: %+v", b)
			}
			if !strings.Contains(a.Refusal, "100.99.0.0/16") {
				return fmt.Errorf("in the announcing cluster: %+v", a)
			}
			return nil
		})
		body, _, err := p.a.gateways["b-0"].get("/metrics")
		if err != nil || !strings.Contains(body, `strait_announcements_total{gateway="b-0",peering="b",result="refused"}`) || strings.Contains(body, `strait_announcements_total{gateway="b-0",peering="b",result="refused"} 0`) {
			t.Errorf("the metrics do not count it (%v)", err)
		}
		if after := p.a.peering(t, "b").Status.Prefixes; fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("CIDRs were %v and are %v", before, after)
		}
		pingAll(t, p.a, p.b, b)
	})
	t.Run("an added pod CIDR is announced", func(t *testing.T) {
		p.b.podCIDRs(t, "10.0.0.0/16", "fd00:10::/48", "172.20.0.0/16")
		within(t, 30*time.Second, "cluster a has the new CIDR", func() error {
			for _, prefix := range p.a.peering(t, "b").Status.Prefixes {
				if prefix.CIDR == "172.20.0.0/16" {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.a.peering(t, "b").Status)
		})
		pingAll(t, p.a, p.b, p.a.ready(t, "b"))
	})
	t.Run("keys are replaced without losing a packet", func(t *testing.T) { p.rotates(t) })
}

// podCIDRs changes the cluster's pod CIDRs.
func (c *cluster) podCIDRs(t *testing.T, ranges ...v1alpha1.CIDR) {
	t.Helper()
	kube.Edit(t, c.admin.ClusterNetworks(), v1alpha1.ClusterNetworkName, func(n *v1alpha1.ClusterNetwork) { n.Spec.PodCIDRs = ranges })
}

// rotates replaces the key of cluster b's gateway while pods communicate.
func (p *pair) rotates(t *testing.T) {
	traffic := ping(t, p.a.pods[1], seen(t, p.a.peering(t, "b"), podAddresses[1]))
	old, begun := p.b.peering(t, "a").Status.Gateways[0].PublicKey, time.Now()
	out := operator(t, 0, "rotate-keys", "a", "--kubeconfig", p.b.access.admin, "--wait", "60s")
	if !strings.HasSuffix(out, ": the gateways of Peering a use keys of generation 2.\n") {
		t.Errorf("strait rotate-keys prints\n%s", out)
	}
	within(t, time.Minute, "both clusters use the new key", func() error {
		g := p.b.peering(t, "a").Status.Gateways[0]
		if g.PublicKey == old || g.KeyGeneration != 2 || g.NextPublicKey != "" {
			return fmt.Errorf("the gateway reports %+v", g)
		}
		for _, their := range p.a.peering(t, "b").Status.Announcement.Gateways {
			if len(their.PublicKeys) != 1 || their.PublicKeys[0] != g.PublicKey {
				return fmt.Errorf("cluster a has %v", their.PublicKeys)
			}
		}
		return nil
	})
	within(t, 30*time.Second, "the old key is unused", func() error {
		if links := p.a.report(t, "b-0").Links; len(links) != 1 || !links[0].Up {
			return fmt.Errorf("cluster a has links %+v", links)
		}
		return nil
	})
	longest, lost := traffic.outage(t)
	if lost > 0 {
		t.Errorf("%d packets were lost, without replies for %v", lost, longest)
		p.tellLosses(t)
	}
	t.Logf("the key was replaced in %v", time.Since(begun).Round(100*time.Millisecond))
}

// A LoadBalancer gets its address late, and may have a host name.
func TestF10_EndpointsFollowTheService(t *testing.T) {
	p := newPair(t)
	p.a.network(t)
	p.a.peer(t, &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{
		Gateway: v1alpha1.GatewaySpec{Replicas: 1, Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeLoadBalancer, Port: 51999}},
	}})
	p.a.runGateway(t, "b-0", 0, "9")
	within(t, 20*time.Second, "the Service exists", func() error {
		_, err := p.a.admin.Services(gatewayNamespace).Get(t.Context(), "b-0", metav1.GetOptions{})
		return err
	})
	for _, one := range []struct {
		ingress corev1.LoadBalancerIngress
		want    v1alpha1.Endpoint
	}{
		{corev1.LoadBalancerIngress{IP: "203.0.113.7"}, "203.0.113.7:51999"},
		{corev1.LoadBalancerIngress{Hostname: "gw.a.example"}, "gw.a.example:51999"},
		{corev1.LoadBalancerIngress{IP: "2001:db8::7"}, "[2001:db8::7]:51999"},
	} {
		kube.EditStatus(t, p.a.admin.Services(gatewayNamespace), "b-0", func(service *corev1.Service) {
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{one.ingress}
		})
		within(t, 20*time.Second, "the Peering names "+string(one.want), func() error {
			for _, g := range p.a.peering(t, "b").Status.Gateways {
				if len(g.Endpoints) == 1 && g.Endpoints[0] == one.want {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.a.peering(t, "b").Status.Gateways)
		})
	}
}
