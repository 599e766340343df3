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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
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

// dnsName returns the name of a Service in all clusters.
func dnsName(s types.NamespacedName) string {
	return s.Name + "." + s.Namespace + ".svc." + services.Zone
}

// serviceObjects are the objects of a cluster about exported and imported Services.
type serviceObjects struct {
	network    *v1alpha1.ClusterNetwork
	peerings   map[string]*v1alpha1.Peering
	reports    map[string]v1alpha1.GatewayReport // by name of the gateway
	exports    map[types.NamespacedName]*mcsv1beta1.ServiceExport
	imports    map[types.NamespacedName]*mcsv1beta1.ServiceImport
	exported   map[types.NamespacedName]*v1alpha1.ServiceRecord
	received   map[types.NamespacedName][]v1alpha1.ReceivedServiceSpec
	slices     map[types.NamespacedName][]discoveryv1.EndpointSlice // of imports
	namespaces map[string]bool
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

// checkServicesInstalled returns an error with a remedy if a cluster does not have the
// resource types of the Multi-Cluster Services API. The namespace is one that the caller may
// read.
func (c Cluster) checkServicesInstalled(ctx context.Context, namespace string) error {
	_, err := listAll(ctx, c, "ServiceExports", c.Client.ServiceExports(namespace), metav1.ListOptions{Limit: 1})
	return err
}

// listAll lists objects. A missing resource type is an error with a remedy.
func listAll[T client.Object, L client.List](ctx context.Context, c Cluster, what string, kind *client.Kind[T, L], options metav1.ListOptions) (L, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	list, err := kind.List(ctx, options)
	if apierrors.IsNotFound(err) {
		return list, fmt.Errorf("%s: the cluster has no %s: Strait is installed there without Services, or in an earlier version; set services.enabled=true in the values of its chart, and upgrade it", c.Name, what)
	}
	if err != nil {
		return list, c.Failed("read "+what, err)
	}
	return list, nil
}

func (c Cluster) readServiceObjects(ctx context.Context) (*serviceObjects, error) {
	o := &serviceObjects{
		peerings: map[string]*v1alpha1.Peering{}, reports: map[string]v1alpha1.GatewayReport{}, namespaces: map[string]bool{},
		exports: map[types.NamespacedName]*mcsv1beta1.ServiceExport{}, imports: map[types.NamespacedName]*mcsv1beta1.ServiceImport{},
		exported: map[types.NamespacedName]*v1alpha1.ServiceRecord{}, received: map[types.NamespacedName][]v1alpha1.ReceivedServiceSpec{},
		slices: map[types.NamespacedName][]discoveryv1.EndpointSlice{},
	}
	var err error
	if o.network, err = c.Network(ctx); err != nil {
		return nil, err
	}
	peerings, err := c.Peerings(ctx)
	if err != nil {
		return nil, err
	}
	for i := range peerings {
		o.peerings[peerings[i].Name] = &peerings[i]
	}
	reports, err := c.Reports(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range reports {
		o.reports[r.Name] = r
	}
	exports, err := listAll(ctx, c, "ServiceExports", c.Client.ServiceExports(""), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range exports.Items {
		e := &exports.Items[i]
		o.exports[nameOf(e)] = e
	}
	imports, err := listAll(ctx, c, "ServiceImports", c.Client.ServiceImports(""), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range imports.Items {
		one := &imports.Items[i]
		o.imports[nameOf(one)] = one
	}
	exported, err := listAll(ctx, c, "ExportedServices", c.Client.ExportedServices(install.GatewayNamespace), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range exported.Items {
		record := &exported.Items[i].Spec
		o.exported[types.NamespacedName{Namespace: record.Namespace, Name: record.Name}] = record
	}
	received, err := listAll(ctx, c, "ReceivedServices", c.Client.ReceivedServices(install.GatewayNamespace), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, r := range received.Items {
		name := types.NamespacedName{Namespace: r.Spec.Service.Namespace, Name: r.Spec.Service.Name}
		o.received[name] = append(o.received[name], r.Spec)
	}
	endpoints, err := listAll(ctx, c, "EndpointSlices", c.Client.EndpointSlices(""), metav1.ListOptions{LabelSelector: mcsv1beta1.LabelServiceName + "," + mcsv1beta1.LabelSourceCluster})
	if err != nil {
		return nil, err
	}
	for _, s := range endpoints.Items {
		name := types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[mcsv1beta1.LabelServiceName]}
		o.slices[name] = append(o.slices[name], s)
	}
	namespaces, err := listAll(ctx, c, "Namespaces", c.Client.Namespaces(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, n := range namespaces.Items {
		o.namespaces[n.Name] = true
	}
	return o, nil
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// names returns the names of all Services, sorted.
func (o *serviceObjects) names() []types.NamespacedName {
	all := map[types.NamespacedName]bool{}
	for name := range o.exports {
		all[name] = true
	}
	for name := range o.imports {
		all[name] = true
	}
	for name := range o.received {
		all[name] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// service describes one Service.
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

// describe takes the properties of a Service from its record.
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

// countImported returns the number of imported endpoints from a cluster. Those of a Service
// with two IP families are in slices of both, and count once.
func countImported(all []discoveryv1.EndpointSlice, cluster string) (ready, total int) {
	byFamily := map[discoveryv1.AddressType][2]int{}
	for _, s := range all {
		if s.Labels[mcsv1beta1.LabelSourceCluster] != cluster {
			continue
		}
		n := byFamily[s.AddressType]
		for _, e := range s.Endpoints {
			n[1]++
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				n[0]++
			}
		}
		byFamily[s.AddressType] = n
	}
	for _, n := range byFamily {
		ready, total = max(ready, n[0]), max(total, n[1])
	}
	return ready, total
}

// count takes the number of endpoints from a record.
func (c *ExportingCluster) count(r *v1alpha1.ServiceRecord) {
	byFamily := map[discoveryv1.AddressType][2]int{}
	for _, set := range r.Endpoints {
		n := byFamily[set.AddressType]
		for _, e := range set.Endpoints {
			n[1]++
			if e.Ready {
				n[0]++
			}
		}
		byFamily[set.AddressType] = n
	}
	for _, n := range byFamily {
		c.Ready, c.Endpoints = max(c.Ready, n[0]), max(c.Endpoints, n[1])
	}
}

// remoteOf returns the ID of the remote cluster of a Peering, or the name of the Peering if
// the ID is not known.
func (o *serviceObjects) remoteOf(name string) string {
	if p := o.peerings[name]; p != nil {
		return remoteOf(p)
	}
	return name
}

// refusal says why this cluster does not import a Service that it received over a Peering.
func (o *serviceObjects) refusal(s types.NamespacedName, peering string) string {
	p := o.peerings[peering]
	switch {
	case p == nil:
		return fmt.Sprintf("it was received over Peering %s, which is deleted", peering)
	case p.Spec.Services.ImportFrom == v1alpha1.ImportNone:
		return fmt.Sprintf("Peering %s imports no Services; set spec.services.importFrom to import some", peering)
	case p.Spec.Services.ImportFrom == v1alpha1.ImportListed && !slices.Contains(p.Spec.Services.Namespaces, s.Namespace):
		return fmt.Sprintf("Peering %s does not import from namespace %s; add it to spec.services.namespaces to import it", peering, s.Namespace)
	case !o.namespaces[s.Namespace]:
		return fmt.Sprintf("namespace %s does not exist in this cluster; create it to import the Service", s.Namespace)
	case !linkUp(p):
		return fmt.Sprintf("no link to cluster %s is up; run strait status %s", remoteOf(p), peering)
	case p.Status.Services != nil && p.Status.Services.Message != "":
		return fmt.Sprintf("Peering %s: %s", peering, p.Status.Services.Message)
	}
	return fmt.Sprintf("the controller has not imported it from cluster %s yet; if this persists, check the log of the controller", remoteOf(p))
}

// linkUp reports whether a gateway of a Peering has a link that is up.
func linkUp(p *v1alpha1.Peering) bool {
	return slices.ContainsFunc(p.Status.Gateways, func(g v1alpha1.GatewayStatus) bool { return g.LinkUp })
}

// notExportedReason explains why a ServiceExport is not in effect, empty if it is.
func notExportedReason(e *mcsv1beta1.ServiceExport) string {
	if e.DeletionTimestamp != nil {
		return "the ServiceExport is being deleted"
	}
	for _, t := range []mcsv1beta1.ServiceExportConditionType{mcsv1beta1.ServiceExportConditionValid, mcsv1beta1.ServiceExportConditionReady} {
		switch c := meta.FindStatusCondition(e.Status.Conditions, string(t)); {
		case c == nil || c.ObservedGeneration != 0 && c.ObservedGeneration < e.Generation:
			return "the controller has not processed the ServiceExport yet; if this persists, check that the controller runs, and that the values of the chart do not disable Services"
		case c.Status != metav1.ConditionTrue:
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// notImportedReason explains why a ServiceImport cannot be used, empty if it can.
func notImportedReason(i *mcsv1beta1.ServiceImport) string {
	if i.DeletionTimestamp != nil {
		return "the ServiceImport is being deleted"
	}
	if c := meta.FindStatusCondition(i.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)); c != nil && c.Status != metav1.ConditionTrue {
		return cmp.Or(c.Message, c.Reason)
	}
	if i.Spec.Type == mcsv1beta1.ClusterSetIP && len(i.Spec.IPs) == 0 {
		return "the ServiceImport has no IP address yet"
	}
	return ""
}

// peeringServices describes the imports over a Peering.
func peeringServices(p *v1alpha1.Peering, reports map[string]v1alpha1.GatewayReport) PeeringServices {
	s := PeeringServices{Peering: p.Name, ClusterID: remoteID(p), LinkUp: linkUp(p)}
	if p.Status.Services != nil {
		s.Receiver, s.Imported, s.Refused, s.Message = p.Status.Services.Receiver, p.Status.Services.Imported, p.Status.Services.Refused, p.Status.Services.Message
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
