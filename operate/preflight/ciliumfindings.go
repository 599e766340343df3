package preflight

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/node"
	"strait.dev/strait/operate/findings"
)

const kernelRoutes = "packets of pods pass the routing of the nodes' kernels"

// ciliumFindings returns the findings about the settings of Cilium, or of a plugin that is
// based on it.
func ciliumFindings(f *facts, name string) (all []findings.Finding) {
	settings, known := f.settings["cilium-config"]
	switch {
	case strings.Contains(settings["policy-cidr-match-mode"], "nodes"):
	case f.cilium:
		all = append(all, findings.New("STRAIT-C007", findings.OK, f.name,
			"the policies of %s do not match nodes by address; the CiliumNetworkPolicy of the gateways allows overlay packets of nodes", name))
	default:
		all = append(all, findings.New("STRAIT-C007", findings.Warning, f.name,
			"the policies of %s do not match nodes by address (policy-cidr-match-mode is %q): the NetworkPolicy of the gateways would drop overlay packets of nodes", name, settings["policy-cidr-match-mode"]))
	}
	if device := ciliumTakes(settings["devices"]); device != "" {
		found := findings.New("STRAIT-C008", findings.Warning, f.name,
			"devices of %s includes %q, which matches Strait's links: it would rewrite sources of pods on them and lower the MTU of all pods", name, device)
		found.Remedy = "Name only the nodes' own interfaces in devices, for instance eth+, or leave devices empty."
		all = append(all, found)
	}
	switch {
	case name == dataplaneV2:
		found := findings.New("STRAIT-C008", findings.Warning, f.name, "Google does not document whether packets of pods pass the routing of the nodes' kernels with %s: Strait was not tried with it", name)
		found.Remedy = "Run strait verify after joining the clusters; if it fails, install with the chart's value node.enabled=false."
		all = append(all, found)
	case !known: // even if they may not be read
		all = append(all, findings.New("STRAIT-C008", findings.Skipped, f.name, "the settings of %s cannot be read", name))
	case routesInEBPF(settings):
		found := findings.New("STRAIT-C008", findings.Warning, f.name,
			"%s routes in eBPF (kube-proxy-replacement=%s, enable-host-legacy-routing=%q, no masquerading by iptables): packets of pods bypass the node's netfilter, and replies get the node's address",
			name, settings["kube-proxy-replacement"], settings["enable-host-legacy-routing"])
		found.Remedy = "Set Cilium's value bpf.hostLegacyRouting=true."
		if onAKS(f) {
			found.Remedy = "Disable eBPF host routing with az aks update --enable-acns --acns-datapath-acceleration-mode None, or install with the chart's value node.enabled=false."
		}
		all = append(all, found)
	default:
		all = append(all, findings.New("STRAIT-C008", findings.OK, f.name, kernelRoutes))
	}
	return all
}

// routesInEBPF reports whether Cilium routes packets of pods in eBPF. It falls back to the
// kernel if it does not replace kube-proxy, masquerades with iptables, or uses IPsec.
func routesInEBPF(settings map[string]string) bool {
	iptables := settings["enable-bpf-masquerade"] != "true" &&
		(settings["enable-ipv4"] != "false" && settings["enable-ipv4-masquerade"] != "false" ||
			settings["enable-ipv6"] == "true" && settings["enable-ipv6-masquerade"] != "false")
	return slices.Contains([]string{"true", "strict"}, settings["kube-proxy-replacement"]) &&
		settings["enable-host-legacy-routing"] != "true" && settings["enable-ipsec"] != "true" && !iptables
}

// onAKS reports whether AKS manages the nodes, and so the settings of their network plugin.
func onAKS(f *facts) bool {
	return slices.ContainsFunc(f.nodes, func(n corev1.Node) bool { return n.Labels["kubernetes.azure.com/cluster"] != "" })
}

// ciliumTakes returns the entry of Cilium's list of devices that matches Strait's links, or
// "". An entry that ends with + matches all devices with that prefix.
func ciliumTakes(devices string) string {
	for _, entry := range strings.FieldsFunc(devices, func(r rune) bool { return r == ',' || r == ' ' }) {
		if prefix, ok := strings.CutSuffix(entry, "+"); ok && (strings.HasPrefix(node.LinkPrefix, prefix) || strings.HasPrefix(prefix, node.LinkPrefix)) {
			return entry
		}
	}
	return ""
}
