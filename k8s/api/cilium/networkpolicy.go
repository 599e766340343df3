// Package cilium has the part of Cilium's API that Strait writes: policies that match nodes
// by what they are, where a NetworkPolicy of Kubernetes does not match their addresses.
package cilium

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: "cilium.io", Version: "v2"}

// AddToScheme registers the types of this package in a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &CiliumNetworkPolicy{}, &CiliumNetworkPolicyList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// The entities that are nodes of the cluster.
const (
	Host       = "host"        // the node of the selected pod
	RemoteNode = "remote-node" // the other nodes
)

// CiliumNetworkPolicy allows what it lists to the pods that it selects, in addition to other
// policies.
type CiliumNetworkPolicy struct { //nolint:revive // the name of the kind
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec Spec `json:"spec"`
}

// Spec is the specification of a CiliumNetworkPolicy.
type Spec struct {
	EndpointSelector metav1.LabelSelector `json:"endpointSelector"`
	Ingress          []Ingress            `json:"ingress,omitempty"`
}

// Ingress allows some sources to reach some ports.
type Ingress struct {
	FromEntities []string `json:"fromEntities,omitempty"`
	ToPorts      []Ports  `json:"toPorts,omitempty"`
}

// Ports are some ports.
type Ports struct {
	Ports []Port `json:"ports,omitempty"`
}

// Port is a port number and its protocol, TCP or UDP.
type Port struct {
	Port     string `json:"port"`
	Protocol string `json:"protocol,omitempty"`
}

// CiliumNetworkPolicyList is a list of CiliumNetworkPolicies.
type CiliumNetworkPolicyList struct { //nolint:revive // the name of the kind
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CiliumNetworkPolicy `json:"items"`
}

// DeepCopyObject returns a copy that shares nothing with p.
func (p *CiliumNetworkPolicy) DeepCopyObject() runtime.Object { return p.deepCopy() }

func (p *CiliumNetworkPolicy) deepCopy() *CiliumNetworkPolicy {
	next := &CiliumNetworkPolicy{TypeMeta: p.TypeMeta, ObjectMeta: *p.ObjectMeta.DeepCopy()}
	next.Spec.EndpointSelector = *p.Spec.EndpointSelector.DeepCopy()
	next.Spec.Ingress = slices.Clone(p.Spec.Ingress)
	for i := range next.Spec.Ingress {
		rule := &next.Spec.Ingress[i]
		rule.FromEntities, rule.ToPorts = slices.Clone(rule.FromEntities), slices.Clone(rule.ToPorts)
		for j := range rule.ToPorts {
			rule.ToPorts[j].Ports = slices.Clone(rule.ToPorts[j].Ports)
		}
	}
	return next
}

// DeepCopyObject returns a copy that shares nothing with l.
func (l *CiliumNetworkPolicyList) DeepCopyObject() runtime.Object {
	next := &CiliumNetworkPolicyList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		next.Items = append(next.Items, *l.Items[i].deepCopy())
	}
	return next
}
