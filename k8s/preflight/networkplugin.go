package preflight

import (
	"strings"

	"strait.dev/strait/k8s/findings"
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
	{"AWS VPC CNI", []string{"aws-node"}, "its policy rules start at priority 512, after Strait's; security groups of nodes have to allow UDP 6091 and 6092"},
	{"kindnet", []string{"kindnet"}, "it masquerades packets that leave the pod CIDRs; Strait's rules take precedence for packets to remote clusters"},
	{"kube-router", []string{"kube-router"}, ""},
	{"Flannel", []string{"kube-flannel-ds", "kube-flannel"}, "it masquerades packets that leave the pod CIDR; Strait's rules take precedence for packets to remote clusters"},
}

// pluginOf returns the network plugin of a cluster, nil if none is detected.
func pluginOf(f *facts) *plugin {
	for i := range plugins {
		for _, set := range f.daemonSets {
			for _, name := range plugins[i].sets {
				if set.Name == name {
					return &plugins[i]
				}
			}
		}
	}
	return nil
}

// pluginFindings returns the findings about the network plugin, with notes on it.
func pluginFindings(f *facts) (all []findings.Finding) {
	p := pluginOf(f)
	if p == nil {
		return []findings.Finding{findings.New("STRAIT-C006", findings.Info, f.name, "the network plugin is not recognized; Strait works with most plugins without configuration")}
	}
	note := ""
	if p.note != "" {
		note = ": " + p.note
	}
	all = append(all, findings.New("STRAIT-C006", findings.Info, f.name, "the network plugin is %s%s", p.name, note))
	switch p.name {
	case "Cilium", "GKE Dataplane V2":
		all = append(all, ciliumFindings(f, p.name)...)
	case "OVN-Kubernetes":
		all = append(all, findings.New("STRAIT-C008", findings.Warning, f.name, "OVN-Kubernetes bypasses the routing of the node's kernel for packets of pods, unless routingViaHost is true"))
	}
	return all
}

// ciliumFindings returns the findings about Cilium's settings.
func ciliumFindings(f *facts, name string) (all []findings.Finding) {
	settings, known := f.settings["cilium-config"]
	if !strings.Contains(settings["policy-cidr-match-mode"], "nodes") {
		all = append(all, findings.New("STRAIT-C007", findings.Warning, f.name,
			"the policies of %s do not match nodes by address (policy-cidr-match-mode is %q): the NetworkPolicy of the gateways would drop overlay packets of nodes", name, settings["policy-cidr-match-mode"]))
	}
	if !known { // also if they may not be read
		return append(all, findings.New("STRAIT-C008", findings.Skipped, f.name, "the settings of %s cannot be read", name))
	}
	if settings["enable-bpf-masquerade"] == "true" && settings["enable-host-legacy-routing"] != "true" {
		return append(all, findings.New("STRAIT-C008", findings.Warning, f.name,
			"with enable-bpf-masquerade, Cilium may route in eBPF and bypass the node's netfilter, so that replies get the node's address; set bpf.hostLegacyRouting=true"))
	}
	return append(all, findings.New("STRAIT-C008", findings.OK, f.name, "packets of pods pass the routing of the nodes' kernels"))
}
