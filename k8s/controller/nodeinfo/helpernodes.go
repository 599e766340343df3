// Package nodeinfo tells what the controller needs to know about a Node: whether a node helper
// runs on it, its addresses, and whether it is a machine at all.
package nodeinfo

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/klog/v2"

	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/peering"
)

// Helpers decides on which nodes node helpers run, as Kubernetes does for their DaemonSet:
// by the node selector, the required node affinity and the tolerations of its pods. Other
// nodes, such as those of virtual kubelets, have no NodeAttachment. A nil *Helpers selects
// all nodes. It is immutable.
type Helpers struct {
	selector    apilabels.Selector
	terms       []nodeTerm // of which a node must match one
	affinity    bool       // there are terms, maybe none that matches a node
	tolerations []corev1.Toleration
	keys        map[string]bool // of the labels that are read
}

// nodeTerm is a term of a node affinity: requirements for the labels of a node, and for its
// name, the only field that Kubernetes supports.
type nodeTerm struct {
	labels apilabels.Selector
	name   []corev1.NodeSelectorRequirement
}

// daemonTolerations are those that Kubernetes adds to the pods of a DaemonSet with the host
// network.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// NewHelpers returns the decision for the pod template of node helpers; nil for a nil
// template. The error names the invalid requirement.
func NewHelpers(template *corev1.PodTemplateSpec) (*Helpers, error) {
	if template == nil {
		return nil, nil
	}
	spec := template.Spec
	h := &Helpers{selector: apilabels.SelectorFromSet(spec.NodeSelector), tolerations: slices.Concat(daemonTolerations, spec.Tolerations), keys: make(map[string]bool)}
	for key := range spec.NodeSelector {
		h.keys[key] = true
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return h, nil
	}
	h.affinity = true
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			continue // matches no node
		}
		byLabels, err := requirements(term.MatchExpressions)
		if err != nil {
			return nil, err
		}
		for _, e := range term.MatchExpressions {
			h.keys[e.Key] = true
		}
		h.terms = append(h.terms, nodeTerm{byLabels, term.MatchFields})
	}
	return h, nil
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func requirements(all []corev1.NodeSelectorRequirement) (apilabels.Selector, error) {
	selector := apilabels.NewSelector()
	for _, one := range all {
		r, err := apilabels.NewRequirement(one.Key, operators[one.Operator], one.Values)
		if err != nil {
			return nil, fmt.Errorf("node affinity, key %s: %w; correct it", one.Key, err)
		}
		selector = selector.Add(*r)
	}
	return selector, nil
}

// Selects reports whether the node selector and the node affinity admit a node.
func (h *Helpers) Selects(node *corev1.Node) bool {
	if h == nil || Virtual(node) {
		return !Virtual(node)
	}
	of := apilabels.Set(node.Labels)
	return h.selector.Matches(of) && (!h.affinity || slices.ContainsFunc(h.terms, func(t nodeTerm) bool {
		return t.labels.Matches(of) && !slices.ContainsFunc(t.name, func(r corev1.NodeSelectorRequirement) bool {
			return slices.Contains(r.Values, node.Name) != (r.Operator == corev1.NodeSelectorOpIn)
		})
	}))
}

// RunOn reports whether a node helper runs on a node. A taint NoSchedule keeps new pods away;
// one that runs stays, and so the node stays attached.
func (h *Helpers) RunOn(node *corev1.Node, attached bool) bool {
	return h.Selects(node) && !slices.ContainsFunc(h.refused(node), func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute || !attached
	})
}

// refused returns the taints of a node that node helpers do not tolerate, without their times.
func (h *Helpers) refused(node *corev1.Node) (taints []corev1.Taint) {
	if h == nil {
		return nil
	}
	for _, t := range node.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(h.tolerations, func(of corev1.Toleration) bool {
			return of.ToleratesTaint(klog.Logger{}, &t, false)
		}) {
			taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	return taints
}

func (h *Helpers) labelsOf(node *corev1.Node) map[string]string {
	kept := make(map[string]string)
	for key, value := range node.Labels {
		if key == corev1.LabelNodeExcludeBalancers || key == peering.Label || h != nil && h.keys[key] {
			kept[key] = value
		}
	}
	return kept
}

// OnFargate reports whether a node is of AWS Fargate.
func OnFargate(node *corev1.Node) bool {
	return strings.HasPrefix(node.Spec.ProviderID, "aws://") && strings.Contains(node.Spec.ProviderID, "/fargate-")
}

// Virtual reports whether a node stands for the cluster of a Peering: its pods run there.
func Virtual(node *corev1.Node) bool { return node.Labels[peering.Label] != "" }

// Addresses returns a node's addresses of the given types.
func Addresses(node *corev1.Node, types ...corev1.NodeAddressType) []netip.Addr {
	var texts []string
	for _, address := range node.Status.Addresses {
		if slices.Contains(types, address.Type) {
			texts = append(texts, address.Address)
		}
	}
	return cidrs.OrdinaryAddresses(texts)
}

// Ready reports whether no condition states that a node is not ready.
func Ready(node *corev1.Node) bool {
	return !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// Essentials is a transform that keeps only the fields of a Node that passes read.
func (h *Helpers) Essentials(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil // a tombstone
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: h.labelsOf(node)},
		Spec:       corev1.NodeSpec{PodCIDRs: node.Spec.PodCIDRs, ProviderID: node.Spec.ProviderID, Unschedulable: node.Spec.Unschedulable, Taints: h.refused(node)},
		Status:     corev1.NodeStatus{Addresses: node.Status.Addresses, Conditions: Readiness(node)},
	}, nil
}

// Readiness returns the condition Ready of a node without its times, which change often.
func Readiness(node *corev1.Node) (ready []corev1.NodeCondition) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			ready = append(ready, corev1.NodeCondition{Type: c.Type, Status: c.Status})
		}
	}
	return ready
}
