package merge

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Group are endpoints of one cluster with the same IP family and ports.
type Group struct {
	Cluster     string
	AddressType discoveryv1.AddressType
	Ports       []v1alpha1.ServiceRecordPort
	Endpoints   []Endpoint // with unique addresses
}

// Endpoint is an endpoint with its address in this cluster. Node is the name of its node, if
// that is one of this cluster.
type Endpoint struct {
	v1alpha1.ServiceRecordEndpoint
	Node string
}

// MaxEndpoints is the maximum number of endpoints of one EndpointSlice: that of Kubernetes'
// own controller.
const MaxEndpoints = 100

// Slice is the desired content of one EndpointSlice.
type Slice struct {
	Suffix    string                     // of its name: unique among the EndpointSlices of a Service
	Was       *discoveryv1.EndpointSlice // nil: it does not exist
	Group     *Group                     // whose cluster, IP family and ports it has
	Endpoints []Endpoint                 // in its order
}

// Assign distributes groups of endpoints over EndpointSlices. existing are those that the
// Service has, whose groups key returns. An endpoint stays in the EndpointSlice that it is
// in, so that a change touches one EndpointSlice; new endpoints go where something changes
// anyway, and otherwise into the fullest EndpointSlice that has capacity. Those of existing
// that no element of the result has are to be deleted.
func Assign(groups []Group, existing []*discoveryv1.EndpointSlice, key func(*discoveryv1.EndpointSlice) string) (all []Slice) {
	byGroup := make(map[string][]*discoveryv1.EndpointSlice)
	for _, slice := range existing {
		byGroup[key(slice)] = append(byGroup[key(slice)], slice)
	}
	for i := range groups {
		g := &groups[i]
		all = append(all, g.assign(byGroup[g.Key()])...)
	}
	return all
}

// Key identifies a group among those of a Service: a hash.
func (g *Group) Key() string { return GroupKey(g.Cluster, g.AddressType, g.Ports) }

// GroupKey is the key of the group with these properties. It is long enough that no cluster finds
// ports with which one of its groups has the key of another cluster's.
func GroupKey(cluster string, addresses discoveryv1.AddressType, ports []v1alpha1.ServiceRecordPort) string {
	sorted := slices.SortedFunc(slices.Values(ports), func(a, b v1alpha1.ServiceRecordPort) int { return cmp.Compare(a.Name, b.Name) })
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q", cluster, addresses)
	for _, p := range sorted {
		fmt.Fprintf(hash, " %q %q %d %q", p.Name, p.Protocol, p.Port, ptr.Deref(p.AppProtocol, ""))
	}
	return hex.EncodeToString(hash.Sum(nil)[:10])
}

func (g *Group) assign(existing []*discoveryv1.EndpointSlice) []Slice {
	if len(g.Endpoints) == 0 {
		return nil
	}
	slices.SortFunc(existing, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	left := make(map[string]Endpoint, len(g.Endpoints))
	for _, e := range g.Endpoints {
		left[e.Address] = e
	}
	all := make([]Slice, len(existing))
	changed := make([]bool, len(existing))
	for i, slice := range existing {
		all[i] = Slice{Was: slice, Group: g}
		for _, was := range slice.Endpoints {
			e, ok := left[was.Addresses[0]]
			if !ok {
				changed[i] = true
				continue
			}
			delete(left, e.Address)
			all[i].Endpoints = append(all[i].Endpoints, e)
		}
	}
	var fresh []Endpoint // sorted, so that the result does not depend on the order of a map
	for _, e := range g.Endpoints {
		if _, ok := left[e.Address]; ok {
			fresh = append(fresh, e)
		}
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) int {
		if changed[i] {
			return MaxEndpoints + len(all[i].Endpoints) // before all that stay as they are
		}
		return min(len(all[i].Endpoints), MaxEndpoints-1)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(b), rank(a)) })
	for _, i := range order {
		n := min(len(fresh), max(MaxEndpoints-len(all[i].Endpoints), 0))
		all[i].Endpoints, fresh = append(all[i].Endpoints, fresh[:n]...), fresh[n:]
	}
	for number := 0; len(fresh) > 0; number++ {
		suffix := fmt.Sprintf("%s-%d", g.Key(), number)
		if slices.ContainsFunc(existing, func(s *discoveryv1.EndpointSlice) bool { return strings.HasSuffix(s.Name, "-"+suffix) }) {
			continue
		}
		n := min(len(fresh), MaxEndpoints)
		all = append(all, Slice{Suffix: suffix, Group: g, Endpoints: fresh[:n]})
		fresh = fresh[n:]
	}
	return slices.DeleteFunc(all, func(s Slice) bool { return len(s.Endpoints) == 0 })
}

// Same reports whether an EndpointSlice has what is wanted. Its ports and address type are those of
// its group.
func Same(is, wanted *discoveryv1.EndpointSlice) bool {
	return equality.Semantic.DeepEqual(is.Labels, wanted.Labels) && equality.Semantic.DeepEqual(is.OwnerReferences, wanted.OwnerReferences) &&
		equality.Semantic.DeepEqual(is.Endpoints, wanted.Endpoints)
}
