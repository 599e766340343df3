package services

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services/merge"
)

// The transforms below keep of each cached object what is read. All Services and all
// EndpointSlices of the cluster are watched, because a watch can select objects by label
// only, and what is exported has no label of its own.

func trimService(object any) (any, error) {
	s, ok := object.(*corev1.Service)
	if !ok {
		return object, nil // a tombstone
	}
	s.ManagedFields = nil
	if s.Labels[ImportLabel] != "" {
		return s, nil // written back as a whole
	}
	return &corev1.Service{ObjectMeta: trimMeta(&s.ObjectMeta), Spec: corev1.ServiceSpec{
		Type: s.Spec.Type, ClusterIP: s.Spec.ClusterIP, Ports: s.Spec.Ports, IPFamilies: s.Spec.IPFamilies,
		SessionAffinity: s.Spec.SessionAffinity, SessionAffinityConfig: s.Spec.SessionAffinityConfig,
		InternalTrafficPolicy: s.Spec.InternalTrafficPolicy, TrafficDistribution: s.Spec.TrafficDistribution,
	}}, nil
}

func trimSlice(object any) (any, error) {
	s, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil
	}
	meta := trimMeta(&s.ObjectMeta)
	meta.Labels = s.Labels
	if s.Labels[discoveryv1.LabelServiceName] == "" {
		return &discoveryv1.EndpointSlice{ObjectMeta: meta}, nil
	}
	if ours(s) {
		meta.OwnerReferences, meta.Annotations = s.OwnerReferences, s.Annotations
	}
	slim := &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: s.AddressType, Ports: s.Ports, Endpoints: make([]discoveryv1.Endpoint, len(s.Endpoints))}
	for i, e := range s.Endpoints {
		kept := &slim.Endpoints[i]
		*kept = discoveryv1.Endpoint{Addresses: e.Addresses, Hostname: e.Hostname, NodeName: e.NodeName, Zone: e.Zone, Conditions: discoveryv1.EndpointConditions{
			Ready: shared(e.Conditions.Ready), Serving: shared(e.Conditions.Serving), Terminating: shared(e.Conditions.Terminating),
		}}
		if ours(s) {
			kept.Hints = e.Hints
		}
	}
	return slim, nil
}

// tooLarge is the type, in the cache, of a record that is larger than a record may be: the
// remote cluster cannot write it, and a gateway must not fill the memory with it.
const tooLarge v1alpha1.ServiceRecordType = "TooLarge"

func trimReceived(object any) (any, error) {
	r, ok := object.(*v1alpha1.ReceivedService)
	if !ok {
		return object, nil
	}
	meta := trimMeta(&r.ObjectMeta)
	meta.CreationTimestamp, meta.OwnerReferences = r.CreationTimestamp, r.OwnerReferences
	slim := &v1alpha1.ReceivedService{ObjectMeta: meta, Spec: r.Spec, Status: r.Status}
	merge.DropEmpty(&slim.Spec.Service)
	if merge.CheckSize(&slim.Spec.Service) != nil {
		slim.Spec.Service = v1alpha1.ServiceRecord{Namespace: r.Spec.Service.Namespace, Name: r.Spec.Service.Name, Type: tooLarge}
	}
	return slim, nil
}

func trimNamespace(object any) (any, error) {
	n, ok := object.(*corev1.Namespace)
	if !ok {
		return object, nil
	}
	meta := trimMeta(&n.ObjectMeta)
	meta.DeletionTimestamp = n.DeletionTimestamp
	return &corev1.Namespace{ObjectMeta: meta}, nil
}

func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

// yes and no are the targets of all pointers to conditions, which must not be changed.
var yes, no = true, false

func shared(condition *bool) *bool {
	switch {
	case condition == nil:
		return nil
	case *condition:
		return &yes
	}
	return &no
}

// Indexes of caches.
const (
	byService   = "service"   // EndpointSlices of Services of users; ReceivedServices: by namespace/name
	byImport    = "import"    // EndpointSlices of imports: by namespace/name
	byPeering   = "peering"   // ReceivedServices
	byNamespace = "namespace" // of the Service of ReceivedServices
)

var sliceIndexers = cache.Indexers{
	byService: func(object any) ([]string, error) {
		s := object.(*discoveryv1.EndpointSlice)
		if name := s.Labels[discoveryv1.LabelServiceName]; name != "" && !ours(s) {
			return []string{s.Namespace + "/" + name}, nil
		}
		return nil, nil
	},
	byImport: func(object any) ([]string, error) {
		if s := object.(*discoveryv1.EndpointSlice); ours(s) {
			return []string{s.Namespace + "/" + s.Labels[ImportLabel]}, nil
		}
		return nil, nil
	},
}

var receivedIndexers = cache.Indexers{
	byService: func(object any) ([]string, error) {
		r := object.(*v1alpha1.ReceivedService)
		return []string{r.Spec.Service.Namespace + "/" + r.Spec.Service.Name}, nil
	},
	byPeering: func(object any) ([]string, error) {
		return []string{object.(*v1alpha1.ReceivedService).Spec.Peering}, nil
	},
	byNamespace: func(object any) ([]string, error) {
		return []string{object.(*v1alpha1.ReceivedService).Spec.Service.Namespace}, nil
	},
}

// indexed returns the ReceivedServices that an index has under a name.
func (c *Controller) indexed(index, name string) []*v1alpha1.ReceivedService {
	found, err := c.received.cache.GetIndexer().ByIndex(index, name)
	if err != nil {
		panic(err) // there is no such index
	}
	all := make([]*v1alpha1.ReceivedService, len(found))
	for i, object := range found {
		all[i] = object.(*v1alpha1.ReceivedService)
	}
	return all
}
