//go:build apiserver

package rbac_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/kube"
)

const (
	gatewayNamespace = "strait-gateways"
	nodeNamespace    = "strait-nodes"
	remoteKey        = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="
)

// attacked is a cluster as the chart installs it, with the objects that are attacked.
type attacked struct {
	*kube.Cluster
	admin *client.Client
}

func newAttacked(t *testing.T) *attacked {
	t.Helper()
	c := &attacked{Cluster: kube.Start(t)}
	c.InstallCRDs(t, crds.Files)
	c.InstallPolicies(t, rbac.Admission)
	var err error
	c.admin, err = client.New(c.Admin())
	must(t, err)
	for i := range 2 {
		name := fmt.Sprintf("node-%d", i+1)
		_, err := c.admin.NodeAttachments().Create(t.Context(), &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeAttachmentSpec{
			Index: int32(i + 1), UnderlayAddresses: []v1alpha1.IP{v1alpha1.IP(fmt.Sprintf("192.0.2.2%d", i+1))}, InternalAddresses: []v1alpha1.IP{v1alpha1.IP(fmt.Sprintf("10.80.0.%d", i+1))},
		}}, metav1.CreateOptions{})
		must(t, err)
	}
	for _, name := range []string{"b", "c"} {
		_, err := c.admin.Peerings().Create(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PeeringSpec{LocalPods: true}}, metav1.CreateOptions{})
		must(t, err)
	}
	return c
}

// bound is a client with a token that is bound to a pod.
func (c *attacked) bound(t *testing.T, namespace, account, pod, node string) (*client.Client, types.UID) {
	t.Helper()
	config, uid := c.BoundAccount(t, namespace, account, pod, node)
	return clientOf(t, config), uid
}

func clientOf(t *testing.T, config *rest.Config) *client.Client {
	t.Helper()
	c, err := client.New(config)
	must(t, err)
	return c
}

// enforced waits until the API server refuses what a policy forbids: it reads policies some
// time after they are written.
func enforced(t *testing.T, write func() error) {
	t.Helper()
	kube.Until(t, "the policy is enforced", func() string {
		if err := write(); !denied(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			return fmt.Sprintf("a write that it forbids ends with %v", err)
		}
		return ""
	})
}

// denied reports whether RBAC, a policy or the schema refused a write.
func denied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }

// attack is a write that must be refused for a reason.
type attack struct {
	name  string
	write func(context.Context) error
	says  string
}

func refuse(t *testing.T, attacks []attack) {
	t.Helper()
	for _, a := range attacks {
		if err := a.write(t.Context()); !denied(err) || !strings.Contains(err.Error(), a.says) {
			t.Errorf("%s: %v, want a refusal: %s", a.name, err, a.says)
		}
	}
}

func status(name string, s v1alpha1.NodeAttachmentStatus) *v1alpha1.NodeAttachment {
	return &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: s}
}

