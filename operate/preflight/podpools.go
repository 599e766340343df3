package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/operate/findings"
)

// podPools returns the CIDRs from which a plugin assigns addresses of pods by its own
// configuration, which no object of Kubernetes shows, and the name of that configuration.
func (f *facts) podPools(p *plugin) (cidrs []string, from string) {
	switch {
	case p == nil:
	case (p.name == cilium || p.name == dataplaneV2) && f.settings["cilium-config"]["ipam"] == "cluster-pool":
		settings := f.settings["cilium-config"]
		return strings.Fields(strings.ReplaceAll(settings["cluster-pool-ipv4-cidr"]+" "+settings["cluster-pool-ipv6-cidr"], ",", " ")), "ipam cluster-pool"
	case p.name == calico:
		return f.ipPools, "IPPools"
	case p.name == ovn && f.openShift != nil:
		return f.openShift.pods(), "clusterNetwork of network.config cluster"
	}
	return nil, ""
}

// poolFindings checks Strait's own pools against the CIDRs that a plugin assigns addresses of
// pods from.
func (f *facts) poolFindings(p *plugin) (all []findings.Finding) {
	if f.network == nil {
		return nil
	}
	pools, from := f.podPools(p)
	for _, text := range pools {
		taken := overlapping(text, slices.Concat(f.network.Spec.InternalCIDRs, f.network.Spec.ExternalCIDRs, f.network.Spec.RemapPools))
		if len(taken) > 0 && !slices.Contains(f.network.Status.PodCIDRs, v1alpha1.CIDR(text)) {
			all = append(all, findings.New("STRAIT-C005", findings.Warning, f.name,
				"%s assigns addresses of pods from %s (%s), which overlaps Strait's pools %s; declare clusterNetwork.podCIDRs=[%s] and choose pools outside of it", p.name, text, from, strings.Join(taken, ", "), text))
		}
	}
	return all
}

// overlapping returns those of several CIDRs that overlap another.
func overlapping(text string, all []v1alpha1.CIDR) (some []string) {
	with, err := netip.ParsePrefix(text)
	if err != nil {
		return nil // the network plugin itself rejects it
	}
	for _, one := range all {
		if p, err := netip.ParsePrefix(string(one)); err == nil && p.Overlaps(with) {
			some = append(some, string(one))
		}
	}
	return some
}

// declareCIDRs returns the remedy for CIDRs that are not detected: what to declare, and for
// pods the values where the network plugin has them.
func (f *facts) declareCIDRs() string {
	var values []string
	if len(f.network.Status.PodCIDRs) == 0 {
		p := pluginOf(f)
		pools, from := f.podPools(p)
		ipam := f.settings["cilium-config"]["ipam"]
		switch {
		case len(pools) > 0:
			values = append(values, fmt.Sprintf("clusterNetwork.podCIDRs=[%s] (%s of %s)", strings.Join(pools, ", "), from, p.name))
		case p != nil && p.subnets, ipam == "eni", ipam == "delegated-plugin":
			values = append(values, "clusterNetwork.podCIDRs to the CIDRs of the subnets that pods have addresses from")
		default:
			values = append(values, "clusterNetwork.podCIDRs to the CIDRs of pods in the configuration of the network plugin")
		}
	}
	if len(f.network.Status.ServiceCIDRs) == 0 {
		value := "clusterNetwork.serviceCIDRs to the CIDR that the control plane was created with"
		if f.openShift != nil && len(f.openShift.ServiceNetwork) > 0 {
			value = fmt.Sprintf("clusterNetwork.serviceCIDRs=[%s] (serviceNetwork of network.config cluster)", strings.Join(f.openShift.ServiceNetwork, ", "))
		}
		values = append(values, value)
	}
	return "Set " + strings.Join(values, ", and ") + ", in the chart's values."
}
