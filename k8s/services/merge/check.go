package merge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/nat"
)

// maxSessionAffinityTimeout is the limit of Kubernetes, in seconds.
const maxSessionAffinityTimeout = 86400

// Check returns why a record of a remote cluster cannot be imported, nil if it can be. What
// it accepts, the API server accepts in a ServiceImport, a Service and EndpointSlices, apart
// from labels and annotations; see Exported. Addresses are checked by Translate.
func Check(r *v1alpha1.ServiceRecord) error {
	if len(validation.IsDNS1123Label(r.Name)) > 0 || len(validation.IsDNS1123Label(r.Namespace)) > 0 {
		return fmt.Errorf("%q is not the name of a Service in a namespace", r.Namespace+"/"+r.Name)
	}
	switch r.Type {
	case v1alpha1.ServiceRecordHeadless:
	case v1alpha1.ServiceRecordClusterSetIP:
		if len(r.Ports) == 0 {
			return fmt.Errorf("it has no port")
		}
	default:
		return fmt.Errorf("%q is not a type of imports", r.Type)
	}
	if err := checkPorts(r.Ports, true); err != nil {
		return err
	}
	switch r.SessionAffinity {
	case "", corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP:
	default:
		return fmt.Errorf("%q is not a session affinity", r.SessionAffinity)
	}
	switch t := r.SessionAffinityTimeout; {
	case t == nil:
	case r.SessionAffinity != corev1.ServiceAffinityClientIP:
		return fmt.Errorf("it has a timeout of session affinity without session affinity")
	case *t < 1 || *t > maxSessionAffinityTimeout:
		return fmt.Errorf("%d s is not a timeout of session affinity", *t)
	}
	if p := r.InternalTrafficPolicy; p != nil && *p != corev1.ServiceInternalTrafficPolicyCluster && *p != corev1.ServiceInternalTrafficPolicyLocal {
		return fmt.Errorf("%q is not an internal traffic policy", *p)
	}
	if d := r.TrafficDistribution; d != nil && !slices.Contains(distributions, *d) {
		return fmt.Errorf("%q is not a traffic distribution", *d)
	}
	for i, family := range r.IPFamilies {
		if family != corev1.IPv4Protocol && family != corev1.IPv6Protocol || i > 1 || i == 1 && family == r.IPFamilies[0] {
			return fmt.Errorf("%v are not IP families of a Service", r.IPFamilies)
		}
	}
	for _, group := range r.Endpoints {
		if group.AddressType != discoveryv1.AddressTypeIPv4 && group.AddressType != discoveryv1.AddressTypeIPv6 {
			return fmt.Errorf("%q is not a type of IP addresses", group.AddressType)
		}
		if err := checkPorts(group.Ports, false); err != nil {
			return fmt.Errorf("endpoints: %w", err)
		}
	}
	return nil
}

var distributions = []string{corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode}

// checkPorts checks the ports of a Service, whose numbers are unique, or of endpoints.
func checkPorts(ports []v1alpha1.ServiceRecordPort, unique bool) error {
	if len(ports) > v1alpha1.MaxServicePorts {
		return fmt.Errorf("it has %d ports, the maximum is %d", len(ports), v1alpha1.MaxServicePorts)
	}
	type number struct {
		port     int32
		protocol corev1.Protocol
	}
	names, numbers := make(map[string]bool), make(map[number]bool)
	for _, p := range ports {
		of := number{p.Port, p.Protocol}
		switch {
		case p.Port < 1 || p.Port > 65535:
			return fmt.Errorf("%d is not a port number", p.Port)
		case p.Protocol != corev1.ProtocolTCP && p.Protocol != corev1.ProtocolUDP && p.Protocol != corev1.ProtocolSCTP:
			return fmt.Errorf("%q is not a protocol", p.Protocol)
		case p.Name == "" && len(ports) > 1:
			return fmt.Errorf("one of several ports has no name")
		case p.Name != "" && len(validation.IsDNS1123Label(p.Name)) > 0:
			return fmt.Errorf("%q is not the name of a port", p.Name)
		case p.AppProtocol != nil && len(validation.IsQualifiedName(*p.AppProtocol)) > 0:
			return fmt.Errorf("%q is not an application protocol", *p.AppProtocol)
		case names[p.Name], unique && numbers[of]:
			return fmt.Errorf("two ports are %s %d/%s", p.Name, p.Port, p.Protocol)
		}
		names[p.Name], numbers[of] = true, true
	}
	return nil
}

