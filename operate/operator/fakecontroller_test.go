package operator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// runFakes makes turns until the test ends.
//
//strait:virtualtime
func runFakes(t *testing.T, sites ...*site) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var last atomic.Value // error of the last turn
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for i, s := range sites {
				if err := s.step(ctx, sites[1-i]); err != nil && ctx.Err() == nil {
					last.Store(err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(30 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := last.Load(); t.Failed() && err != nil {
			t.Logf("last error of the fakes: %v", err)
		}
	})
}

// step does once what goes on in a cluster that is joined to another, or to be.
func (s *site) step(ctx context.Context, other *site) error {
	peerings, err := s.admin.Peerings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := s.collect(ctx, peerings.Items); err != nil {
		return err
	}
	node := v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	for i := range peerings.Items {
		p := &peerings.Items[i]
		for _, g := range p.Status.Gateways {
			if g.Number == 0 {
				continue
			}
			if err := s.pod(ctx, p, g.Name); err != nil {
				return err
			}
			if err := s.gateway(ctx, other, p, g); err != nil {
				return err
			}
			node.Status.Gateways = append(node.Status.Gateways, v1alpha1.NodeGateway{Name: g.Name, VNI: int32(v1alpha1.VNI(1, g.Number)), Ready: true})
		}
	}
	is, err := s.admin.NodeAttachments().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil || reflect.DeepEqual(is.Status.Gateways, node.Status.Gateways) {
		return err
	}
	_, err = s.admin.NodeAttachments().ApplyStatus(ctx, &node, "strait-node")
	return err
}

// pod plays the StatefulSet's controller and the kubelet.
func (s *site) pod(ctx context.Context, p *v1alpha1.Peering, name string) error {
	pods := s.admin.Pods(gatewayNamespace)
	is, err := pods.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		set, failed := s.admin.StatefulSets(gatewayNamespace).Get(ctx, p.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(failed) || failed == nil && !metav1.IsControlledBy(set, p) {
			return nil // not made yet
		}
		if failed != nil {
			return failed
		}
		no := false
		is, err = pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"strait.dev/peering": p.Name}, OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
				{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Peering", Name: p.Name, UID: p.UID}, // for collect
			}},
			Spec: corev1.PodSpec{NodeName: "node-1", AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "gateway", Image: "i"}}},
		}, metav1.CreateOptions{})
	}
	if err != nil || len(is.Status.Conditions) > 0 {
		return err
	}
	is.Status.PodIPs = []corev1.PodIP{{IP: "10.0.1.77"}}
	is.Status.Phase, is.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_, err = pods.UpdateStatus(ctx, is, metav1.UpdateOptions{})
	return err
}

