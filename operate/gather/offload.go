package gather

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/translate"
	"strait.dev/strait/operate/offload"
)

// agentNamespace returns the namespace of the agents of offloading, nothing if there is none.
func (s *site) agentNamespace(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	_, err := s.Client.Namespaces().Get(ctx, offload.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		s.recordMissing(offload.Namespace, err)
		return nil
	}
	return []string{offload.Namespace}
}

// carried are the types of objects that a lender makes, except pods. Only their metadata is read:
// their contents belong to users.
var carried = []schema.GroupVersionResource{
	{Version: "v1", Resource: "podtemplates"}, {Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "services"}, {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
}

// offloaded reads the pods that run for another cluster or in it, and what the lender has made
// for them.
func (s *site) offloaded(ctx context.Context, peerings []*v1alpha1.Peering) {
	var lent []string
	for _, p := range peerings {
		if p.Spec.Lend != nil {
			lent = append(lent, p.Spec.Lend.Namespaces...)
		}
		if p.Spec.Borrow != nil {
			node := borrower.NodeName(p.Name, p.Spec.Borrow.NodeName)
			readSelected(ctx, s, "offload/pods-of-"+node+".yaml", s.Client.Pods(""), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node}, allowOffloaded)
		}
	}
	if len(lent) == 0 {
		return
	}
	const mine = translate.PeeringLabel
	readSelected(ctx, s, "offload/twins.yaml", s.Client.Pods(""), metav1.ListOptions{LabelSelector: mine}, func(o *corev1.Pod) any {
		if !slices.Contains(lent, o.Namespace) {
			return nil
		}
		return allowOffloaded(o)
	})
	for _, kind := range carried {
		s.metadata(ctx, "offload/"+kind.Resource+".yaml", kind, mine, lent)
	}
}

// metadata adds the metadata of selected objects in some namespaces as a file.
func (s *site) metadata(ctx context.Context, file string, kind schema.GroupVersionResource, selector string, namespaces []string) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	all, err := s.Client.Metadata(ctx, kind, selector)
	if err != nil {
		s.recordMissing(file, err)
		return
	}
	items := []metav1.ObjectMeta{}
	for _, o := range all {
		if slices.Contains(namespaces, o.Namespace) {
			items = append(items, allowMeta(o))
		}
	}
	s.yaml(file, map[string]any{"items": items})
}

// allowOffloaded keeps of a user's pod what tells where it runs, and why it does not.
func allowOffloaded(o *corev1.Pod) any {
	return corev1.Pod{ObjectMeta: allowMeta(o.ObjectMeta), Spec: corev1.PodSpec{NodeName: o.Spec.NodeName},
		Status: corev1.PodStatus{Phase: o.Status.Phase, Reason: o.Status.Reason, Message: o.Status.Message, Conditions: o.Status.Conditions, StartTime: o.Status.StartTime}}
}
