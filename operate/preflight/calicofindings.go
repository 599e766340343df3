package preflight

import (
	"cmp"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"strait.dev/strait/node"
	"strait.dev/strait/operate/findings"
)

// felixConfiguration is the part of Calico's FelixConfiguration that Strait depends on.
type felixConfiguration struct {
	BPFEnabled                  bool   `json:"bpfEnabled"`
	DefaultEndpointToHostAction string `json:"defaultEndpointToHostAction"`
}

// policiesOnly reports whether Calico enforces policies next to another network plugin.
func policiesOnly(f *facts) bool {
	set := daemonSetOf(f, calico)
	return set != nil && setting(set, "CALICO_NETWORKING_BACKEND") == "none"
}

// calicoFindings returns the findings about Calico's settings. Variables of the DaemonSet
// take precedence over the FelixConfiguration.
func calicoFindings(f *facts, set *appsv1.DaemonSet) (all []findings.Finding) {
	if bpf := setting(set, "FELIX_BPFENABLED"); bpf == "true" || bpf == "" && f.felix != nil && f.felix.BPFEnabled {
		found := findings.New("STRAIT-C008", findings.Warning, f.name,
			"Calico's eBPF data plane is enabled: it is not known whether packets of remote clusters reach pods, because Calico may drop packets from links that it does not manage")
		found.Remedy = "Use Calico's data plane Iptables or Nftables (spec.calicoNetwork.linuxDataplane of Installation default), or run strait verify after joining the clusters."
		all = append(all, found)
	}
	action := setting(set, "FELIX_DEFAULTENDPOINTTOHOSTACTION")
	if action == "" && f.felix != nil {
		action = cmp.Or(f.felix.DefaultEndpointToHostAction, "Drop") // the default of Felix
	}
	if strings.EqualFold(action, "Drop") {
		all = append(all, findings.New("STRAIT-C016", findings.Warning, f.name,
			"Calico drops packets from pods to their own node (defaultEndpointToHostAction is Drop): gateways do not reach the node that they run on"))
	}
	method := setting(set, "IP_AUTODETECTION_METHOD")
	if why := f.takesOurLinks(method); why != "" {
		found := findings.New("STRAIT-C008", findings.Warning, f.name,
			"Calico may take the address of a Strait link for that of the node (IP_AUTODETECTION_METHOD=%s %s), and then other nodes do not reach its pods", method, why)
		found.Remedy = "Set IP_AUTODETECTION_METHOD=kubernetes-internal-ip on DaemonSet " + set.Name + " (with Calico's operator: nodeAddressAutodetectionV4: {kubernetes: NodeInternalIP})."
		all = append(all, found)
	}
	return all
}

// takesOurLinks says why Calico's detection of the node's address matches Strait's links, or
// "". The default, first-found, skips links whose names begin with cni; other methods
// do not.
func (f *facts) takesOurLinks(method string) string {
	kind, value, _ := strings.Cut(method, "=")
	for part := range strings.SplitSeq(value, ",") {
		switch kind {
		case "interface":
			if match, err := regexp.MatchString(part, node.LinkPrefix+"0"); err == nil && match {
				return "matches " + node.LinkPrefix + "*"
			}
		case "cidr":
			if f.network == nil {
				continue
			}
			if taken := overlapping(part, f.network.Spec.InternalCIDRs); len(taken) > 0 {
				return "overlaps Strait's internal CIDR " + taken[0]
			}
		}
	}
	return ""
}
