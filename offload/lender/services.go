package lender

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/services/merge"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// kindEndpoints is the kind of the EndpointSlices of a Service, which are no objects of a list.
const kindEndpoints = "EndpointSlice"

// decideServices decides on Services and their EndpointSlices, and adds that to d. It returns how
// many endpoints are left out.
//
// The content of a Service is kept in memory only. Until a borrower has sent it to this run of
// the lender, what is stored stays, but no endpoint is ready while the link is down.
func (st *State) decideServices(namespaces map[string]Namespace, path Path, d *objectDecision, now time.Time) (outside int) {
	services, endpoints := make(map[string]*corev1.Service), make(map[string][]*discoveryv1.EndpointSlice)
	for _, of := range namespaces {
		for _, s := range of.Services {
			services[protocol.ObjectKey(protocol.KindService, s.Namespace, s.Name)] = s
		}
		for _, s := range of.Endpoints {
			key := protocol.ObjectKey(protocol.KindService, s.Namespace, s.Labels[discoveryv1.LabelServiceName])
			endpoints[key] = append(endpoints[key], s)
		}
	}
	bytes := 0
	for _, key := range slices.Sorted(maps.Keys(st.objects)) {
		o, is := st.objects[key], services[key]
		if o.Kind != protocol.KindService {
			continue
		}
		of := namespaces[o.Namespace]
		if !of.Lent || !of.Read {
			continue
		}
		if bytes += o.Size; bytes > protocol.MaxServices {
			d.denied[key] = denial{"TooMany", fmt.Sprintf("all Services of the peering together have more than %d bytes", protocol.MaxServices)}
			continue
		}
		c := st.services[o.Hash]
		switch {
		case c != nil:
			outside += st.decideService(key, o, c, is, endpoints[key], path, d, now)
			continue
		case d.postponed(key, st.attempts[key], now):
		case o.Hash != "" && len(st.contents)+len(d.needs) < protocol.MaxNeeds && !slices.Contains(d.needs, o.Hash):
			d.needs = append(d.needs, o.Hash)
		}
		d.gate(key, endpoints[key], path)
	}
	for _, key := range slices.Sorted(maps.Keys(services)) {
		if is := services[key]; st.objects[key] == nil && st.listed && !st.unread[is.Namespace] {
			d.write(DeleteObject, key, protocol.KindService, is)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(endpoints)) {
		all := endpoints[key]
		switch {
		case st.objects[key] != nil:
		case st.listed && !st.unread[all[0].Namespace]:
			for _, slice := range all {
				d.write(DeleteObject, key, kindEndpoints, slice)
			}
		default:
			d.gate(key, all, path)
		}
	}
	return outside
}

func (st *State) decideService(key string, o *protocol.Object, c *protocol.Service, is *corev1.Service, all []*discoveryv1.EndpointSlice, path Path, d *objectDecision, now time.Time) (outside int) {
	wanted := translate.Service(st.Peering, o.Namespace, o.Name, c, path.Granted, is)
	if is == nil || !translate.SameService(is, wanted) {
		switch {
		case d.postponed(key, st.attempts[key], now):
		case is == nil:
			d.write(CreateObject, key, protocol.KindService, wanted)
		default:
			d.write(UpdateObject, key, protocol.KindService, wanted)
		}
	} else {
		delete(st.attempts, key)
	}
	if is == nil {
		return 0 // its EndpointSlices belong to it
	}
	slices, unused, outside := translate.Endpoints(is, c, all, path.Granted, path.LinkUp)
	byName := make(map[string]*discoveryv1.EndpointSlice)
	for _, slice := range all {
		byName[slice.Name] = slice
	}
	for _, slice := range slices {
		switch was := byName[slice.Name]; {
		case was == nil:
			d.write(CreateObject, key, kindEndpoints, slice)
		case !merge.Same(was, slice):
			d.write(UpdateObject, key, kindEndpoints, slice)
		}
	}
	for _, slice := range unused {
		d.write(DeleteObject, key, kindEndpoints, slice)
	}
	return outside
}

func (d *objectDecision) gate(key string, all []*discoveryv1.EndpointSlice, path Path) {
	if path.LinkUp {
		return
	}
	for _, slice := range all {
		if s := translate.NotReady(slice); s != nil {
			d.write(UpdateObject, key, kindEndpoints, s)
		}
	}
}

func (d *objectDecision) write(act Act, key, kind string, object client.Object) {
	d.writes = append(d.writes, &ObjectWrite{Act: act, Key: key, Kind: kind, Object: object})
}
