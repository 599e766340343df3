package preflight

import (
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/findings"
	"strait.dev/strait/node"
)

// plugin is a network plugin that can be detected.
type plugin struct {
	name string
	sets []string // names of DaemonSets; any of them identifies the plugin
	note string   // notes on its use with Strait
}

// plugins are in the order of detection: those that run together with another one come
// first.
var plugins = []plugin{
	{"OVN-Kubernetes", []string{"ovnkube-node"}, "packets of pods pass the node's routing only with routingViaHost=true"},
	{"GKE Dataplane V2", []string{"anetd"}, "it is based on Cilium"},
	{"Cilium", []string{"cilium"}, ""},
	{"Calico", []string{"calico-node"}, "it masquerades packets that leave its IP pools; Strait's rules take precedence for packets to remote clusters"},
	{"Antrea", []string{"antrea-agent"}, "packets of pods to other clusters pass the node's routing through antrea-gw0"},
	{"Azure CNI", []string{"azure-cns", "azure-ip-masq-agent", "azure-ip-masq-agent-v2"}, "it masquerades packets that leave the virtual network; Strait's rules take precedence for packets to remote clusters"},
	{"AWS VPC CNI", []string{"aws-node"}, "security groups of nodes have to allow UDP 6091 and 6092"},
	{"kindnet", []string{"kindnet"}, "it masquerades packets that leave the pod CIDRs; Strait's rules take precedence for packets to remote clusters"},
	{"kube-router", []string{"kube-router"}, ""},
	flannel,
}

var flannel = plugin{"Flannel", []string{"kube-flannel-ds", "kube-flannel"}, "it masquerades packets that leave the pod CIDR; Strait's rules take precedence for packets to remote clusters"}

// flannelBackend is Flannel's annotation of nodes. k3s and others run Flannel within
// another program, without a DaemonSet.
const flannelBackend = "flannel.alpha.coreos.com/backend-type"

// pluginOf returns the network plugin of a cluster and its DaemonSet, nil if none is
// detected. Flannel may have no DaemonSet.
func pluginOf(f *facts) (*plugin, *appsv1.DaemonSet) {
	for i := range plugins {
		for j := range f.daemonSets {
			if slices.Contains(plugins[i].sets, f.daemonSets[j].Name) {
				return &plugins[i], &f.daemonSets[j]
			}
		}
	}
	if slices.ContainsFunc(f.nodes, func(n corev1.Node) bool { return n.Annotations[flannelBackend] != "" }) {
		return &flannel, nil
	}
	return nil, nil
}

// pluginFindings returns the findings about the network plugin, with notes on it.
func pluginFindings(f *facts) (all []findings.Finding) {
	p, set := pluginOf(f)
	if p == nil {
		return []findings.Finding{findings.New("STRAIT-C006", findings.Info, f.name, "the network plugin is not recognized; Strait works with most plugins without configuration")}
	}
	note := ""
	if p.note != "" && !f.withoutHelpers { // about packets of pods between nodes and gateways
		note = ": " + p.note
	}
	all = append(all, findings.New("STRAIT-C006", findings.Info, f.name, "the network plugin is %s%s", p.name, note))
	if f.withoutHelpers {
		return all
	}
	switch p.name {
	case "Cilium", "GKE Dataplane V2":
		all = append(all, ciliumFindings(f, p.name)...)
	case "AWS VPC CNI":
		all = append(all, awsFindings(f, set)...)
	case "OVN-Kubernetes":
		all = append(all, findings.New("STRAIT-C008", findings.Warning, f.name, "OVN-Kubernetes bypasses the routing of the node's kernel for packets of pods, unless routingViaHost is true"))
	}
	return all
}

// ciliumFindings returns the findings about Cilium's settings.
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
	if !known { // also if they may not be read
		return append(all, findings.New("STRAIT-C008", findings.Skipped, f.name, "the settings of %s cannot be read", name))
	}
	if device := ciliumTakes(settings["devices"]); device != "" {
		all = append(all, findings.New("STRAIT-C008", findings.Warning, f.name,
			"devices of %s includes %q, which matches Strait's links: it would rewrite sources of pods on them and lower the MTU of all pods; name the nodes' own interfaces only", name, device))
	}
	if settings["ipam"] == "cluster-pool" {
		all = append(all, f.poolFindings(name, settings["cluster-pool-ipv4-cidr"], settings["cluster-pool-ipv6-cidr"])...)
	}
	if settings["enable-bpf-masquerade"] == "true" && settings["enable-host-legacy-routing"] != "true" {
		return append(all, findings.New("STRAIT-C008", findings.Warning, f.name,
			"with enable-bpf-masquerade, Cilium may route in eBPF and bypass the node's netfilter, so that replies get the node's address; set bpf.hostLegacyRouting=true"))
	}
	return append(all, findings.New("STRAIT-C008", findings.OK, f.name, "packets of pods pass the routing of the nodes' kernels"))
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

// poolFindings checks Strait's own pools against the CIDRs that Cilium assigns addresses of
// pods from, which no object of Kubernetes shows.
func (f *facts) poolFindings(name string, lists ...string) (all []findings.Finding) {
	if f.network == nil {
		return nil
	}
	for _, text := range strings.Fields(strings.ReplaceAll(strings.Join(lists, " "), ",", " ")) {
		assigned, err := netip.ParsePrefix(text)
		if err != nil {
			continue // Cilium itself rejects it
		}
		var taken []string
		for _, pool := range slices.Concat(f.network.Spec.InternalCIDRs, f.network.Spec.ExternalCIDRs, f.network.Spec.RemapPools) {
			if p, err := netip.ParsePrefix(string(pool)); err == nil && p.Overlaps(assigned) {
				taken = append(taken, string(pool))
			}
		}
		if len(taken) > 0 && !slices.Contains(f.network.Status.PodCIDRs, v1alpha1.CIDR(text)) {
			all = append(all, findings.New("STRAIT-C005", findings.Warning, f.name,
				"%s assigns addresses of pods from %s (ipam cluster-pool), which overlaps Strait's pools %s; declare clusterNetwork.podCIDRs=[%s] and choose pools outside of it", name, text, strings.Join(taken, ", "), text))
		}
	}
	return all
}

// awsFindings checks whether security groups for pods bypass Strait's routing rule.
func awsFindings(f *facts, set *appsv1.DaemonSet) []findings.Finding {
	if setting(set, "ENABLE_POD_ENI") != "true" || setting(set, "POD_SECURITY_GROUP_ENFORCING_MODE") == "standard" {
		return nil
	}
	return []findings.Finding{findings.New("STRAIT-C008", findings.Warning, f.name,
		"security groups for pods in strict mode add routing rules of priority 10 and 20, before Strait's %d: pods with such a group do not reach remote clusters; set POD_SECURITY_GROUP_ENFORCING_MODE=standard on DaemonSet %s", node.RulePriority, set.Name)}
}

// setting returns an environment variable of the containers of a DaemonSet, "" if it is not
// set.
func setting(set *appsv1.DaemonSet, name string) string {
	for _, c := range set.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			if e.Name == name {
				return e.Value
			}
		}
	}
	return ""
}
