package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/services"
)

// ServicesSchema is the version of the JSON form of a ServicesReport. Fields may be added;
// changes and removals get a new number.
const ServicesSchema = "strait.dev/services/1"

// ServicesReport describes the Services that clusters export and import.
type ServicesReport struct {
	Schema   string            `json:"schema"`
	Clusters []ClusterServices `json:"clusters"`
}

// ClusterServices describes the Services that one cluster exports and imports.
type ClusterServices struct {
	Cluster   string              `json:"cluster"` // as in Cluster.Name
	ClusterID v1alpha1.ClusterID  `json:"clusterID"`
	Services  []ClusterSetService `json:"services"` // by namespace and name
	Peerings  []PeeringServices   `json:"peerings"` // by name
}

// ClusterSetService is a Service that at least one cluster exports, as one cluster sees it.
type ClusterSetService struct {
	Namespace string             `json:"namespace"`
	Name      string             `json:"name"`
	DNSName   string             `json:"dnsName"`
	Type      string             `json:"type,omitempty"` // ClusterSetIP or Headless
	IPs       []string           `json:"ips,omitempty"`  // in this cluster
	Ports     []string           `json:"ports"`          // like http:80/TCP
	Exports   bool               `json:"exports"`        // this cluster has a ServiceExport of it
	Clusters  []ExportingCluster `json:"clusters"`       // by ID
	State     ServiceState       `json:"state"`
	Messages  []string           `json:"messages,omitempty"` // what is wrong, with the remedy
}

// ExportingCluster is a cluster that exports a Service, with its endpoints: as they are
// imported, or as the cluster exports them if they are not.
type ExportingCluster struct {
	ClusterID v1alpha1.ClusterID `json:"clusterID"`
	Peering   string             `json:"peering,omitempty"` // with that cluster; empty for this cluster
	Imported  bool               `json:"imported"`
	Ready     int                `json:"ready"`
	Endpoints int                `json:"endpoints"`
	Gateways  *int               `json:"gateways,omitempty"` // that carry connections to the endpoints of a remote cluster; only without node helpers
}

// ServiceState is the state of a Service in a cluster.
type ServiceState string

// The states of a Service.
const (
	ServiceReady       ServiceState = "ready"        // it has an endpoint that is ready
	ServiceNotReady    ServiceState = "not ready"    // it is imported, but cannot be used
	ServiceNotExported ServiceState = "not exported" // although this cluster has a ServiceExport
	ServiceNotImported ServiceState = "not imported" // although a remote cluster exports it
)

// PeeringServices is the state of the imports from one remote cluster.
type PeeringServices struct {
	Peering   string             `json:"peering"`
	ClusterID v1alpha1.ClusterID `json:"clusterID,omitempty"`
	LinkUp    bool               `json:"linkUp"`
	Receiver  string             `json:"receiver,omitempty"` // the gateway that receives the exports
	From      string             `json:"from,omitempty"`     // the remote gateway that sends them
	Synced    bool               `json:"synced"`
	Imported  int32              `json:"imported"`
	Refused   int32              `json:"refused"`
	Failed    int32              `json:"failed,omitempty"`  // that this cluster could not import
	Message   string             `json:"message,omitempty"` // what is wrong, with the remedy
}

// Failed reports whether a Service that a cluster exports or imports cannot be used there.
// A Service that a cluster does not import does not count: its administrators decide that.
func (r *ServicesReport) Failed() bool {
	return slices.ContainsFunc(r.Clusters, func(c ClusterServices) bool {
		return slices.ContainsFunc(c.Services, func(s ClusterSetService) bool {
			return s.State == ServiceNotReady || s.State == ServiceNotExported
		})
	})
}

func dnsName(s types.NamespacedName) string {
	return s.Name + "." + s.Namespace + ".svc." + services.Zone
}

