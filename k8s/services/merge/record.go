package merge

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"strait.dev/strait/k8s/api/v1alpha1"
)

const maxGroups = 64 // of endpoints, as of the API

// RecordOf returns the record of a Service with these endpoints, and how many of them it leaves
// out.
func RecordOf(service *corev1.Service, groups []Group) (record v1alpha1.ServiceRecord, omitted int) {
	s := &service.Spec
	record = v1alpha1.ServiceRecord{
		Namespace: service.Namespace, Name: service.Name, Type: v1alpha1.ServiceRecordClusterSetIP,
		SessionAffinity: s.SessionAffinity, IPFamilies: s.IPFamilies,
		InternalTrafficPolicy: s.InternalTrafficPolicy, TrafficDistribution: s.TrafficDistribution,
	}
	if s.ClusterIP == corev1.ClusterIPNone {
		record.Type = v1alpha1.ServiceRecordHeadless
	}
	if c := s.SessionAffinityConfig; s.SessionAffinity == corev1.ServiceAffinityClientIP && c != nil && c.ClientIP != nil {
		record.SessionAffinityTimeout = c.ClientIP.TimeoutSeconds
	}
	for _, p := range s.Ports {
		record.Ports = append(record.Ports, v1alpha1.ServiceRecordPort{Name: p.Name, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), AppProtocol: p.AppProtocol, Port: p.Port})
	}
	left := MaxRecordEndpoints
	for i, g := range groups {
		n := min(left, len(g.Endpoints))
		if i >= maxGroups {
			n = 0
		}
		left, omitted = left-n, omitted+len(g.Endpoints)-n
		if n == 0 {
			continue
		}
		of := v1alpha1.ServiceRecordEndpoints{AddressType: g.AddressType, Ports: g.Ports}
		for _, e := range g.Endpoints[:n] {
			of.Endpoints = append(of.Endpoints, e.ServiceRecordEndpoint)
		}
		record.Endpoints = append(record.Endpoints, of)
	}
	return record, omitted
}

// GroupsOf returns the endpoints in the EndpointSlices of a Service that keep selects, sorted.
func GroupsOf(all []*discoveryv1.EndpointSlice, keep func(*discoveryv1.Endpoint) bool) []Group {
	var groups []Group
	for _, slice := range all {
		if slice.AddressType != discoveryv1.AddressTypeIPv4 && slice.AddressType != discoveryv1.AddressTypeIPv6 || slice.DeletionTimestamp != nil {
			continue
		}
		g := Group{AddressType: slice.AddressType, Ports: PortsOf(slice)}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if len(e.Addresses) == 0 || !keep(e) {
				continue
			}
			ready := ptr.Deref(e.Conditions.Ready, true)
			g.Endpoints = append(g.Endpoints, Endpoint{Node: ptr.Deref(e.NodeName, ""), ServiceRecordEndpoint: v1alpha1.ServiceRecordEndpoint{
				Address: e.Addresses[0], Hostname: ptr.Deref(e.Hostname, ""), Zone: ptr.Deref(e.Zone, ""),
				Ready: ready, Serving: ptr.Deref(e.Conditions.Serving, ready),
				Terminating: ptr.Deref(e.Conditions.Terminating, false),
			}})
		}
		groups = append(groups, g)
	}
	groups = Combine(groups)
	for _, g := range groups {
		slices.SortFunc(g.Endpoints, func(a, b Endpoint) int { return cmp.Compare(a.Address, b.Address) })
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Key(), b.Key()) })
	return groups
}

// PortsOf returns the ports of an EndpointSlice, without those that have no number.
func PortsOf(slice *discoveryv1.EndpointSlice) (ports []v1alpha1.ServiceRecordPort) {
	for _, p := range slice.Ports {
		if p.Port != nil {
			ports = append(ports, v1alpha1.ServiceRecordPort{Name: ptr.Deref(p.Name, ""), Protocol: ptr.Deref(p.Protocol, corev1.ProtocolTCP), AppProtocol: p.AppProtocol, Port: *p.Port})
		}
	}
	return ports
}
