package merge

import (
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Routed returns the groups of an exporting cluster's endpoints with the ports over which
// the import reaches that cluster. Where the Service of the cluster has another number or
// protocol under the name of a port, that port of the import leads to other clusters. Groups
// without such ports are left out. Clients of a headless import choose ports themselves.
func (i *Import) Routed(record *v1alpha1.ServiceRecord, groups []Group) (routed []Group) {
	if i.Headless() {
		return groups
	}
	conflicts := func(p v1alpha1.ServiceRecordPort) bool {
		return slices.ContainsFunc(i.Ports, func(applies v1alpha1.ServiceRecordPort) bool {
			return applies.Name == p.Name && !slices.ContainsFunc(record.Ports, func(own v1alpha1.ServiceRecordPort) bool {
				return own.Name == p.Name && own.Port == applies.Port && own.Protocol == applies.Protocol
			})
		})
	}
	for _, g := range groups {
		g.Ports = slices.DeleteFunc(slices.Clone(g.Ports), conflicts)
		if len(g.Ports) > 0 {
			routed = append(routed, g)
		}
	}
	return Combine(routed)
}
