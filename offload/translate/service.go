package translate

import (
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/protocol"
)

// ManagedBy is the value of endpointslice.kubernetes.io/managed-by on EndpointSlices of a lender:
// other controllers leave them alone.
const ManagedBy = "lender.strait.dev"

// importLabel is the label of Services that Strait derives from imports.
const importLabel = domain + "import"

const maxSelector = 64 // labels

// Carried reports whether the provider gets a copy of a Service: not one that is only a name, and
// not one whose endpoints are in other clusters.
func Carried(s *corev1.Service) bool {
	return s.DeletionTimestamp == nil && s.Spec.Type != corev1.ServiceTypeExternalName && s.Labels[importLabel] == ""
}

// ServiceContent returns the content of a Service, without endpoints on the node whose pods are
// twins: these are endpoints of the copy. It is an error if it is too large, or has endpoints
// that do not fit.
func ServiceContent(s *corev1.Service, endpoints []*discoveryv1.EndpointSlice, node string) (*protocol.Content, error) {
	groups := merge.GroupsOf(endpoints, func(e *discoveryv1.Endpoint) bool { return e.NodeName == nil || *e.NodeName != node })
	record, omitted := merge.RecordOf(s, groups)
	if omitted > 0 {
		return nil, errors.New("it has too many endpoints, or sets of ports")
	}
	c := &protocol.Content{Service: &protocol.Service{Record: record, Selector: s.Spec.Selector, PublishNotReady: s.Spec.PublishNotReadyAddresses}}
	for _, p := range s.Spec.Ports {
		c.Service.TargetPorts = append(c.Service.TargetPorts, p.TargetPort)
	}
	return c, JudgeContent(protocol.KindService, c)
}

// judgeService returns a *Refusal for a Service that this cluster may not have.
func judgeService(s *protocol.Service) error {
	if err := merge.Check(&s.Record); err != nil {
		return &Refusal{"service", err.Error()}
	}
	if err := merge.CheckSize(&s.Record); err != nil {
		return &Refusal{"service", err.Error()}
	}
	if len(s.TargetPorts) != len(s.Record.Ports) {
		return &Refusal{"service.targetPorts", "does not have one for each port"}
	}
	for _, p := range s.TargetPorts {
		if p.Type == intstr.Int && (p.IntVal < 0 || p.IntVal > 65535) || p.Type == intstr.String && len(validation.IsValidPortName(p.StrVal)) > 0 {
			return &Refusal{"service.targetPorts", "has one that is not a port"}
		}
	}
	if len(s.Selector) > maxSelector {
		return &Refusal{"service.selector", "has too many labels"}
	}
	return nil
}

// Service returns the copy of a Service, for the Peering peer: was with what the content says, or a
// new one if was is nil. It has no address outside of this cluster. Its selector selects twins.
func Service(peer, namespace, name string, c *protocol.Service, granted []merge.Mapping, was *corev1.Service) *corev1.Service {
	s := &corev1.Service{ObjectMeta: copied(peer, namespace, name), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}}
	if was != nil {
		s = was.DeepCopy()
	}
	setFamilies(&s.Spec, Families(c, granted))
	r := &c.Record
	if headless := r.Type == v1alpha1.ServiceRecordHeadless; headless != (s.Spec.ClusterIP == corev1.ClusterIPNone) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
		if headless {
			s.Spec.ClusterIP = corev1.ClusterIPNone
		}
	}
	s.Spec.Selector, s.Spec.PublishNotReadyAddresses = maps.Clone(c.Selector), c.PublishNotReady
	s.Spec.Ports = nil
	for i, p := range r.Ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port, TargetPort: c.TargetPorts[i]})
	}
	s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
	if r.SessionAffinity == corev1.ServiceAffinityClientIP {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		if r.SessionAffinityTimeout != nil {
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: r.SessionAffinityTimeout}}
		} else if was != nil {
			s.Spec.SessionAffinityConfig = was.Spec.SessionAffinityConfig // the default
		}
	}
	s.Spec.TrafficDistribution = r.TrafficDistribution
	return s
}

// Families returns the IP families of a Service that both clusters have: in one of another family,
// clients would find twins and no endpoint of the consumer.
func Families(c *protocol.Service, granted []merge.Mapping) (both []corev1.IPFamily) {
	for _, family := range c.Record.IPFamilies {
		for _, m := range granted {
			if m.SeenAs.Addr().Is4() == (family == corev1.IPv4Protocol) {
				both = append(both, family)
				break
			}
		}
	}
	return both
}

