// Package merge combines the records of a Service that several clusters export into one
// import, by the rules of the Multi-Cluster Services API, checks records of remote clusters,
// and distributes endpoints over EndpointSlices. Its functions are pure.
package merge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Export is the record of one cluster. Records are not changed. ExportedAt of the record is
// the time since which it counts.
type Export struct {
	Cluster string // the ID of the exporting cluster
	Record  *v1alpha1.ServiceRecord

	Labels, Annotations map[string]string // those of the record that an import may get
}

// Import is a Service as all clusters that export it define it together.
type Import struct {
	Type                  v1alpha1.ServiceRecordType
	Ports                 []v1alpha1.ServiceRecordPort
	SessionAffinity       corev1.ServiceAffinity
	SessionAffinityConfig *corev1.SessionAffinityConfig
	IPFamilies            []corev1.IPFamily
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy
	TrafficDistribution   *string
	Labels, Annotations   map[string]string
	Clusters              []string // IDs of the exporting clusters, sorted
	Conflicts             []Conflict
}

// Headless reports whether the import has no address of its own.
func (i *Import) Headless() bool { return i.Type == v1alpha1.ServiceRecordHeadless }

// Conflict is a property in which exports differ. Reason is one of the reasons of the
// condition Conflict of ServiceExports; Message names the property, the cluster whose value
// applies, and the clusters that differ.
type Conflict struct {
	Reason  mcsv1beta1.ServiceExportConditionReason
	Message string
}

// Merge combines exports, of which there is at least one for each cluster. The value of the
// oldest export applies where they differ; of equally old ones, that of the cluster whose ID
// sorts first. Ports are the union of all ports by name. IP families are those that Services
// of this cluster can have, of the oldest export that has one of them. So a newer export adds
// ports and endpoints, and takes nothing away. No families of this cluster: it can have all.
func Merge(exports []Export, families []corev1.IPFamily) Import {
	m := merging{all: slices.SortedFunc(slices.Values(exports), older)}
	first := m.all[0].Record
	m.Type = first.Type
	m.single(mcsv1beta1.ServiceExportReasonTypeConflict, "type", string(first.Type), func(r *v1alpha1.ServiceRecord) bool { return r.Type == first.Type })
	m.ports()
	m.SessionAffinity = cmp.Or(first.SessionAffinity, corev1.ServiceAffinityNone)
	m.single(mcsv1beta1.ServiceExportReasonSessionAffinityConflict, "sessionAffinity", string(m.SessionAffinity), func(r *v1alpha1.ServiceRecord) bool {
		return cmp.Or(r.SessionAffinity, corev1.ServiceAffinityNone) == m.SessionAffinity
	})
	if first.SessionAffinityTimeout != nil {
		timeout := *first.SessionAffinityTimeout
		m.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
	}
	m.single(mcsv1beta1.ServiceExportReasonSessionAffinityConfigConflict, "sessionAffinityConfig", seconds(first.SessionAffinityTimeout), func(r *v1alpha1.ServiceRecord) bool {
		return ptr.Equal(r.SessionAffinityTimeout, first.SessionAffinityTimeout)
	})
	m.InternalTrafficPolicy = first.InternalTrafficPolicy
	m.single(mcsv1beta1.ServiceExportReasonInternalTrafficPolicyConflict, "internalTrafficPolicy", text(first.InternalTrafficPolicy), func(r *v1alpha1.ServiceRecord) bool {
		return ptr.Equal(r.InternalTrafficPolicy, first.InternalTrafficPolicy)
	})
	m.TrafficDistribution = first.TrafficDistribution
	m.single(mcsv1beta1.ServiceExportReasonTrafficDistributionConflict, "trafficDistribution", text(first.TrafficDistribution), func(r *v1alpha1.ServiceRecord) bool {
		return ptr.Equal(r.TrafficDistribution, first.TrafficDistribution)
	})
	m.families(families)
	m.Labels, m.Annotations = m.all[0].Labels, m.all[0].Annotations
	m.single(mcsv1beta1.ServiceExportReasonLabelsConflict, "exportedLabels", pairs(first.Labels), func(r *v1alpha1.ServiceRecord) bool { return maps.Equal(r.Labels, first.Labels) })
	m.single(mcsv1beta1.ServiceExportReasonAnnotationsConflict, "exportedAnnotations", pairs(first.Annotations), func(r *v1alpha1.ServiceRecord) bool {
		return maps.Equal(r.Annotations, first.Annotations)
	})
	for _, e := range m.all {
		m.Clusters = append(m.Clusters, e.Cluster)
	}
	slices.Sort(m.Clusters)
	return m.Import
}

func older(a, b Export) int {
	return cmp.Or(a.Record.ExportedAt.Compare(b.Record.ExportedAt.Time), cmp.Compare(a.Cluster, b.Cluster))
}

type merging struct {
	Import
	all []Export // oldest first
}

// single adds a conflict if records differ from the oldest one in a property.
func (m *merging) single(reason mcsv1beta1.ServiceExportConditionReason, field, value string, same func(*v1alpha1.ServiceRecord) bool) {
	m.differing(reason, field, value, m.all[0].Cluster, same)
}

