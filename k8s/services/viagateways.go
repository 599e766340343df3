package services

import (
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services/merge"
)

// viaGateways returns the endpoints of a remote cluster's Service in a cluster without node
// helpers: the addresses of the gateways that have a link, with the ports that stand for
// those of the Service. A port is as ready as the best of the endpoints that serve it, since
// the gateways connect to those. groups are these endpoints.
func viaGateways(of remote, record *v1alpha1.ServiceRecord, groups []merge.Group, ports []v1alpha1.GatewayServicePort) (all []merge.Group) {
	byState := make(map[v1alpha1.ServiceRecordEndpoint][]v1alpha1.ServiceRecordPort)
	var states []v1alpha1.ServiceRecordEndpoint // in the order of the ports
	for _, p := range record.Ports {
		i := slices.IndexFunc(ports, func(g v1alpha1.GatewayServicePort) bool { return g.ServicePort == p.Name })
		if i < 0 {
			continue
		}
		state := stateOf(p.Name, groups)
		if byState[state] == nil {
			states = append(states, state)
		}
		p.Port = ports[i].Port
		byState[state] = append(byState[state], p)
	}
	for _, state := range states {
		for _, address := range of.gateways {
			e := state
			e.Address = address.String()
			all = append(all, merge.Group{Cluster: of.cluster, AddressType: addressType(address), Ports: byState[state], Endpoints: []merge.Endpoint{{ServiceRecordEndpoint: e}}})
		}
	}
	return merge.Combine(all)
}

// headlessProblem explains why remote clusters have no part in headless imports.
const headlessProblem = "it is headless, and this cluster has no node helpers: a gateway cannot stand for single endpoints; export a Service with a ClusterIP"

// withoutRemotes returns the sources of this cluster, whose endpoints are those of a headless
// import without node helpers, and the condition Ready of the ServiceImport. Clients of
// headless Services connect to ports of their choice at addresses of single endpoints, which
// the gateways do not have.
func (r *reconciliation) withoutRemotes(all []source, ready metav1.Condition) ([]source, metav1.Condition) {
	var local []source
	for _, one := range all {
		if one.peering == "" {
			local = append(local, one)
			continue
		}
		r.verdicts[one.peering] = verdict{message: headlessProblem}
	}
	switch {
	case len(local) == 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "HeadlessNotSupported", headlessProblem
	case len(local) < len(all):
		ready.Message += "; of remote clusters, nothing is: " + headlessProblem
	}
	return local, ready
}

// stateOf returns the conditions of the best endpoint that serves a port: those of one that
// is ready, or of one that serves while it ends, to which clients connect only if no other
// endpoint is ready.
func stateOf(port string, groups []merge.Group) (best v1alpha1.ServiceRecordEndpoint) {
	for _, g := range groups {
		if !slices.ContainsFunc(g.Ports, func(p v1alpha1.ServiceRecordPort) bool { return p.Name == port }) {
			continue
		}
		for _, e := range g.Endpoints {
			if e.Ready {
				return v1alpha1.ServiceRecordEndpoint{Ready: true, Serving: true}
			}
			if e.Serving && e.Terminating {
				best = v1alpha1.ServiceRecordEndpoint{Serving: true, Terminating: true}
			}
		}
	}
	return best
}

func addressType(a netip.Addr) discoveryv1.AddressType {
	if a.Is4() {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

// gatewayAddresses returns the addresses of the gateways of a Peering that have a link. The
// addresses of others may already be those of other pods.
func gatewayAddresses(p *v1alpha1.Peering) (all []netip.Addr) {
	for _, g := range p.Status.Gateways {
		if !g.LinkUp {
			continue
		}
		for _, text := range g.PodAddresses {
			if a, err := netip.ParseAddr(string(text)); err == nil {
				all = append(all, a)
			}
		}
	}
	return all
}
