package gateway

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"strait.dev/strait/config"
	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/services/merge"
)

// importPolicy is what a Peering permits the remote cluster to export to this cluster. The
// controller checks it, too: here it bounds the objects that a remote cluster can cause.
type importPolicy struct {
	uid                       types.UID // of the Peering
	from                      v1alpha1.ImportFrom
	namespaces                []string // of Listed
	maxServices, maxEndpoints int
	maxBytes                  int            // of all records, as merge.Size counts them
	prefixes                  []netip.Prefix // of the remote cluster
}

// Limits if the Peering sets none: the defaults of the API.
const (
	defaultMaxServices  = 2000
	defaultMaxEndpoints = 50_000
)

// importPolicyOf returns the policy of a Peering at a time.
func importPolicyOf(p *v1alpha1.Peering, now time.Time) *importPolicy {
	s := p.Spec.Services
	policy := &importPolicy{uid: p.UID, from: s.ImportFrom, namespaces: s.Namespaces, maxServices: defaultMaxServices, maxEndpoints: defaultMaxEndpoints, maxBytes: merge.DefaultMaxBytes}
	if s.MaxServices != nil {
		policy.maxServices = int(*s.MaxServices)
	}
	if s.MaxEndpoints != nil {
		policy.maxEndpoints = int(*s.MaxEndpoints)
	}
	if s.MaxBytes != nil {
		policy.maxBytes = int(*s.MaxBytes)
	}
	for _, r := range peering.RemoteOf(p, now).Ranges() {
		if prefix, err := netip.ParsePrefix(string(r.CIDR)); err == nil { // an invalid CIDR permits no address
			policy.prefixes = append(policy.prefixes, prefix)
		}
	}
	return policy
}

func (p *importPolicy) equal(q *importPolicy) bool { return reflect.DeepEqual(p, q) }

// Reasons for which records are refused, in metrics.
const (
	refusedMalformed = "malformed" // by its form
	refusedNamespace = "namespace" // not one that the Peering lists
	refusedAddress   = "address"   // outside of the remote cluster's prefixes
	refusedLimit     = "limit"     // maxServices, maxEndpoints or maxBytes
	refusedAPI       = "api"       // the API server refuses the object
)

var refusalReasons = []string{refusedMalformed, refusedNamespace, refusedAddress, refusedLimit, refusedAPI}

// refusal is why a record is refused.
type refusal struct {
	reason string
	text   string

	endpoints, bytes int // that it needs, if the reason is refusedLimit
}

func malformed(format string, a ...any) *refusal {
	return &refusal{reason: refusedMalformed, text: fmt.Sprintf(format, a...)}
}

// check returns why a record is refused by itself, nil if it is not, and its number of
// endpoints.
func (p *importPolicy) check(key control.ServiceKey, r *v1alpha1.ServiceRecord) (endpoints int, why *refusal) {
	if (control.ServiceKey{Namespace: r.Namespace, Name: r.Name}) != key {
		return 0, malformed("namespace and name occur twice")
	}
	if p.from == v1alpha1.ImportListed && !slices.Contains(p.namespaces, r.Namespace) {
		return 0, &refusal{reason: refusedNamespace, text: "its namespace is not in spec.services.namespaces"}
	}
	if why := checkService(r); why != nil {
		return 0, why
	}
	if len(r.Endpoints) > maxEndpointGroups {
		return 0, malformed("endpoints: %d entries are too many", len(r.Endpoints))
	}
	for i := range r.Endpoints {
		group := &r.Endpoints[i]
		if why := p.checkEndpoints(group); why != nil {
			why.text = fmt.Sprintf("endpoints[%d].%s", i, why.text)
			return 0, why
		}
		endpoints += len(group.Endpoints)
	}
	if err := merge.CheckSize(r); err != nil {
		return 0, malformed("%v", err)
	}
	return endpoints, nil
}

// Limits of lists, as in the API.
const (
	maxEndpointGroups = 64
	maxGroupEndpoints = 5000
	maxProperties     = 64
)

