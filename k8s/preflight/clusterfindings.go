package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/findings"
)

// minKubernetes is the first version of Kubernetes that knows what the CRDs' rules are written
// in; the chart says the same.
var minKubernetes = version.MustParseGeneric("1.31.0")

// clusterFindings are the findings about a cluster as a whole.
func clusterFindings(f *facts) (all []findings.Finding) {
	all = append(all, f.versionFinding())
	all = append(all, f.rangeFindings()...)
	for _, one := range []struct {
		code  string
		about topic // without which nothing can be said
		of    func(*facts) []findings.Finding
	}{
		{"STRAIT-C003", aboutNodes, (*facts).systemFindings},
		{"STRAIT-C006", aboutDaemonSets, pluginFindings},
		{"STRAIT-C009", aboutNamespaces, (*facts).namespaceFindings},
		{"STRAIT-C010", aboutStrait, (*facts).installationFindings},
		{"STRAIT-C011", aboutServices, (*facts).loadBalancerFindings},
	} {
		if err := f.denied[one.about]; err != nil {
			all = append(all, findings.New(one.code, findings.Skipped, f.name, "%s cannot be read: %v", one.about, err))
		} else {
			all = append(all, one.of(f)...)
		}
	}
	if len(f.leftover) > 0 {
		all = append(all, findings.New("STRAIT-C013", findings.Warning, f.name, "namespaces %s are of a command that was killed, or that still runs", strings.Join(f.leftover, ", ")))
	}
	if len(f.denied) == 0 {
		all = append(all, findings.New("STRAIT-C001", findings.OK, f.name, "everything that matters can be read"))
	}
	return all
}

func (f *facts) versionFinding() findings.Finding {
	is, err := version.ParseGeneric(f.version)
	switch {
	case err != nil:
		return findings.New("STRAIT-C002", findings.Warning, f.name, "the API server says that its version is %q, which is none", f.version)
	case is.LessThan(minKubernetes):
		return findings.New("STRAIT-C002", findings.Error, f.name, "the API server is %s; Strait's kinds have rules that it knows since %s", f.version, minKubernetes)
	}
	return findings.New("STRAIT-C002", findings.OK, f.name, "%s", f.version)
}

// systemFindings is about where gateways and helpers can run.
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
		return single(code, findings.Warning, f.name, "no node is known")
	case can == 0:
		return single(code, findings.Error, f.name, "no node is Linux of amd64 or arm64: there is %s", counted(cannot))
	case len(cannot) > 0:
		return single(code, findings.Warning, f.name, "Strait works on %d of %d nodes; the others are %s", can, len(f.nodes), counted(cannot))
	}
	return single(code, findings.OK, f.name, "%d nodes, all Linux of amd64 or arm64", can)
}

func counted(n map[string]int) string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(n)) {
		all = append(all, fmt.Sprintf("%d %s", n[what], what))
	}
	return strings.Join(all, ", ")
}

// rangeFindings are about what the controller would find.
func (f *facts) rangeFindings() []findings.Finding {
	if f.network == nil {
		return []findings.Finding{findings.New("STRAIT-C004", findings.Skipped, f.name, "not looked at: %s", f.unknown)}
	}
	s := f.network.Status
	found := findings.New("STRAIT-C004", findings.OK, f.name, "pods %v (of %s), Services %v (of %s)", s.PodCIDRs, s.Sources.PodCIDRs, s.ServiceCIDRs, s.Sources.ServiceCIDRs)
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionDetected); c.Status != metav1.ConditionTrue {
		return []findings.Finding{
			findings.New("STRAIT-C004", findings.Error, f.name, "%s", c.Message),
			findings.New("STRAIT-C005", findings.Skipped, f.name, "not known before the ranges of pods and Services are"),
		}
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue {
		return []findings.Finding{found, findings.New("STRAIT-C005", findings.Error, f.name, "%s", c.Message)}
	}
	return []findings.Finding{found, findings.New("STRAIT-C005", findings.OK, f.name,
		"internal %v and external %v are free; ranges that are taken are seen in %v", f.network.Spec.InternalCIDRs, f.network.Spec.ExternalCIDRs, f.network.Spec.RemapPools)}
}

const enforce = "pod-security.kubernetes.io/enforce"

// levels of Pod Security, the strictest last.
var levels = []string{"privileged", "baseline", "restricted"}

// namespaceFindings are about those that the chart uses and that are there already.
func (f *facts) namespaceFindings() (all []findings.Finding) {
	for _, name := range slices.Sorted(maps.Keys(f.namespaces)) {
		is, subject := f.namespaces[name].Labels[enforce], fmt.Sprintf("%s, namespace %s", f.name, name)
		needs := chartNamespaces[name]
		switch {
		case slices.Index(levels, is) > slices.Index(levels, needs):
			all = append(all, findings.New("STRAIT-C009", findings.Error, subject, "it enforces %s, and the node's helper needs %s for the network of its node", is, needs))
		case is != "" && !slices.Contains(levels, is):
			all = append(all, findings.New("STRAIT-C009", findings.Warning, subject, "it enforces %q, which is no level", is))
		default:
			all = append(all, findings.New("STRAIT-C009", findings.OK, subject, "it lets Strait's pods in"))
		}
	}
	if len(all) == 0 {
		all = append(all, findings.New("STRAIT-C009", findings.OK, f.name, "the namespaces are not there yet: the chart makes them"))
	}
	return all
}

func (f *facts) installationFindings() []findings.Finding {
	switch {
	case f.image != "":
		return single("STRAIT-C010", findings.Info, f.name, "Strait is installed, from image %s", f.image)
	case f.installed != nil:
		return single("STRAIT-C010", findings.Warning, f.name, "there is a ClusterNetwork of an earlier installation: what it says holds for the next one")
	}
	return single("STRAIT-C010", findings.OK, f.name, "Strait is not installed")
}

func (f *facts) loadBalancerFindings() []findings.Finding {
	for _, s := range f.services {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) == 0 {
			continue
		}
		if slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Protocol == corev1.ProtocolUDP }) {
			return single("STRAIT-C011", findings.OK, f.name, "Service %s/%s has one for UDP", s.Namespace, s.Name)
		}
	}
	return single("STRAIT-C011", findings.Info, f.name, "no Service has got a LoadBalancer for UDP so far, so that it is not known whether gateways would; NodePorts do")
}

// single is a single finding.
func single(code string, severity findings.Severity, subject, format string, values ...any) []findings.Finding {
	return []findings.Finding{findings.New(code, severity, subject, format, values...)}
}
