package merge

import (
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Remote returns the endpoints of a remote cluster's record with their addresses in this
// cluster, and the number of endpoints that are refused: those with addresses outside of
// the mappings. While no link to the cluster is up, no endpoint is ready or serving.
func Remote(cluster string, record *v1alpha1.ServiceRecord, mappings []Mapping, linkUp bool) (groups []Group, refused int) {
	for _, of := range record.Endpoints {
		g := Group{Cluster: cluster, AddressType: of.AddressType, Ports: of.Ports}
		for _, e := range of.Endpoints {
			address, ok := Translate(mappings, e.Address)
			if !ok || address.Is4() != (of.AddressType == discoveryv1.AddressTypeIPv4) {
				refused++
				continue
			}
			if e.Hostname == "" && record.Type == v1alpha1.ServiceRecordHeadless {
				e.Hostname = nameOf(e.Address)
			}
			if len(validation.IsDNS1123Label(e.Hostname)) > 0 {
				e.Hostname = ""
			}
			e.Address = address.String()
			if len(validation.IsValidLabelValue(e.Zone)) > 0 {
				e.Zone = ""
			}
			e.Ready, e.Serving = e.Ready && linkUp, e.Serving && linkUp
			g.Endpoints = append(g.Endpoints, Endpoint{ServiceRecordEndpoint: e})
		}
		groups = append(groups, g)
	}
	return Combine(groups), refused
}

// nameOf returns the name that DNS gives to a pod without a host name in its own cluster, so
// that the pod has this name in all clusters, also where its address is mapped.
func nameOf(address string) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(address)
}

// Combine joins groups with the same cluster, IP family and ports. Of several endpoints with
// the same address, a ready one stays.
func Combine(groups []Group) (all []Group) {
	byKey, places := make(map[string]int), make(map[string]int) // positions by key, and by key and address
	for _, g := range groups {
		key := g.Key()
		at, ok := byKey[key]
		if !ok {
			at = len(all)
			byKey[key] = at
			all = append(all, Group{Cluster: g.Cluster, AddressType: g.AddressType, Ports: g.Ports})
		}
		into := &all[at]
		for _, e := range g.Endpoints {
			id := key + " " + e.Address
			if was, ok := places[id]; !ok {
				places[id] = len(into.Endpoints)
				into.Endpoints = append(into.Endpoints, e)
			} else if e.Ready && !into.Endpoints[was].Ready {
				into.Endpoints[was] = e
			}
		}
	}
	return all
}