func TestT6_ANodeHelperWritesOnlyTheStatusOfItsOwnNode(t *testing.T) {
	c := newAttacked(t)
	helper, _ := c.bound(t, nodeNamespace, "strait-node", "strait-node-x", "node-1")
	c.Grant(t, rbac.Node, nodeNamespace, "strait-node")
	other, _ := c.bound(t, nodeNamespace, "strait-node", "strait-node-y", "node-2")
	attachments := helper.NodeAttachments()
	apply := func(by *client.Client, name string, s v1alpha1.NodeAttachmentStatus) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := by.NodeAttachments().ApplyStatus(ctx, status(name, s), "strait-node")
			return err
		}
	}
	gateway := func(vni int32) v1alpha1.NodeAttachmentStatus {
		return v1alpha1.NodeAttachmentStatus{Gateways: []v1alpha1.NodeGateway{{Name: "b-0", VNI: vni, Ready: true, Source: "10.0.1.1"}}}
	}
	condition := func(kind string) v1alpha1.NodeAttachmentStatus {
		return v1alpha1.NodeAttachmentStatus{Conditions: []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now()}}}
	}
	enforced(t, func() error { return apply(helper, "node-2", gateway(2<<8|1))(t.Context()) })

	own := condition(v1alpha1.ConditionReady)
	own.Gateways, own.ObservedGeneration, own.Encapsulations = gateway(1<<8|1).Gateways, 1, []v1alpha1.Encapsulation{v1alpha1.Geneve}
	own.RouteConflicts = []v1alpha1.RouteConflict{{CIDR: "10.71.0.0/16", Destination: "route to 10.71.2.0/24 dev eth1", Refused: true}}
	must(t, apply(helper, "node-1", own)(t.Context()))
	must(t, apply(helper, "node-1", condition(v1alpha1.ConditionReleased))(t.Context()))
	must(t, apply(other, "node-2", gateway(2<<8|255))(t.Context()))
	before, err := c.admin.NodeAttachments().Get(t.Context(), "node-2", metav1.GetOptions{})
	must(t, err)

	unbound := clientOf(t, c.ServiceAccount(t, nodeNamespace, "strait-node"))
	const another, notOwn = "a node helper may write only the NodeAttachment of its own node", "a VNI must be one of this node"
	merge := func(name, body string, subresource ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := attachments.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresource...)
			return err
		}
	}
	refuse(t, []attack{
		{"another node's status, applied", apply(helper, "node-2", gateway(2<<8|1)), another},
		{"another node's status, emptied", apply(helper, "node-2", v1alpha1.NodeAttachmentStatus{}), another},
		{"another node's status, patched", merge("node-2", `{"status": {"gateways": null}}`, "status"), another},
		{"another node's status, replaced", func(ctx context.Context) error {
			_, err := attachments.UpdateStatus(ctx, before, metav1.UpdateOptions{})
			return err
		}, "cannot update resource"},
		{"another node's conflicts of routes", apply(helper, "node-2", v1alpha1.NodeAttachmentStatus{RouteConflicts: own.RouteConflicts}), another},
		{"another node is released", apply(helper, "node-2", condition(v1alpha1.ConditionReleased)), another},
		{"its status, with a token that is not bound", apply(unbound, "node-1", gateway(1<<8|1)), another},
		{"another node's VNI", apply(helper, "node-1", gateway(2<<8|1)), notOwn},
		{"a VNI of no node", apply(helper, "node-1", gateway(1)), notOwn},
		{"a condition of the controller", apply(helper, "node-1", condition("Detected")), "only the conditions Ready and Released"},
		{"a generation of the future", apply(helper, "node-1", v1alpha1.NodeAttachmentStatus{ObservedGeneration: 99}), "the observed generation does not exist yet"},
		{"a source that is no ordinary address", apply(helper, "node-1", v1alpha1.NodeAttachmentStatus{
			Gateways: []v1alpha1.NodeGateway{{Name: "b-0", VNI: 1<<8 | 1, Source: "169.254.169.254"}}}), "choose an ordinary unicast address"},
		{"its own spec", merge("node-1", `{"spec": {"index": 2}}`), "cannot patch resource"},
		{"addresses of pods", merge("node-1", `{"spec": {"podAddresses": ["10.9.0.1/32"]}}`), "cannot patch resource"},
		{"its own labels", merge("node-1", `{"metadata": {"labels": {"a": "b"}}}`), "cannot patch resource"},
		{"a finalizer", merge("node-1", `{"metadata": {"finalizers": ["strait.dev/never"]}}`), "cannot patch resource"},
		{"a node of its own", func(ctx context.Context) error {
			_, err := attachments.Create(ctx, status("node-3", v1alpha1.NodeAttachmentStatus{}), metav1.CreateOptions{})
			return err
		}, "cannot create resource"},
		{"another node is detached", func(ctx context.Context) error { return attachments.Delete(ctx, "node-2", metav1.DeleteOptions{}) }, "cannot delete resource"},
		{"a Peering's status", func(ctx context.Context) error {
			_, err := helper.Peerings().ApplyStatus(ctx, &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, "strait-controller")
			return err
		}, "cannot patch resource"},
		{"the ClusterNetwork", func(ctx context.Context) error {
			_, err := helper.ClusterNetworks().Apply(ctx, &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}}, "a")
			return err
		}, "cannot patch resource"},
		{"a gateway's report", func(ctx context.Context) error {
			_, err := helper.GatewayReports(gatewayNamespace).Apply(ctx, &v1alpha1.GatewayReport{ObjectMeta: metav1.ObjectMeta{Name: "b-0"}}, "a")
			return err
		}, "cannot patch resource"},
	})
	after, err := c.admin.NodeAttachments().Get(t.Context(), "node-2", metav1.GetOptions{})
	must(t, err)
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("node-2 became %+v", after)
	}
	// A patch of the status cannot carry other fields with it.
	if err := merge("node-1", `{"metadata": {"finalizers": ["strait.dev/never"], "labels": {"a": "b"}}, "spec": {"podCIDRs": ["10.0.0.0/8"], "podAddresses": ["10.9.0.1/32"]}, "status": {"encapsulations": ["vxlan"]}}`, "status")(t.Context()); err != nil {
		t.Error(err)
	}
	if is, err := c.admin.NodeAttachments().Get(t.Context(), "node-1", metav1.GetOptions{}); err != nil || len(is.Finalizers)+len(is.Labels)+len(is.Spec.PodCIDRs)+len(is.Spec.PodAddresses) > 0 {
		t.Errorf("a patch of the status changed %+v, %v", is, err)
	}
}

