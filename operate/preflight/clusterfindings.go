package preflight

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
)

// minKubernetes is the first version of Kubernetes that supports the CEL functions in the
// CRDs; the chart requires the same.
var minKubernetes = version.MustParseGeneric("1.31.0")

func clusterFindings(f *facts) (all []findings.Finding) {
	all = append(all, f.versionFinding())
	all = append(all, f.rangeFindings()...)
	for _, one := range []struct {
		code  string
		about topic // required input
		of    func(*facts) []findings.Finding
	}{
		{"STRAIT-C003", aboutNodes, (*facts).systemFindings},
		{"STRAIT-C006", aboutDaemonSets, pluginFindings},
		{"STRAIT-C009", aboutNamespaces, (*facts).namespaceFindings},
		{"STRAIT-C010", aboutStrait, (*facts).installationFindings},
		{"STRAIT-C011", aboutServices, (*facts).loadBalancerFindings},
		{"STRAIT-C014", aboutPods, (*facts).podAddressFindings},
		{helperCode, aboutNodes, (*facts).helperFindings},
	} {
		if err := f.denied[one.about]; err != nil {
			all = append(all, findings.New(one.code, findings.Skipped, f.name, "%s cannot be read: %v", one.about, err))
		} else {
			all = append(all, one.of(f)...)
		}
	}
	if len(f.leftover) > 0 {
		all = append(all, findings.New("STRAIT-C013", findings.Warning, f.name, "namespaces %s belong to a command that was killed or is still running", strings.Join(f.leftover, ", ")))
	}
	if len(f.denied) == 0 {
		all = append(all, findings.New("STRAIT-C001", findings.OK, f.name, "all required resources can be read"))
	}
	return all
}

func (f *facts) versionFinding() findings.Finding {
	is, err := version.ParseGeneric(f.version)
	switch {
	case err != nil:
		return findings.New("STRAIT-C002", findings.Warning, f.name, "the API server reports the invalid version %q", f.version)
	case is.LessThan(minKubernetes):
		return findings.New("STRAIT-C002", findings.Error, f.name, "the API server is %s; the validation rules of Strait's CRDs need %s or later", f.version, minKubernetes)
	}
	return findings.New("STRAIT-C002", findings.OK, f.name, "%s", f.version)
}

// systemFindings checks where gateways and node helpers can run.
func (f *facts) systemFindings() []findings.Finding {
	const code = "STRAIT-C003"
	can, cannot := 0, make(map[string]int)
	for _, n := range f.nodes {
		if i := n.Status.NodeInfo; i.OperatingSystem == "linux" && (i.Architecture == "amd64" || i.Architecture == "arm64") {
			can++
		} else {
			cannot[i.OperatingSystem+"/"+i.Architecture]++
		}
	}
	switch {
	case len(f.nodes) == 0:
		return single(code, findings.Warning, f.name, "the cluster has no nodes")
	case can == 0:
		return single(code, findings.Error, f.name, "no node runs Linux on amd64 or arm64: found %s", operator.Counts(cannot))
	case len(cannot) > 0:
		return single(code, findings.Warning, f.name, "Strait works on %d of %d nodes; the others are %s", can, len(f.nodes), operator.Counts(cannot))
	}
	return single(code, findings.OK, f.name, "%d nodes, all Linux on amd64 or arm64", can)
}