// reserved are prefixes of the keys of labels and annotations that no import gets: those of
// Strait, of the API, and of tools that would act on an imported object.
var reserved = []string{"strait.dev/", "multicluster.kubernetes.io/", "kubernetes.io/", "k8s.io/", "helm.sh/", "argoproj.io/", "fluxcd.io/"}

// maxProperties is the maximum length of all exported labels, and of all exported
// annotations, of a Service, in bytes: the API server permits 256 KiB of annotations on an
// object.
const maxProperties = 64 << 10

// Exported returns the labels or annotations of an export without those that are malformed,
// and those whose keys belong to others. Keys below a subdomain of a reserved domain are
// reserved too. None are left if they are too long together.
func Exported(given map[string]string, labels bool) map[string]string {
	kept, length := make(map[string]string), 0
	for key, value := range given {
		if len(validation.IsQualifiedName(key)) > 0 || labels && len(validation.IsValidLabelValue(value)) > 0 {
			continue
		}
		if slices.ContainsFunc(reserved, func(domain string) bool { return strings.HasPrefix(key, domain) || strings.Contains(key, "."+domain) }) {
			continue
		}
		kept[key] = value
		length += len(key) + len(value)
	}
	if length > maxProperties {
		clear(kept)
	}
	return kept
}

// Allowed returns the labels or annotations whose keys are allowed: each is a key, or a
// domain and "/*" for all keys of the domain.
func Allowed(exported map[string]string, keys []string) map[string]string {
	kept := make(map[string]string)
	for key, value := range exported {
		domain, _, _ := strings.Cut(key, "/")
		if slices.Contains(keys, key) || strings.Contains(key, "/") && slices.Contains(keys, domain+"/*") {
			kept[key] = value
		}
	}
	return kept
}

// Mapping translates addresses of a CIDR of a remote cluster to the CIDR that it is mapped to
// in this cluster, of the same length.
type Mapping struct{ CIDR, SeenAs netip.Prefix }

// Mappings returns how the CIDRs of a remote cluster are mapped into this one.
func Mappings(seen []v1alpha1.SeenPrefix) (all []Mapping) {
	for _, one := range seen {
		cidr, err := netip.ParsePrefix(string(one.CIDR))
		seenAs, err2 := netip.ParsePrefix(string(one.SeenAs))
		if err == nil && err2 == nil {
			all = append(all, Mapping{CIDR: cidr.Masked(), SeenAs: seenAs.Masked()})
		}
	}
	return all
}

// Granted returns those Mappings that a Peering grants.
func Granted(seen []v1alpha1.SeenPrefix, by v1alpha1.RemotePrefixes) []Mapping {
	return Mappings(slices.DeleteFunc(slices.Clone(seen), func(one v1alpha1.SeenPrefix) bool {
		return !slices.ContainsFunc(by, func(p v1alpha1.RemotePrefix) bool { return p.CIDR == one.CIDR })
	}))
}

// Translate returns the address in this cluster of an address of a remote cluster. It is
// false for an address outside of all CIDRs: the remote cluster must not name it.
func Translate(mappings []Mapping, text string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Addr{}, false
	}
	address = address.Unmap()
	for _, m := range mappings {
		if !m.CIDR.Contains(address) {
			continue
		}
		if to, err := nat.NewMap(m.CIDR, m.SeenAs); err == nil {
			return to.Translate(address), true
		}
	}
	return netip.Addr{}, false
}
