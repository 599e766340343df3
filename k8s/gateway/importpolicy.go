package gateway

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

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

func importPolicyOf(p *v1alpha1.Peering, now time.Time) *importPolicy {
	s := p.Spec.Services
	policy := &importPolicy{
		uid: p.UID, from: s.ImportFrom, namespaces: s.Namespaces,
		maxServices: int(ptr.Deref(s.MaxServices, defaultMaxServices)), maxEndpoints: int(ptr.Deref(s.MaxEndpoints, defaultMaxEndpoints)), maxBytes: int(ptr.Deref(s.MaxBytes, merge.DefaultMaxBytes)),
	}
	for _, r := range peering.RemoteOf(p, now).Ranges() {
		if prefix, err := netip.ParsePrefix(string(r.CIDR)); err == nil { // an invalid CIDR permits no address
			policy.prefixes = append(policy.prefixes, prefix)
		}
	}
	return policy
}

// Reasons for which records are refused, in metrics.
const (
	refusedMalformed = "malformed" // by its form
	refusedNamespace = "namespace" // not one that the Peering lists
	refusedAddress   = "address"   // outside of the remote cluster's prefixes
	refusedLimit     = "limit"     // maxServices, maxEndpoints or maxBytes
	refusedAPI       = "api"       // the API server refuses the object
)

var refusalReasons = []string{refusedMalformed, refusedNamespace, refusedAddress, refusedLimit, refusedAPI}

type refusal struct {
	reason string
	text   string

	endpoints, bytes int // that it needs, if the reason is refusedLimit
}

func malformed(format string, a ...any) *refusal {
	return &refusal{reason: refusedMalformed, text: fmt.Sprintf(format, a...)}
}

// check returns why a record is refused by itself, nil if it is not.
func (p *importPolicy) check(key control.ServiceKey, r *v1alpha1.ServiceRecord) *refusal {
	if (control.ServiceKey{Namespace: r.Namespace, Name: r.Name}) != key {
		return malformed("namespace and name occur twice")
	}
	if p.from == v1alpha1.ImportListed && !slices.Contains(p.namespaces, r.Namespace) {
		return &refusal{reason: refusedNamespace, text: "its namespace is not in spec.services.namespaces"}
	}
	if len(r.Endpoints) > maxEndpointGroups {
		return malformed("endpoints: %d entries are too many", len(r.Endpoints))
	}
	if err := cmp.Or(merge.CheckSize(r), merge.Check(r)); err != nil {
		return malformed("%v", err)
	}
	if why := checkProperties(r); why != nil {
		return why
	}
	for i := range r.Endpoints {
		if why := p.checkEndpoints(&r.Endpoints[i]); why != nil {
			why.text = fmt.Sprintf("endpoints[%d].%s", i, why.text)
			return why
		}
	}
	return nil
}

// Limits of lists, as in the API.
const (
	maxEndpointGroups = 64
	maxProperties     = 64
)

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

// checkEndpoints checks what merge.Check leaves to the translation of addresses.
func (p *importPolicy) checkEndpoints(group *v1alpha1.ServiceRecordEndpoints) *refusal {
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
