package preflight

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
)

// Environment describes what a cluster is made of and how it passes the checks, for the
// compatibility matrix. It contains no names and no addresses, so that it can be published.
type Environment struct {
	Strait         string                       `json:"strait"` // version of the command
	Kubernetes     string                       `json:"kubernetes"`
	NetworkPlugin  string                       `json:"networkPlugin"`
	Providers      map[string]int               `json:"providers"` // nodes by scheme of their providerID
	Systems        map[string]int               `json:"systems"`   // nodes by image of the operating system
	Kernels        map[string]int               `json:"kernels"`
	Runtimes       map[string]int               `json:"runtimes"`
	Architectures  map[string]int               `json:"architectures"`
	IPFamilies     []string                     `json:"ipFamilies"` // of pods
	PodCIDRsFrom   string                       `json:"podCIDRsFrom"`
	FindingsByCode map[string]findings.Severity `json:"findingsByCode"` // the worst of each code
}

// Describe describes a cluster with the findings of Run. version is that of the command.
func Describe(ctx context.Context, c operator.Cluster, version string, all []findings.Finding) (*Environment, error) {
	f, err := read(ctx, c)
	if err != nil {
		return nil, err
	}
	return f.describe(version, all), nil
}

func (f *facts) describe(version string, all []findings.Finding) *Environment {
	e := &Environment{
		Strait: version, Kubernetes: f.version, NetworkPlugin: "unknown", PodCIDRsFrom: "unknown",
		Providers: map[string]int{}, Systems: map[string]int{}, Kernels: map[string]int{}, Runtimes: map[string]int{}, Architectures: map[string]int{},
		FindingsByCode: map[string]findings.Severity{},
	}
	if p := pluginOf(f); p != nil {
		e.NetworkPlugin = p.name
	}
	for i := range f.nodes {
		n := &f.nodes[i]
		provider, _, found := strings.Cut(n.Spec.ProviderID, "://")
		if !found {
			provider = "none"
		}
		e.Providers[provider]++
		e.Systems[n.Status.NodeInfo.OSImage]++
		e.Kernels[n.Status.NodeInfo.KernelVersion]++
		e.Runtimes[n.Status.NodeInfo.ContainerRuntimeVersion]++
		e.Architectures[n.Status.NodeInfo.Architecture]++
	}
	families := map[string]bool{}
	if f.network != nil {
		e.PodCIDRsFrom = string(f.network.Status.Sources.PodCIDRs)
		for _, cidr := range f.network.Status.PodCIDRs {
			p, err := netip.ParsePrefix(string(cidr))
			switch {
			case err != nil:
			case p.Addr().Is4():
				families["IPv4"] = true
			default:
				families["IPv6"] = true
			}
		}
	}
	e.IPFamilies = slices.Sorted(maps.Keys(families))
	for i := len(all) - 1; i >= 0; i-- { // the worst first
		e.FindingsByCode[all[i].Code] = all[i].Severity
	}
	return e
}