// ReadServices reads the Services that a cluster exports and imports: those with these
// names, or if there are none those in a namespace, or if that is empty all. A name that
// the cluster neither exports nor imports is an error.
func ReadServices(ctx context.Context, c Cluster, namespace string, names []types.NamespacedName) (*ClusterServices, error) {
	o, err := c.readServiceObjects(ctx)
	if err != nil {
		return nil, err
	}
	all := o.names()
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("%s: no cluster exports Service %s; strait services without arguments lists the exported Services", c.Name, name)
		}
	}
	r := &ClusterServices{Cluster: c.Name, ClusterID: o.network.Status.ClusterID, Services: []ClusterSetService{}, Peerings: []PeeringServices{}}
	for _, name := range all {
		if slices.Contains(names, name) || len(names) == 0 && (namespace == "" || name.Namespace == namespace) {
			r.Services = append(r.Services, o.service(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.peerings)) {
		r.Peerings = append(r.Peerings, peeringServices(o.peerings[name], o.reports))
	}
	return r, nil
}

func (o *serviceObjects) service(name types.NamespacedName) ClusterSetService {
	s := ClusterSetService{Namespace: name.Namespace, Name: name.Name, DNSName: dnsName(name), Ports: []string{}, Clusters: o.exporters(name)}
	imported, export, record := o.imports[name], o.exports[name], o.exported[name]
	s.Exports = export != nil
	switch received := o.received[name]; {
	case imported != nil:
		s.Type, s.IPs = string(imported.Spec.Type), imported.Spec.IPs
		for _, p := range imported.Spec.Ports {
			s.Ports = append(s.Ports, portText(p.Name, p.Port, p.Protocol))
		}
	case record != nil:
		s.describe(record)
	case len(received) > 0:
		s.describe(&received[0].Service)
	}
	s.State = ServiceReady
	say := func(state ServiceState, messages ...string) {
		for _, m := range messages {
			if !slices.Contains(s.Messages, m) {
				s.Messages = append(s.Messages, m)
			}
		}
		if s.State == ServiceReady && state != "" {
			s.State = state
		}
	}
	if export != nil {
		if missing := notExportedReason(export); missing != "" {
			say(ServiceNotExported, missing)
		}
	}
	ready := 0
	for _, c := range s.Clusters {
		if p := o.peerings[c.Peering]; c.Imported && p != nil && !linkUp(p) {
			say("", fmt.Sprintf("no link to cluster %s is up, so its endpoints are not ready; run strait status %s", c.ClusterID, p.Name))
		}
		if c.Imported && (c.Gateways == nil || *c.Gateways > 0) {
			ready += c.Ready
		}
	}
	switch {
	case imported == nil && s.State == ServiceReady && export != nil:
		say(ServiceNotReady, "this cluster exports the Service, and has not created its ServiceImport yet; if this persists, check the log of the controller")
	case imported != nil:
		if missing := notImportedReason(imported); missing != "" {
			say(ServiceNotReady, missing)
		}
		if ready == 0 {
			say(ServiceNotReady, "it has no endpoint that is ready")
		}
		if c := meta.FindStatusCondition(imported.Status.Conditions, services.NamedCondition); c != nil && c.Status == metav1.ConditionFalse {
			say("", c.Message)
		}
	}
	for _, r := range o.received[name] {
		if imported == nil || !slices.ContainsFunc(imported.Status.Clusters, func(c mcsv1beta1.ClusterStatus) bool { return c.Cluster == o.remoteOf(r.Peering) }) {
			state := ServiceNotImported
			if imported != nil {
				state = "" // from other clusters
			}
			say(state, o.refusal(name, r.Peering))
		}
	}
	if export != nil {
		if c := meta.FindStatusCondition(export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict)); c != nil && c.Status == metav1.ConditionTrue {
			say("", "conflict: "+c.Message)
		}
	}
	return s
}

func (s *ClusterSetService) describe(r *v1alpha1.ServiceRecord) {
	s.Type = string(r.Type)
	for _, p := range r.Ports {
		s.Ports = append(s.Ports, portText(p.Name, p.Port, p.Protocol))
	}
}

func portText(name string, port int32, protocol corev1.Protocol) string {
	text := fmt.Sprintf("%d/%s", port, cmp.Or(protocol, corev1.ProtocolTCP))
	if name != "" {
		text = name + ":" + text
	}
	return text
}

