package offload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/translate"
	"strait.dev/strait/operate/operator"
)

// BorrowOptions are what is borrowed from the cluster of a Peering.
type BorrowOptions struct {
	Peering   string
	NodeName  string              // empty: that of the Peering, or its default
	Resources corev1.ResourceList // limits of what is lent; others stay as they are
	Image     string              // of the borrower
	Wait      time.Duration       // for the borrower to run, at most
}

// Borrowed is what pods of this cluster need to run in the cluster of a Peering.
type Borrowed struct {
	Cluster      string `json:"cluster"` // as in operator.Cluster
	Peering      string `json:"peering"`
	Node         string `json:"node"`
	RuntimeClass string `json:"runtimeClass"`
}

// Borrow makes the borrower, with the identity of its node, and the RuntimeClass of the Peering.
func Borrow(ctx context.Context, c operator.Cluster, o BorrowOptions) (b Borrowed, err error) {
	plan, err := planBorrow(ctx, c, &o)
	if err != nil {
		return b, err
	}
	if err := plan.apply(ctx, c); err != nil {
		return b, err
	}
	fingerprint, err := certificate(ctx, c, borrower.Name(o.Peering), o.Wait)
	if err != nil {
		return b, err
	}
	p, err := peering(ctx, c, o.Peering) // another command may have written it meanwhile
	if err != nil {
		return b, err
	}
	b = Borrowed{Cluster: c.Name, Peering: o.Peering, Node: borrower.NodeName(o.Peering, o.NodeName), RuntimeClass: runtimeClass(o.Peering)}
	borrow := &v1alpha1.PeeringBorrow{NodeName: o.NodeName, Resources: o.Resources, Fingerprint: fingerprint}
	if was := p.Spec.Borrow; was != nil {
		borrow.Resources = with(was.Resources, o.Resources)
	}
	return b, applySpec(ctx, c, p, v1alpha1.PeeringSpec{Lend: p.Spec.Lend, Borrow: borrow})
}

// PlanBorrow returns the objects that Borrow creates before the borrower runs.
func PlanBorrow(ctx context.Context, c operator.Cluster, o BorrowOptions) (Plan, error) {
	return planBorrow(ctx, c, &o)
}

// planBorrow sets the node name of o to that in effect.
func planBorrow(ctx context.Context, c operator.Cluster, o *BorrowOptions) (plan Plan, err error) {
	p, err := peering(ctx, c, o.Peering)
	if err != nil {
		return nil, err
	}
	switch was := p.Spec.Borrow; {
	case was == nil:
		o.NodeName = borrower.NodeName(o.Peering, o.NodeName)
	case o.NodeName == "": // it is immutable, and may be the default
		o.NodeName = was.NodeName
	}
	node := borrower.NodeName(o.Peering, o.NodeName)
	switch is, err := isMachine(ctx, c, node, o.Peering); {
	case err != nil:
		return nil, err
	case is:
		return nil, fmt.Errorf("%s: node %s exists, and is not the virtual node of Peering %s; choose another name: --node-name", c.Name, node, o.Peering)
	}
	v := values{Namespace: Namespace, Agent: borrower.Name(o.Peering), Command: "borrower", Peering: o.Peering, Image: o.Image,
		Node: node, RuntimeClass: runtimeClass(o.Peering)}
	return plan, plan.add(v, "agents.yaml", "runtimeclass.yaml")
}

// isMachine reports whether a node exists that is not the virtual node of a Peering.
func isMachine(ctx context.Context, c operator.Cluster, node, peering string) (bool, error) {
	is, err := c.Client.Nodes().Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, c.Failed("read node "+node, err)
	}
	return is.Labels[translate.PeeringLabel] != peering, nil
}

func runtimeClass(peering string) string { return "strait-" + peering }