func checkService(r *v1alpha1.ServiceRecord) *refusal {
	oneOf := func(field, value string, values ...string) *refusal {
		if slices.Contains(values, value) {
			return nil
		}
		return malformed("%s: %.63q is not one of %q", field, value, values)
	}
	var checks []*refusal
	check := func(why *refusal) { checks = append(checks, why) }
	check(oneOf("type", string(r.Type), string(v1alpha1.ServiceRecordClusterSetIP), string(v1alpha1.ServiceRecordHeadless)))
	check(checkPorts(r.Ports))
	check(oneOf("sessionAffinity", string(r.SessionAffinity), "", string(corev1.ServiceAffinityNone), string(corev1.ServiceAffinityClientIP)))
	if t := r.SessionAffinityTimeout; t != nil && (*t < 1 || *t > 86400) {
		check(malformed("sessionAffinityTimeout: %d is out of range", *t))
	}
	if len(r.IPFamilies) > 2 || len(r.IPFamilies) == 2 && r.IPFamilies[0] == r.IPFamilies[1] {
		check(malformed("ipFamilies: a family occurs twice"))
	}
	for _, f := range r.IPFamilies {
		check(oneOf("ipFamilies", string(f), string(corev1.IPv4Protocol), string(corev1.IPv6Protocol)))
	}
	if t := r.InternalTrafficPolicy; t != nil {
		check(oneOf("internalTrafficPolicy", string(*t), string(corev1.ServiceInternalTrafficPolicyCluster), string(corev1.ServiceInternalTrafficPolicyLocal)))
	}
	if t := r.TrafficDistribution; t != nil && len(*t) > validation.DNS1123LabelMaxLength {
		check(malformed("trafficDistribution: is too long"))
	}
	check(checkProperties(r))
	for _, why := range checks {
		if why != nil {
			return why
		}
	}
	return nil
}

// checkProperties checks labels and annotations by the rules of the API server. Their length
// is checked by merge.CheckSize.
func checkProperties(r *v1alpha1.ServiceRecord) *refusal {
	if len(r.Labels) > maxProperties || len(r.Annotations) > maxProperties {
		return malformed("labels or annotations: more than %d", maxProperties)
	}
	for key, value := range r.Labels {
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			return malformed("labels: %.63q is not a valid label", key)
		}
	}
	for key := range r.Annotations {
		if len(validation.IsQualifiedName(key)) > 0 {
			return malformed("annotations: %.63q is not a valid key", key)
		}
	}
	return nil
}

func checkPorts(ports []v1alpha1.ServiceRecordPort) *refusal {
	if len(ports) > v1alpha1.MaxServicePorts {
		return malformed("ports: %d are too many", len(ports))
	}
	names := make(map[string]bool, len(ports))
	for _, p := range ports {
		switch {
		case names[p.Name]:
			return malformed("ports: the name %.63q occurs twice", p.Name)
		case p.Name != "" && config.CheckLabel(p.Name) != nil, p.Name == "" && len(ports) > 1:
			return malformed("ports: %.63q is not a valid name", p.Name)
		case p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP && p.Protocol != corev1.ProtocolSCTP:
			return malformed("ports: %.63q is not a protocol", p.Protocol)
		case p.Port < 1 || p.Port > 65535:
			return malformed("ports: %d is not a port", p.Port)
		case p.AppProtocol != nil && len(validation.IsQualifiedName(*p.AppProtocol)) > 0:
			return malformed("ports: %.63q is not an application protocol", *p.AppProtocol)
		}
		names[p.Name] = true
	}
	return nil
}

func (p *importPolicy) checkEndpoints(group *v1alpha1.ServiceRecordEndpoints) *refusal {
	if group.AddressType != discoveryv1.AddressTypeIPv4 && group.AddressType != discoveryv1.AddressTypeIPv6 {
		return malformed("addressType: %.63q is not IPv4 or IPv6", group.AddressType)
	}
	if why := checkPorts(group.Ports); why != nil {
		return why
	}
	if len(group.Endpoints) > maxGroupEndpoints {
		return malformed("endpoints: %d are too many", len(group.Endpoints))
	}
	var last netip.Prefix // most endpoints are in the prefix of the one before
	for i := range group.Endpoints {
		e := &group.Endpoints[i]
		a, err := netip.ParseAddr(e.Address)
		switch {
		case err != nil || a.String() != e.Address || a.Zone() != "" || a.Is4() != (group.AddressType == discoveryv1.AddressTypeIPv4) || a.Is4In6():
			return malformed("endpoints[%d].address: %.63q is not a canonical %s address", i, e.Address, group.AddressType)
		case e.Hostname != "" && config.CheckLabel(e.Hostname) != nil:
			return malformed("endpoints[%d].hostname: %.63q is not a valid name", i, e.Hostname)
		case len(validation.IsValidLabelValue(e.Zone)) > 0:
			return malformed("endpoints[%d].zone: %.63q is not a valid name", i, e.Zone)
		case last.Contains(a):
			continue
		}
		within := slices.IndexFunc(p.prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(a) })
		if within < 0 {
			return &refusal{reason: refusedAddress, text: fmt.Sprintf("endpoints[%d].address: %v is not within the prefixes of the remote cluster", i, a)}
		}
		last = p.prefixes[within]
	}
	return nil
}