// exporters returns the clusters that export a Service, by ID.
func (o *serviceObjects) exporters(name types.NamespacedName) []ExportingCluster {
	own := o.network.Status.ClusterID
	all := map[v1alpha1.ClusterID]*ExportingCluster{}
	cluster := func(id v1alpha1.ClusterID) *ExportingCluster {
		if all[id] == nil {
			all[id] = &ExportingCluster{ClusterID: id}
			for _, p := range o.peerings {
				if remoteID(p) == id && id != own {
					all[id].Peering = p.Name
				}
			}
		}
		return all[id]
	}
	if record := o.exported[name]; record != nil {
		cluster(own).count(record)
	}
	for _, r := range o.received[name] {
		one := cluster(v1alpha1.ClusterID(o.remoteOf(r.Peering)))
		one.Peering = r.Peering
		one.count(&r.Service)
	}
	if imported := o.imports[name]; imported != nil {
		for _, c := range imported.Status.Clusters {
			one := cluster(v1alpha1.ClusterID(c.Cluster))
			one.Imported = true
			ready, endpoints := countImported(o.slices[name], c.Cluster)
			if o.network.Status.WithoutNodes && one.ClusterID != own {
				one.Gateways = &ready // the endpoints are those that the cluster exports
				continue
			}
			one.Ready, one.Endpoints = ready, endpoints
		}
	}
	list := []ExportingCluster{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[id])
	}
	return list
}

// endpointCount is the number of ready and of all endpoints by IP family: those of a Service with
// two IP families are in the slices of both, and count once.
type endpointCount map[discoveryv1.AddressType][2]int

func (n endpointCount) add(family discoveryv1.AddressType, ready bool) {
	is := n[family]
	if is[1]++; ready {
		is[0]++
	}
	n[family] = is
}

func (n endpointCount) most() (ready, total int) {
	for _, is := range n {
		ready, total = max(ready, is[0]), max(total, is[1])
	}
	return ready, total
}

// countImported returns the number of imported endpoints from a cluster.
func countImported(all []discoveryv1.EndpointSlice, cluster string) (ready, total int) {
	n := endpointCount{}
	for _, s := range all {
		if s.Labels[mcsv1beta1.LabelSourceCluster] != cluster {
			continue
		}
		for _, e := range s.Endpoints {
			n.add(s.AddressType, e.Conditions.Ready == nil || *e.Conditions.Ready)
		}
	}
	return n.most()
}

// count takes the number of endpoints from a record.
func (c *ExportingCluster) count(r *v1alpha1.ServiceRecord) {
	n := endpointCount{}
	for _, set := range r.Endpoints {
		for _, e := range set.Endpoints {
			n.add(set.AddressType, e.Ready)
		}
	}
	c.Ready, c.Endpoints = n.most()
}

func peeringServices(p *v1alpha1.Peering, reports map[string]v1alpha1.GatewayReport) PeeringServices {
	s := PeeringServices{Peering: p.Name, ClusterID: remoteID(p), LinkUp: linkUp(p)}
	if p.Status.Services != nil {
		is := p.Status.Services
		s.Receiver, s.Imported, s.Refused, s.Failed, s.Message = is.Receiver, is.Imported, is.Refused, is.Failed, is.Message
	}
	received := reports[s.Receiver].Status.Services
	if received != nil {
		s.From, s.Synced = received.From, received.Synced
		s.Refused += received.Refused
		s.Message = strings.Join(slices.DeleteFunc([]string{s.Message, received.Message}, func(m string) bool { return m == "" }), "; ")
	}
	if s.Message != "" {
		return s
	}
	switch {
	case p.Spec.Services.ImportFrom == v1alpha1.ImportNone:
		s.Message = "imports no Services: spec.services.importFrom is None"
	case !s.LinkUp:
		s.Message = "no link is up; run strait status " + p.Name
	case s.Receiver == "":
		s.Message = "no gateway receives Services; if this persists, check the log of the controller"
	case s.From == "":
		s.Message = fmt.Sprintf("gateway %s receives no Services: no remote gateway sends them; install the same version of Strait in both clusters", s.Receiver)
	case !s.Synced:
		s.Message = fmt.Sprintf("gateway %s has not received all Services yet", s.Receiver)
	}
	return s
}