// collect plays the garbage collector.
func (s *site) collect(ctx context.Context, peerings []v1alpha1.Peering) error {
	orphan := func(o metav1.Object) bool {
		owners := o.GetOwnerReferences()
		return len(owners) > 0 && !slices.ContainsFunc(peerings, func(p v1alpha1.Peering) bool {
			return slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return r.UID == p.UID })
		})
	}
	now := int64(0)
	pods, err := s.admin.Pods(gatewayNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if orphan(&pods.Items[i]) {
			_ = s.admin.Pods(gatewayNamespace).Delete(ctx, pods.Items[i].Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		}
	}
	sets, err := s.admin.StatefulSets(gatewayNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range sets.Items {
		if orphan(&sets.Items[i]) {
			_ = s.admin.StatefulSets(gatewayNamespace).Delete(ctx, sets.Items[i].Name, metav1.DeleteOptions{})
		}
	}
	reports, err := s.admin.GatewayReports(gatewayNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range reports.Items {
		owner := reports.Items[i].OwnerReferences[0].UID
		if !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return pod.UID == owner }) {
			_ = s.admin.GatewayReports(gatewayNamespace).Delete(ctx, reports.Items[i].Name, metav1.DeleteOptions{})
		}
	}
	secrets, err := s.admin.Secrets(gatewayNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range secrets.Items {
		if orphan(&secrets.Items[i]) {
			_ = s.admin.Secrets(gatewayNamespace).Delete(ctx, secrets.Items[i].Name, metav1.DeleteOptions{})
		}
	}
	services, err := s.admin.Services(gatewayNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range services.Items {
		if orphan(&services.Items[i]) {
			_ = s.admin.Services(gatewayNamespace).Delete(ctx, services.Items[i].Name, metav1.DeleteOptions{})
		}
	}
	return nil
}

// gateway plays a gateway, which reports its key and, as soon as both sides trust each
// other and one can call the other, the link and what the other side announces.
func (s *site) gateway(ctx context.Context, other *site, p *v1alpha1.Peering, g v1alpha1.GatewayStatus) error {
	pod, err := s.admin.Pods(gatewayNamespace).Get(ctx, g.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	want := v1alpha1.GatewayReportStatus{Peering: p.Name, PublicKey: s.key(p, g.Name), KeyGeneration: max(p.Spec.Gateway.KeyGeneration, 1), MTU: 1370}
	theirs, err := other.admin.Peerings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	network, err := other.admin.ClusterNetworks().Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, q := range theirs.Items {
		for _, h := range q.Status.Gateways {
			here, there := s.trusts(ctx, p, other, &q, h.Name), other.trusts(ctx, &q, s, p, g.Name)
			if h.Number == 0 || here == none || there == none {
				continue
			}
			name := h.Name
			if here == invited || there == invited {
				name += ".2" // as it has other keys than the gateways' own
			}
			want.Links = append(want.Links, v1alpha1.LinkStatus{Remote: name, Up: true, PathMTU: 1370})
			heard := peering.Announce(&q, network)
			heard.Superseded = peering.Superseded(p, &heard)
			if peering.Refusal(p, peering.Holders{}, &heard) == nil && want.Announcement == nil {
				want.Announcement = &heard
			}
		}
	}
	now := metav1.NowMicro()
	last, err := s.admin.GatewayReports(gatewayNamespace).Get(ctx, g.Name, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case want.Announcement != nil:
		if was := last.Status.Announcement; err == nil && was != nil {
			want.Announcement.HeardAt, want.Announcement.Revision = was.HeardAt, was.Revision
		}
		if err != nil || !reflect.DeepEqual(last.Status.Announcement, want.Announcement) {
			want.Announcement.HeardAt, want.Announcement.Revision = &now, now.UnixMicro()
		}
	case err == nil && last.OwnerReferences[0].UID == pod.UID:
		want.Announcement = last.Status.Announcement // what was received is kept
	}
	_, err = s.admin.GatewayReports(gatewayNamespace).Apply(ctx, &v1alpha1.GatewayReport{
		ObjectMeta: metav1.ObjectMeta{Name: g.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: g.Name, UID: pod.UID}}},
		Status:     want,
	}, "strait-gateway")
	return err
}

// key is the public key of a gateway, another one for each Peering that there ever was.
func (s *site) key(p *v1alpha1.Peering, gateway string) v1alpha1.PublicKey {
	seed := sha256.Sum256([]byte(s.id + string(p.UID) + gateway))
	private, err := NewPrivateKey(bytes.NewReader(seed[:]))
	if err != nil {
		panic(err)
	}
	public, err := private.Public()
	if err != nil {
		panic(err)
	}
	return public
}

// trust is how a gateway is let in.
type trust int

const (
	none    trust = iota
	invited       // by the key of an invite
	known         // by its own key
)

// trusts is how the gateways of a Peering would let a gateway of the other one in, where
// one of the two can call.
func (s *site) trusts(ctx context.Context, p *v1alpha1.Peering, other *site, q *v1alpha1.Peering, gateway string) trust {
	best, own := none, other.key(q, gateway)
	keys := []v1alpha1.PublicKey{own}
	if q.Spec.InviteUntil != nil {
		secret, err := other.admin.Secrets(gatewayNamespace).Get(ctx, q.Name+"-invite", metav1.GetOptions{})
		if err == nil {
			public, err := PrivateKey(bytes.TrimSpace(secret.Data["invite.key"])).Public()
			if err == nil {
				keys = append(keys, public)
			}
		}
	}
	for _, g := range peering.RemoteOf(p, time.Now()).Gateways {
		reachableServiceType := len(g.Endpoints) > 0 || slices.ContainsFunc(p.Status.Gateways, func(g v1alpha1.GatewayStatus) bool { return len(g.Endpoints) > 0 })
		switch {
		case reachableServiceType && slices.Contains(g.PublicKeys, own):
			return known
		case reachableServiceType && slices.ContainsFunc(g.PublicKeys, func(k v1alpha1.PublicKey) bool { return slices.Contains(keys, k) }):
			best = invited
		}
	}
	return best
}