// differing adds a conflict if records have another value than the one that applies, which
// is of the winner.
func (m *merging) differing(reason mcsv1beta1.ServiceExportConditionReason, field, value, winner string, same func(*v1alpha1.ServiceRecord) bool) {
	var others []string
	for _, e := range m.all {
		if !same(e.Record) {
			others = append(others, e.Cluster)
		}
	}
	if len(others) == 0 {
		return
	}
	slices.Sort(others)
	differ := "differ"
	if len(others) == 1 {
		differ = "differs"
	}
	m.Conflicts = append(m.Conflicts, Conflict{reason, fmt.Sprintf("%s: %s of cluster %s applies, the oldest export that has it; %d of %d clusters %s: %s",
		field, value, winner, len(others), len(m.all), differ, shortened(others))})
}

// ports sets the union of all ports. Of ports with the same name, or with the same protocol
// and number, the one of the oldest export is in it: a Service cannot have both. A Service
// with several ports cannot have one without a name either.
func (m *merging) ports() {
	winner := make(map[string]string) // cluster by name of the port
	for _, e := range m.all {
		for _, p := range e.Record.Ports {
			taken := func(other v1alpha1.ServiceRecordPort) bool {
				return other.Name == p.Name || other.Port == p.Port && other.Protocol == p.Protocol || other.Name == "" || p.Name == ""
			}
			if !slices.ContainsFunc(m.Ports, taken) {
				m.Ports, winner[p.Name] = append(m.Ports, p), e.Cluster
			}
		}
	}
	const reason = mcsv1beta1.ServiceExportReasonPortConflict
	for _, p := range m.Ports {
		m.differing(reason, portField(p), number(p), winner[p.Name], func(r *v1alpha1.ServiceRecord) bool {
			return slices.ContainsFunc(r.Ports, func(other v1alpha1.ServiceRecordPort) bool { return samePort(p, other) })
		})
	}
}

func samePort(a, b v1alpha1.ServiceRecordPort) bool {
	return a.Name == b.Name && a.Protocol == b.Protocol && a.Port == b.Port && ptr.Equal(a.AppProtocol, b.AppProtocol)
}

func portField(p v1alpha1.ServiceRecordPort) string {
	if p.Name == "" {
		return "ports"
	}
	return "port " + p.Name
}

func number(p v1alpha1.ServiceRecordPort) string {
	if p.AppProtocol != nil {
		return fmt.Sprintf("%d/%s (%s)", p.Port, p.Protocol, *p.AppProtocol)
	}
	return fmt.Sprintf("%d/%s", p.Port, p.Protocol)
}

// families sets the IP families: nil for those that this cluster gives a Service, if the
// oldest export names none. If this cluster can have none of any export, they are those of the
// oldest one. An export conflicts that lacks one of them: clients of that family do not reach
// its endpoints.
func (m *merging) families(possible []corev1.IPFamily) {
	winner := m.all[0]
	m.IPFamilies = winner.Record.IPFamilies
	for _, e := range m.all {
		usable := Supported(e.Record.IPFamilies, possible)
		if len(usable) > 0 || len(e.Record.IPFamilies) == 0 {
			winner, m.IPFamilies = e, usable
			break
		}
	}
	m.differing(mcsv1beta1.ServiceExportReasonIPFamilyConflict, "ipFamilies", fmt.Sprint(m.IPFamilies), winner.Cluster, func(r *v1alpha1.ServiceRecord) bool {
		return len(r.IPFamilies) == 0 || len(Supported(m.IPFamilies, r.IPFamilies)) == len(m.IPFamilies)
	})
}

// Supported returns those of the IP families that are possible, in their order. Nothing
// possible stands for all.
func Supported(families, possible []corev1.IPFamily) (both []corev1.IPFamily) {
	if len(possible) == 0 {
		return families
	}
	for _, family := range families {
		if slices.Contains(possible, family) {
			both = append(both, family)
		}
	}
	return both
}

// Essential returns the import without what an API server may refuse, or a release of
// Kubernetes not have: connections reach its endpoints without that.
func (i *Import) Essential() Import {
	is := *i
	is.SessionAffinityConfig, is.InternalTrafficPolicy, is.TrafficDistribution, is.Labels, is.Annotations = nil, nil, nil, nil, nil
	is.Ports = slices.Clone(i.Ports)
	for n := range is.Ports {
		is.Ports[n].AppProtocol = nil
	}
	return is
}

func text[T ~string](value *T) string {
	if value == nil {
		return "no value"
	}
	return string(*value)
}

func seconds(value *int32) string {
	if value == nil {
		return "no value"
	}
	return fmt.Sprintf("%d s", *value)
}

func pairs(of map[string]string) string {
	if len(of) == 0 {
		return "no value"
	}
	const longest = 64 // bytes of a value
	var all []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s=%.*q", key, longest, of[key]))
	}
	return shortened(all)
}

func shortened(all []string) string {
	const most = 5
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// Reasons returns the reasons of conflicts, joined by commas, each once. It is NoConflicts
// if there is none.
func Reasons(conflicts []Conflict) string {
	var all []string
	for _, c := range conflicts {
		if !slices.Contains(all, string(c.Reason)) {
			all = append(all, string(c.Reason))
		}
	}
	return cmp.Or(strings.Join(all, ","), string(mcsv1beta1.ServiceExportReasonNoConflicts))
}

// Messages returns the messages of conflicts in one text.
func Messages(conflicts []Conflict) string {
	var all []string
	for _, c := range conflicts {
		all = append(all, c.Message)
	}
	return strings.Join(all, ". ")
}

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