// setFamilies sets the IP families of a Service; none: this cluster chooses.
func setFamilies(s *corev1.ServiceSpec, families []corev1.IPFamily) {
	if len(families) == 0 {
		return
	}
	policy := corev1.IPFamilyPolicySingleStack
	if len(families) > 1 {
		policy = corev1.IPFamilyPolicyPreferDualStack // this cluster may have one family for Services
	}
	if s.IPFamilyPolicy != nil && *s.IPFamilyPolicy == policy && len(s.IPFamilies) > 0 && s.IPFamilies[0] == families[0] {
		return
	}
	s.IPFamilyPolicy = &policy
	if len(s.IPFamilies) == 0 || s.IPFamilies[0] != families[0] {
		s.IPFamilies, s.ClusterIP, s.ClusterIPs = families[:1], "", nil
		return
	}
	if policy == corev1.IPFamilyPolicySingleStack {
		s.IPFamilies, s.ClusterIPs = s.IPFamilies[:1], s.ClusterIPs[:min(len(s.ClusterIPs), 1)]
	}
}

// SameService reports whether a Service has what is wanted.
func SameService(is, wanted *corev1.Service) bool {
	return apiequality.Semantic.DeepEqual(is.Spec, wanted.Spec) && is.Labels[PeeringLabel] == wanted.Labels[PeeringLabel]
}

// Endpoints returns the EndpointSlices of a copy with the endpoints of the consumer, those of
// existing that are not among them, and how many endpoints were left out because their
// addresses are outside of what the Peering grants. While no link is up, none is ready.
func Endpoints(of *corev1.Service, c *protocol.Service, existing []*discoveryv1.EndpointSlice, granted []merge.Mapping, linkUp bool) (wanted, unused []*discoveryv1.EndpointSlice, outside int) {
	groups, outside := merge.Remote("", &c.Record, granted, linkUp)
	used := make(map[string]bool)
	for _, s := range merge.Assign(groups, existing, sliceKey) {
		slice := endpoints(of, s)
		used[slice.Name] = true
		wanted = append(wanted, slice)
	}
	for _, slice := range existing {
		if !used[slice.Name] {
			unused = append(unused, slice)
		}
	}
	return wanted, unused, outside
}

func sliceKey(s *discoveryv1.EndpointSlice) string {
	return merge.GroupKey("", s.AddressType, merge.PortsOf(s))
}

func endpoints(of *corev1.Service, s merge.Slice) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: copied(of.Labels[PeeringLabel], of.Namespace, of.Name+"-strait-"+s.Suffix), AddressType: s.Group.AddressType}
	slice.Labels[discoveryv1.LabelManagedBy], slice.Labels[discoveryv1.LabelServiceName] = ManagedBy, of.Name
	if of.Spec.ClusterIP == corev1.ClusterIPNone {
		slice.Labels[corev1.IsHeadlessService] = ""
	}
	slice.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: of.Name, UID: of.UID}}
	if was := s.Was; was != nil {
		slice.Name, slice.UID, slice.ResourceVersion = was.Name, was.UID, was.ResourceVersion
	}
	for _, p := range s.Group.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port, AppProtocol: p.AppProtocol})
	}
	for _, e := range s.Endpoints {
		one := discoveryv1.Endpoint{Addresses: []string{e.Address}, Conditions: discoveryv1.EndpointConditions{Ready: &e.Ready, Serving: &e.Serving, Terminating: &e.Terminating}}
		if e.Hostname != "" {
			one.Hostname = &e.Hostname
		}
		slice.Endpoints = append(slice.Endpoints, one)
	}
	return slice
}

// NotReady returns an EndpointSlice with no endpoint that is ready or serves, nil if it has none
// that is.
func NotReady(is *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s, changed := is.DeepCopy(), false
	for i := range s.Endpoints {
		for _, c := range []**bool{&s.Endpoints[i].Conditions.Ready, &s.Endpoints[i].Conditions.Serving} {
			if *c == nil || **c {
				*c, changed = new(bool), true
			}
		}
	}
	if !changed {
		return nil
	}
	return s
}
