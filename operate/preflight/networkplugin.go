package preflight

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/node"
	"strait.dev/strait/operate/findings"
)

type plugin struct {
	name    string
	sets    []string                  // names of DaemonSets; any of them identifies the plugin
	is      func(n *corev1.Node) bool // identifies the plugin by a node instead; nil: by no node
	note    string                    // notes on its use with Strait
	subnets bool                      // pods have addresses of subnets of the provider's network
}

const masquerades = "; Strait's rules take precedence for packets to remote clusters"

// Names of plugins with findings of their own.
const (
	calico      = "Calico"
	cilium      = "Cilium"
	dataplaneV2 = "GKE Dataplane V2"
	ovn         = "OVN-Kubernetes"
	awsCNI      = "AWS VPC CNI"
	flannel     = "Flannel"
	canal       = "canal (Flannel, with Calico for policies)"
)

const computeType = "eks.amazonaws.com/compute-type"

// flannelBackend is the annotation of a node with the backend of Flannel.
const flannelBackend = "flannel.alpha.coreos.com/backend-type"

func onFargate(n *corev1.Node) bool { return n.Labels[computeType] == "fargate" }

// plugins are in the order of detection: those that run together with another one come
// first.
var plugins = []plugin{
	{name: ovn, sets: []string{"ovnkube-node"}},
	{name: dataplaneV2, sets: []string{"anetd"}, note: "it is based on Cilium"},
	{name: cilium, sets: []string{"cilium"}},
	{name: canal, sets: []string{"canal", "rke2-canal"}, note: "it masquerades packets that leave the pod CIDR" + masquerades},
	{name: calico, sets: []string{"calico-node"}, note: "it masquerades packets that leave its IP pools" + masquerades},
	{name: "Antrea", sets: []string{"antrea-agent"}, note: "packets of pods to other clusters pass the node's routing through antrea-gw0"},
	{name: "Azure CNI", sets: []string{"azure-cns"}, subnets: true, note: "it masquerades packets that leave the virtual network" + masquerades},
	{name: "Azure CNI or kubenet", sets: []string{"azure-ip-masq-agent", "azure-ip-masq-agent-v2"}, subnets: true, note: "it masquerades packets that leave the virtual network" + masquerades},
	{name: awsCNI, sets: []string{"aws-node"}, is: onFargate, subnets: true,
		note: "security groups of nodes have to allow UDP 6091 and 6092"},
	{name: "kindnet", sets: []string{"kindnet"}, note: "it masquerades packets that leave the pod CIDRs" + masquerades},
	{name: "kube-router", sets: []string{"kube-router"}},
	// k3s and others run Flannel within another program, without a DaemonSet.
	{name: flannel, sets: []string{"kube-flannel-ds", "kube-flannel"}, is: func(n *corev1.Node) bool { return n.Annotations[flannelBackend] != "" },
		note: "it masquerades packets that leave the pod CIDR" + masquerades},
	{name: "VPC CNI of EKS Auto Mode", is: func(n *corev1.Node) bool { return n.Labels[computeType] == "auto" }, subnets: true,
		note: "security groups of nodes have to allow UDP 6091 and 6092; settings of the AWS VPC CNI do not apply"},
	{name: "GKE VPC-native networking", is: func(n *corev1.Node) bool { return n.Labels["cloud.google.com/gke-nodepool"] != "" },
		note: "it masquerades packets to public addresses, and others as ip-masq-agent is configured" + masquerades},
}

// pluginOf returns the network plugin of a cluster, nil if none is detected.
func pluginOf(f *facts) *plugin {
	for i := range plugins {
		if p := &plugins[i]; p.name != calico || !policiesOnly(f) {
			if p.set(f) != nil || p.is != nil && slices.ContainsFunc(f.nodes, func(n corev1.Node) bool { return p.is(&n) }) {
				return p
			}
		}
	}
	return nil
}

// set returns the DaemonSet of a plugin, nil if it has none that runs on a node.
func (p *plugin) set(f *facts) *appsv1.DaemonSet {
	for i := range f.daemonSets {
		s := &f.daemonSets[i]
		unused := s.Status.ObservedGeneration > 0 && s.Status.DesiredNumberScheduled == 0 // as Cilium leaves aws-node
		if slices.Contains(p.sets, s.Name) && !unused {
			return s
		}
	}
	return nil
}

// daemonSetOf returns the DaemonSet of a plugin by its name, nil if it does not run. Another
// plugin may run next to it.
func daemonSetOf(f *facts, name string) *appsv1.DaemonSet {
	return plugins[slices.IndexFunc(plugins, func(p plugin) bool { return p.name == name })].set(f)
}

