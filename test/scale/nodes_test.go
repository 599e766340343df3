//go:build nightly

package scale

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/program"
)

// writers is the number of concurrent requests of the test.
const writers = 32

// each calls do for every number below n, concurrently, and fails with the first error.
func each(t *testing.T, n int, do func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	next := make(chan int)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					stop(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	all.Wait()
	must(t, context.Cause(ctx))
}

// Node 0 is the real one.
func nodeName(i int) string { return fmt.Sprintf("node-%04d", i) }

// nodeAddress is the underlay address of a node.
func nodeAddress(i int) netip.Addr {
	if i == 0 {
		return netip.MustParseAddr(helperNode)
	}
	return after(netip.MustParseAddr("198.18.0.0"), i)
}

func nodeRange(i int) netip.Prefix { return netip.PrefixFrom(after(podRange.Addr(), i<<8), 24) }

func (w *world) createNodes(t *testing.T) {
	each(t, w.nodes, func(ctx context.Context, i int) error {
		node, err := w.admin.Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{corev1.LabelHostname: nodeName(i), corev1.LabelOSStable: "linux"}},
			Spec:       corev1.NodeSpec{PodCIDR: nodeRange(i).String(), PodCIDRs: []string{nodeRange(i).String()}},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress(i).String()}, {Type: corev1.NodeHostName, Address: node.Name}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
		_, err = w.admin.Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

func (w *world) startController(t *testing.T) watched {
	_, err := w.admin.ClusterNetworks().Apply(t.Context(), &v1alpha1.ClusterNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName},
		Spec: v1alpha1.ClusterNetworkSpec{
			ClusterID: "near", ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/16"}, RemapPools: []v1alpha1.CIDR{"10.64.0.0/10"},
			PodCIDRs: []v1alpha1.CIDR{v1alpha1.CIDR(podRange.String()), v1alpha1.CIDR(outsideRange.String())},
		},
	}, "admin")
	must(t, err)
	return watched{"controller", "system:serviceaccount:" + systemNamespace + ":strait-controller",
		program.Start(t, "the controller", nil, program.Unprivileged, nil,
			"controller", "--kubeconfig", w.access.controller, "--namespace", systemNamespace, "--identity", "controller-0",
			"--gateway-image", "strait.test/strait:test")}
}

func (w *world) awaitAttachments(t *testing.T) {
	within(t, 10*time.Minute, "all nodes have attachments", func() error {
		some, err := w.admin.NodeAttachments().List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		there := len(some.Items)
		if some.RemainingItemCount != nil {
			there += int(*some.RemainingItemCount)
		}
		if there < w.nodes {
			return fmt.Errorf("%d of %d", there, w.nodes)
		}
		return nil
	})
}

func (w *world) startHelper(t *testing.T) watched {
	return watched{"helper", "system:serviceaccount:" + systemNamespace + ":strait-node",
		program.Start(t, "the helper", w.node, program.OnlyNetAdmin, nil, "node", "--kubeconfig", w.access.node, "--node", nodeName(0))}
}

func (w *world) awaitHelper(t *testing.T) {
	within(t, time.Minute, "the helper's node is ready", func() error {
		a, err := w.admin.NodeAttachments().Get(t.Context(), nodeName(0), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionReady) || len(a.Status.Gateways) == 0 {
			return fmt.Errorf("%+v", a.Status)
		}
		return nil
	})
}
