package preflight

import (
	"strings"

	"strait.dev/strait/k8s/findings"
)

// plugin is a network plugin that can be recognized.
type plugin struct {
	name string
	sets []string // names of DaemonSets, of which one is there
	note string   // what is known of it beside Strait, for people
}

// plugins are in the order in which they are looked for: those that run beside another one
// come first.
var plugins = []plugin{
	{"OVN-Kubernetes", []string{"ovnkube-node"}, "packets of pods pass the node's routing only with routingViaHost"},
	{"GKE Dataplane V2", []string{"anetd"}, "it is Cilium of Google's make"},
	{"Cilium", []string{"cilium"}, ""},
	{"Calico", []string{"calico-node"}, "it masquerades what leaves its pools; Strait settles sources of its packets before it"},
	{"Antrea", []string{"antrea-agent"}, "packets of pods to other clusters pass the node's routing, by antrea-gw0"},
	{"Azure CNI", []string{"azure-cns", "azure-ip-masq-agent", "azure-ip-masq-agent-v2"}, "it masquerades what leaves the virtual network; Strait settles sources of its packets before it"},
	{"AWS VPC CNI", []string{"aws-node"}, "its rules begin at priority 512, behind Strait's; security groups of nodes have to let UDP 6091 and 6092 pass"},
	{"kindnet", []string{"kindnet"}, "it masquerades what leaves the pods' ranges; Strait settles sources of its packets before it"},
	{"kube-router", []string{"kube-router"}, ""},
	{"Flannel", []string{"kube-flannel-ds", "kube-flannel"}, "it masquerades what leaves the pods' range; Strait settles sources of its packets before it"},
}

// pluginOf is the network plugin of a cluster, nil if none is recognized.
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

// pluginFindings are the findings about the network plugin, and what is known of it.
func pluginFindings(f *facts) (all []findings.Finding) {
	p := pluginOf(f)
	if p == nil {
		return []findings.Finding{findings.New("STRAIT-C006", findings.Info, f.name, "the network plugin is none that is known here; with most, Strait works as it is")}
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
		all = append(all, findings.New("STRAIT-C008", findings.Warning, f.name, "OVN-Kubernetes sends packets of pods past the routing of the node's kernel, unless routingViaHost is true"))
	}
	return all
}

// ciliumFindings are the findings about Cilium's settings.
func ciliumFindings(f *facts, name string) (all []findings.Finding) {
	settings, known := f.settings["cilium-config"]
	if !strings.Contains(settings["policy-cidr-match-mode"], "nodes") {
		all = append(all, findings.New("STRAIT-C007", findings.Warning, f.name,
			"%s's policies do not match nodes by their addresses (policy-cidr-match-mode is %q): the policy of the gateways would keep frames of nodes out", name, settings["policy-cidr-match-mode"]))
	}
	if !known { // also where they may not be read
		return append(all, findings.New("STRAIT-C008", findings.Skipped, f.name, "the settings of %s cannot be read", name))
	}
	if settings["enable-bpf-masquerade"] == "true" && settings["enable-host-legacy-routing"] != "true" {
		return append(all, findings.New("STRAIT-C008", findings.Warning, f.name,
			"with enable-bpf-masquerade Cilium may route in eBPF, past the node's netfilter: replies may get the node's address; set bpf.hostLegacyRouting=true"))
	}
	return append(all, findings.New("STRAIT-C008", findings.OK, f.name, "packets pass the routing of the nodes' kernels"))
}