// rangeFindings checks the CIDRs that the controller would detect.
func (f *facts) rangeFindings() []findings.Finding {
	if f.network == nil {
		return []findings.Finding{findings.New("STRAIT-C004", findings.Skipped, f.name, "skipped: %s", f.unknown)}
	}
	s := f.network.Status
	found := findings.New("STRAIT-C004", findings.OK, f.name, "pods %v (from %s), Services %v (from %s)", s.PodCIDRs, s.Sources.PodCIDRs, s.ServiceCIDRs, s.Sources.ServiceCIDRs)
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionDetected); c.Status != metav1.ConditionTrue {
		unknown := findings.New("STRAIT-C004", findings.Error, f.name, "%s", c.Message)
		unknown.Remedy = f.declareCIDRs()
		return []findings.Finding{
			unknown,
			findings.New("STRAIT-C005", findings.Skipped, f.name, "skipped because the CIDRs of pods and Services are not known"),
		}
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue {
		return []findings.Finding{found, findings.New("STRAIT-C005", findings.Error, f.name, "%s", c.Message)}
	}
	if external := prefixes(f.network.Spec.ExternalCIDRs); len(external) > 0 && !shareFamily(external, prefixes(s.PodCIDRs)) {
		unreached := findings.New("STRAIT-C005", findings.Warning, f.name,
			"external %v has no IP family in common with pods %v: nodes, gateways and mapped hosts have no address in other clusters, and nodes cannot reach them", external, s.PodCIDRs)
		unreached.Remedy = "Add a free CIDR of the IP family of pods to the chart's value clusterNetwork.externalCIDRs."
		return []findings.Finding{found, unreached}
	}
	return []findings.Finding{found, findings.New("STRAIT-C005", findings.OK, f.name,
		"internal %v and external %v are free; overlapping remote CIDRs are mapped to %v", f.network.Spec.InternalCIDRs, f.network.Spec.ExternalCIDRs, f.network.Spec.RemapPools)}
}

// shareFamily reports whether a prefix of a has the IP family of one of b.
func shareFamily(a, b []netip.Prefix) bool {
	return slices.ContainsFunc(a, func(one netip.Prefix) bool {
		return slices.ContainsFunc(b, func(other netip.Prefix) bool { return one.Addr().Is4() == other.Addr().Is4() })
	})
}

const enforce = "pod-security.kubernetes.io/enforce"

// levels are the Pod Security levels, the strictest last.
var levels = []string{"privileged", "baseline", "restricted"}

// namespaceFindings checks existing namespaces that the chart uses.
func (f *facts) namespaceFindings() (all []findings.Finding) {
	for _, name := range slices.Sorted(maps.Keys(f.namespaces)) {
		is, subject := f.namespaces[name].Labels[enforce], fmt.Sprintf("%s, namespace %s", f.name, name)
		needs := chartNamespaces[name]
		switch {
		case name == install.NodeNamespace && f.withoutHelpers: // the chart does not use it
		case slices.Index(levels, is) > slices.Index(levels, needs):
			all = append(all, findings.New("STRAIT-C009", findings.Error, subject, "it enforces %s, but the node helper needs %s for the host network; with node.enabled=false, which needs no such namespace, %s", is, needs, lostWithoutHelpers))
		case is != "" && !slices.Contains(levels, is):
			all = append(all, findings.New("STRAIT-C009", findings.Warning, subject, "it enforces %q, which is not a Pod Security level", is))
		default:
			all = append(all, findings.New("STRAIT-C009", findings.OK, subject, "it admits Strait's pods"))
		}
	}
	if len(all) == 0 {
		all = append(all, findings.New("STRAIT-C009", findings.OK, f.name, "the namespaces do not exist yet: the chart creates them"))
	}
	return all
}

func (f *facts) installationFindings() []findings.Finding {
	switch {
	case f.image != "":
		return single("STRAIT-C010", findings.Info, f.name, "Strait is installed, from image %s", f.image)
	case f.installed != nil:
		return single("STRAIT-C010", findings.Warning, f.name, "a ClusterNetwork of an earlier installation exists: its spec applies to the next installation")
	}
	return single("STRAIT-C010", findings.OK, f.name, "Strait is not installed")
}

func (f *facts) loadBalancerFindings() []findings.Finding {
	for _, s := range f.services {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) == 0 {
			continue
		}
		if slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Protocol == corev1.ProtocolUDP }) {
			return single("STRAIT-C011", findings.OK, f.name, "Service %s/%s has a load balancer for UDP", s.Namespace, s.Name)
		}
	}
	needs := ""
	if f.hasProvider("aws") {
		needs = ", which needs the AWS Load Balancer Controller or EKS Auto Mode"
	}
	return single("STRAIT-C011", findings.Info, f.name, "no Service has a load balancer for UDP, so it is not known whether gateways would get one%s; NodePort works", needs)
}

func single(code string, severity findings.Severity, subject, format string, values ...any) []findings.Finding {
	return []findings.Finding{findings.New(code, severity, subject, format, values...)}
}