// pluginFindings returns the findings about the network plugin, with notes on it.
func pluginFindings(f *facts) (all []findings.Finding) {
	p := pluginOf(f)
	if p == nil {
		return single("STRAIT-C006", findings.Info, f.name, "the network plugin is not recognized; Strait works with most plugins without configuration")
	}
	note, helpers := "", f.inspects()
	if p.note != "" && helpers { // about packets of pods between nodes and gateways
		note = ": " + p.note
	}
	all = append(all, findings.New("STRAIT-C006", findings.Info, f.name, "the network plugin is %s%s", p.name, note))
	all = append(all, f.poolFindings(p)...)
	if !helpers {
		return all
	}
	switch p.name {
	case cilium, dataplaneV2:
		all = append(all, ciliumFindings(f, p.name)...)
	case ovn:
		all = append(all, ovnFindings(f)...)
	case flannel, canal:
		all = append(all, flannelFindings(f)...)
	}
	if set := daemonSetOf(f, calico); set != nil {
		all = append(all, calicoFindings(f, set)...)
	}
	if set := daemonSetOf(f, awsCNI); set != nil {
		all = append(all, awsFindings(f, set)...)
	}
	return all
}

// flannelFindings checks whether pods have a larger MTU than the path between nodes: Flannel
// subtracts the headers of VXLAN over IPv4 also where nodes are connected by IPv6.
func flannelFindings(f *facts) []findings.Finding {
	if f.network == nil || f.network.Spec.Overlay.MTU != 0 || !slices.ContainsFunc(f.nodes, func(n corev1.Node) bool {
		return n.Annotations[flannelBackend] == "vxlan" && strings.Contains(firstInternalIP(&n), ":")
	}) {
		return nil
	}
	found := findings.New("STRAIT-N006", findings.Warning, f.name,
		"Flannel gives pods the MTU of VXLAN over IPv4, and nodes are connected by IPv6, where VXLAN has 20 more bytes of headers: the largest packets from other clusters are lost")
	found.Remedy = "Set the chart's value clusterNetwork.overlay.mtu in both clusters to the MTU of the nodes' links minus 150, the headers of VXLAN and WireGuard over IPv6: 1350 if that is 1500."
	return []findings.Finding{found}
}

// firstInternalIP returns the address of a node whose IP family its pods prefer.
func firstInternalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// awsFindings checks whether security groups for pods bypass Strait's routing rule.
func awsFindings(f *facts, set *appsv1.DaemonSet) []findings.Finding {
	if setting(set, "ENABLE_POD_ENI") != "true" || setting(set, "POD_SECURITY_GROUP_ENFORCING_MODE") == "standard" {
		return nil
	}
	found := findings.New("STRAIT-C008", findings.Warning, f.name,
		"security groups for pods in strict mode add routing rules of priority 10 and 20, before Strait's %d: pods with such a group do not reach remote clusters", node.RulePriority)
	found.Remedy = "Set POD_SECURITY_GROUP_ENFORCING_MODE=standard on DaemonSet " + set.Name + ", and restart the pods that have a security group."
	return []findings.Finding{found}
}

// ovnFindings checks whether OVN-Kubernetes sends packets of pods through the node's kernel.
func ovnFindings(f *facts) []findings.Finding {
	const code = "STRAIT-C008"
	local := setting(daemonSetOf(f, ovn), "OVN_GATEWAY_MODE") == "local"
	switch g := f.gatewayConfig; {
	case g == nil && local, g != nil && g.RoutingViaHost && g.IPForwarding == "Global":
		return single(code, findings.OK, f.name, kernelRoutes)
	case g == nil:
		return single(code, findings.Warning, f.name, "OVN-Kubernetes bypasses the routing of the node's kernel for packets of pods, unless its gateway mode is local")
	case g.RoutingViaHost:
		found := findings.New(code, findings.Warning, f.name, "nodes forward only packets of OVN-Kubernetes (ipForwarding is %q): packets of remote clusters do not reach pods", g.IPForwarding)
		found.Remedy = forwardOnOpenShift
		return []findings.Finding{found}
	}
	found := findings.New(code, findings.Error, f.name, "OVN-Kubernetes bypasses the routing of the node's kernel for packets of pods (routingViaHost is false): pods do not reach remote clusters")
	found.Remedy = "Set routingViaHost: true and ipForwarding: Global in spec.defaultNetwork.ovnKubernetesConfig.gatewayConfig of network.operator cluster, or install with the chart's value node.enabled=false."
	return []findings.Finding{found}
}

const forwardOnOpenShift = "Set spec.defaultNetwork.ovnKubernetesConfig.gatewayConfig.ipForwarding: Global in network.operator cluster."

// elsewhere is a setting whose value another object has.
const elsewhere = "(elsewhere)"

// setting returns an environment variable of the containers of a DaemonSet, "" if it is not
// set, or elsewhere. Names are compared without case, as Calico does.
func setting(set *appsv1.DaemonSet, name string) string {
	for _, c := range set.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			switch {
			case !strings.EqualFold(e.Name, name):
			case e.ValueFrom != nil:
				return elsewhere
			default:
				return e.Value
			}
		}
	}
	return ""
}