// report is the report of a gateway's pod.
func report(name string, uid types.UID) *v1alpha1.GatewayReport {
	return &v1alpha1.GatewayReport{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: uid}}},
		Status:     v1alpha1.GatewayReportStatus{Peering: name[:strings.LastIndex(name, "-")], PublicKey: remoteKey, KeyGeneration: 1, MTU: 1400},
	}
}

func TestT6_AGatewayWritesOnlyItsOwnReport(t *testing.T) {
	c := newAttacked(t)
	gateway, uid := c.bound(t, gatewayNamespace, "strait-gateway", "b-0", "node-1")
	c.Grant(t, rbac.Gateway, gatewayNamespace, "strait-gateway")
	other, otherUID := c.bound(t, gatewayNamespace, "strait-gateway", "c-0", "node-1")
	sibling, siblingUID := c.bound(t, gatewayNamespace, "strait-gateway", "b-1", "node-2")
	must(t, c.Namespace(t.Context(), "elsewhere"))
	apply := func(by *client.Client, r *v1alpha1.GatewayReport) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := by.GatewayReports(gatewayNamespace).Apply(ctx, r, "strait-gateway")
			return err
		}
	}
	enforced(t, func() error { return apply(gateway, report("c-0", uid))(t.Context()) })

	must(t, apply(gateway, report("b-0", uid))(t.Context()))
	must(t, apply(gateway, report("b-0", uid))(t.Context()))
	must(t, apply(sibling, report("b-1", siblingUID))(t.Context()))
	must(t, apply(other, report("c-0", otherUID))(t.Context()))
	before, err := c.admin.GatewayReports(gatewayNamespace).Get(t.Context(), "c-0", metav1.GetOptions{})
	must(t, err)

	changed := func(edit func(*v1alpha1.GatewayReport)) func(context.Context) error {
		r := report("b-0", uid)
		edit(r)
		return apply(gateway, r)
	}
	unbound := clientOf(t, c.ServiceAccount(t, gatewayNamespace, "strait-gateway"))
	const another, owned = "a gateway may write only the GatewayReport of its own pod", "must be owned by the gateway's pod"
	refuse(t, []attack{
		{"another Peering's report", apply(gateway, report("c-0", uid)), another},
		{"another Peering's report, with its owner", apply(gateway, report("c-0", otherUID)), another},
		{"a report of the same Peering", apply(gateway, report("b-1", siblingUID)), another},
		{"a report of no pod", apply(gateway, report("d-0", uid)), another},
		{"another Peering's report, patched", func(ctx context.Context) error {
			_, err := gateway.GatewayReports(gatewayNamespace).Patch(ctx, "c-0", types.MergePatchType, []byte(`{"status": {"links": []}}`), metav1.PatchOptions{})
			return err
		}, another},
		{"another Peering's report, created", func(ctx context.Context) error {
			_, err := gateway.GatewayReports(gatewayNamespace).Create(ctx, report("c-1", uid), metav1.CreateOptions{})
			return err
		}, another},
		{"its report, with a token that is not bound", apply(unbound, report("b-0", uid)), another},
		{"a report without an owner", changed(func(r *v1alpha1.GatewayReport) { r.OwnerReferences = nil }), owned},
		{"the owner is another pod", changed(func(r *v1alpha1.GatewayReport) { r.OwnerReferences[0].Name, r.OwnerReferences[0].UID = "c-0", otherUID }), owned},
		{"the owner is a pod that never was", changed(func(r *v1alpha1.GatewayReport) { r.OwnerReferences[0].UID = "u" }), owned},
		{"a second owner", changed(func(r *v1alpha1.GatewayReport) {
			r.OwnerReferences = append(r.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "c-0", UID: otherUID})
		}), owned},
		{"a finalizer", changed(func(r *v1alpha1.GatewayReport) { r.Finalizers = []string{"strait.dev/never"} }), "has no finalizers"},
		{"another Peering in its own report", changed(func(r *v1alpha1.GatewayReport) { r.Status.Peering = "c" }), "is not the Peering of this gateway"},
		{"a key that is none", changed(func(r *v1alpha1.GatewayReport) { r.Status.PublicKey = "x" }), "is not 32 bytes in base64"},
		{"more links than there can be", changed(func(r *v1alpha1.GatewayReport) {
			for i := range 257 {
				r.Status.Links = append(r.Status.Links, v1alpha1.LinkStatus{Remote: fmt.Sprint("a-", i)})
			}
		}), "must have at most 256 items"},
		{"a report elsewhere", func(ctx context.Context) error {
			_, err := gateway.GatewayReports("elsewhere").Apply(ctx, report("b-0", uid), "strait-gateway")
			return err
		}, "cannot patch resource"},
		{"another Peering's report is deleted", func(ctx context.Context) error {
			return gateway.GatewayReports(gatewayNamespace).Delete(ctx, "c-0", metav1.DeleteOptions{})
		}, "cannot delete resource"},
		{"its Peering's status", func(ctx context.Context) error {
			_, err := gateway.Peerings().ApplyStatus(ctx, &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, "strait-controller")
			return err
		}, "cannot patch resource"},
		{"its Peering's spec", func(ctx context.Context) error {
			_, err := gateway.Peerings().Apply(ctx, &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{LocalPods: true}}, "admin")
			return err
		}, "cannot patch resource"},
		{"a node's status", func(ctx context.Context) error {
			_, err := gateway.NodeAttachments().ApplyStatus(ctx, status("node-1", v1alpha1.NodeAttachmentStatus{}), "strait-node")
			return err
		}, "cannot patch resource"},
		{"a key", func(ctx context.Context) error {
			_, err := gateway.Secrets(gatewayNamespace).Get(ctx, "c-0-key-1", metav1.GetOptions{})
			return err
		}, "cannot get resource"},
		{"a pod", func(ctx context.Context) error {
			_, err := gateway.Pods(gatewayNamespace).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "c-1"}}, metav1.CreateOptions{})
			return err
		}, "cannot create resource"},
	})
	after, err := c.admin.GatewayReports(gatewayNamespace).Get(t.Context(), "c-0", metav1.GetOptions{})
	must(t, err)
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the report of c-0 became %+v", after)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
