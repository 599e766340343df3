package preflight

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/node"
	"strait.dev/strait/operate/findings"
)

// text formats findings in short, without successes.
func text(all []findings.Finding) string {
	var b strings.Builder
	for _, f := range all {
		if f.Severity != findings.OK {
			fmt.Fprintf(&b, "%s %s %s\n", f.Severity, f.Code, f.Message)
		}
	}
	return b.String()
}

// good is a node on which nothing is wrong.
func good() NodeReport {
	return NodeReport{Node: "n1", Is: node.Inspection{
		Kernel: "6.12", Geneve: true, VXLAN: true, TUN: true, IPv6: true, Out: node.Exit{Link: "eth0", MTU: 1500, Offloads: map[string]bool{"rx-gro": true}},
		Settings: map[string]int{"net.core.rmem_max": 4 << 20, "net.core.wmem_max": 4 << 20, "net.ipv4.ip_forward": 1, "net.ipv6.conf.all.forwarding": 1,
			"net.ipv4.fib_multipath_hash_policy": 0, "net.ipv6.fib_multipath_hash_policy": 1},
	}}
}

func TestWhatIsSaidOfANode(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*nodeContext, *NodeReport)
		want   string // part of the findings; empty: success
	}{
		{"nothing is wrong", func(*nodeContext, *NodeReport) {}, ""},
		{"it was not seen", func(_ *nodeContext, s *NodeReport) { s.Err = errors.New("exit code 1") }, "warning STRAIT-N011 exit code 1"},
		{"VXLAN alone", func(_ *nodeContext, s *NodeReport) { s.Is.Geneve = false }, ""},
		{"TAP devices alone", func(_ *nodeContext, s *NodeReport) { s.Is.Geneve, s.Is.VXLAN = false, false }, "warning STRAIT-N001 kernel 6.12 has neither Geneve nor VXLAN; the helper can"},
		{"a VPN in the remap pools", func(p *nodeContext, s *NodeReport) {
			p.used = append(p.used, netip.MustParsePrefix("10.100.0.0/16"))
			for text, to := range map[string]string{"route to 10.100.1.0/24 dev cni0 table 254": "10.100.1.0/24", "route to 10.70.0.0/16 dev wg0 table 254": "10.70.0.0/16", "route to 192.0.2.0/24 dev eth0 table 254": "192.0.2.0/24"} {
				s.Is.Destinations = append(s.Is.Destinations, node.Destination{Prefix: netip.MustParsePrefix(to), Text: text})
			}
		}, "warning STRAIT-N013 route to 10.70.0.0/16 dev wg0 table 254 overlaps the remap pool 10.64.0.0/10: the node will not"},
		{"pools that are not known", func(p *nodeContext, _ *NodeReport) { p.remap = nil }, "skipped STRAIT-N013 the remap pools are not known"},
		{"no tunnel at all", func(_ *nodeContext, s *NodeReport) {
			s.Is.Geneve, s.Is.VXLAN, s.Is.TUN, s.Is.Lacks = false, false, false, "no Geneve (not supported)"
		}, "error STRAIT-N001 kernel 6.12 has neither Geneve nor VXLAN nor TAP devices: no Geneve (not supported)"},
		{"no nftables", func(_ *nodeContext, s *NodeReport) { s.Is.Tables = "nftables: not supported" }, "error STRAIT-N002 nftables: not supported"},
		{"the port is another's", func(_ *nodeContext, s *NodeReport) {
			s.Is.Taken, s.Is.Strange = []node.Port{{Number: 6091, Why: "address already in use"}}, []string{"link liqo.0 (geneve) has UDP port 6091"}
		}, "error STRAIT-N003 UDP 6091, which Geneve or VXLAN needs, is in use: address already in use; link liqo.0 (geneve) has UDP port 6091"},
		{"the port of health is another's", func(_ *nodeContext, s *NodeReport) { s.Is.Taken = []node.Port{{Number: 6093, Why: "in use"}} }, "error STRAIT-N003 TCP 6093"},
		{"the port is Strait's", func(p *nodeContext, s *NodeReport) { p.installed, s.Is.Taken = true, []node.Port{{Number: 6091}} }, ""},
		{"no forwarding", func(_ *nodeContext, s *NodeReport) { s.Is.Settings["net.ipv4.ip_forward"] = 0 }, "error STRAIT-N004 net.ipv4.ip_forward is 0"},
		{"no forwarding of IPv4, which pods do not have", func(p *nodeContext, s *NodeReport) {
			*p = contextOf(&facts{name: "a", network: networkOf("fd10::/48")})
			s.Is.Settings["net.ipv4.ip_forward"] = 0
		}, ""},
		{"a node without IPv4, with a small MTU", func(_ *nodeContext, s *NodeReport) {
			s.Is.Out, s.Is.Out6 = node.Exit{}, node.Exit{Link: "eth0", MTU: 1300, Offloads: map[string]bool{"rx-gro": true}}
		}, "warning STRAIT-N006 link eth0 has MTU 1300"},
		{"a node without IPv4, with GRO off", func(_ *nodeContext, s *NodeReport) {
			s.Is.Out, s.Is.Out6 = node.Exit{}, node.Exit{Link: "eth0", MTU: 1500, Offloads: map[string]bool{"rx-gro": false}}
		}, "info STRAIT-N012 GRO (rx-gro) is disabled on link eth0"},
		{"no forwarding of IPv6, which pods have", func(p *nodeContext, s *NodeReport) { p.ipv6, s.Is.Settings["net.ipv6.conf.all.forwarding"] = true, 0 }, "error STRAIT-N004 net.ipv6"},
		{"no forwarding of IPv6, which pods do not have", func(_ *nodeContext, s *NodeReport) { s.Is.Settings["net.ipv6.conf.all.forwarding"] = 0 }, ""},
		{"no IPv6, which pods have", func(p *nodeContext, s *NodeReport) { p.ipv6, s.Is.IPv6 = true, false }, "error STRAIT-N004 pods have IPv6, but it is disabled on the node"},
		{"a hash of selected fields", func(_ *nodeContext, s *NodeReport) { s.Is.Settings["net.ipv4.fib_multipath_hash_policy"] = 3 }, "info STRAIT-N014 net.ipv4.fib_multipath_hash_policy is 3"},
		{"a hash policy that cannot be read", func(_ *nodeContext, s *NodeReport) { delete(s.Is.Settings, "net.ipv6.fib_multipath_hash_policy") }, "skipped STRAIT-N014 net.ipv6.fib_multipath_hash_policy cannot be read"},
		{"small buffers", func(_ *nodeContext, s *NodeReport) { s.Is.Settings["net.core.rmem_max"] = 212992 }, "warning STRAIT-N005 net.core.rmem_max is 212992: a gateway on this node requests 4194304 bytes"},
		{"buffers that cannot be read", func(_ *nodeContext, s *NodeReport) {
			delete(s.Is.Settings, "net.core.rmem_max")
			delete(s.Is.Settings, "net.core.wmem_max")
		}, ""},
		{"a small MTU", func(_ *nodeContext, s *NodeReport) { s.Is.Out.MTU = 1300 }, "warning STRAIT-N006 link eth0 has MTU 1300"},
		{"GRO off", func(_ *nodeContext, s *NodeReport) { s.Is.Out.Offloads["rx-gro"] = false }, "info STRAIT-N012 GRO (rx-gro) is disabled on link eth0"},
		{"a kernel that does not tell offloads", func(_ *nodeContext, s *NodeReport) { s.Is.Out.Offloads = nil }, "skipped STRAIT-N012"},
		{"another clock", func(_ *nodeContext, s *NodeReport) { s.skew = -time.Minute }, "warning STRAIT-N007 its clock differs by 1m0s"},
		{"the clock of the API server, which is not ours", func(p *nodeContext, s *NodeReport) { p.skew, s.skew = time.Hour, time.Hour }, ""},
		{"a slow answer", func(_ *nodeContext, s *NodeReport) { s.skew, s.uncertainty = 20*time.Second, 15*time.Second }, ""},
		{"another's rule", func(_ *nodeContext, s *NodeReport) {
			s.Is.Strange = []string{"a rule of priority 105 looks up table 200"}
		}, "error STRAIT-N008 a rule of priority 105"},
		{"remains", func(_ *nodeContext, s *NodeReport) {
			s.Is.Ours = node.Ours{Links: []string{"cni-strait1"}, Table: true}
		}, "warning STRAIT-N009 found cni-strait1, nftables table strait"},
		{"a rule that precedes Strait's", func(_ *nodeContext, s *NodeReport) { s.Is.Preceding = []string{"rule 10 iif vlan.eth.1 lookup 101"} },
			"warning STRAIT-N015 rule 10 iif vlan.eth.1 lookup 101: packets that match do not reach remote clusters, because Strait's rule of priority 105 comes later"},
		{"jumbo frames", func(_ *nodeContext, s *NodeReport) { s.Is.Out.MTU = 9001 }, "info STRAIT-N006 link eth0 has MTU 9001, which the Internet does not carry"},
		{"the network of Azure with a configured MTU", func(p *nodeContext, _ *NodeReport) { p.azure, p.overlayMTU = true, 1340 }, ""},
		{"the network of Azure", func(p *nodeContext, _ *NodeReport) { p.azure = true }, "info STRAIT-N006 link eth0 has MTU 1500, but Azure's network carries packets of up to 1400 bytes"},
		{"what is Strait's", func(p *nodeContext, s *NodeReport) {
			p.installed, s.Is.Ours = true, node.Ours{Links: []string{"cni-strait1"}}
		}, ""},
	} {
		p, s := nodeContext{name: "a", remap: prefixes([]v1alpha1.CIDR{"10.64.0.0/10"})}, good()
		c.change(&p, &s)
		got := text(nodeFindings(p, s))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%swant %q", c.name, got, c.want)
		}
	}
}

// networkOf is what a controller would find in a cluster.
func networkOf(pods string, conditions ...metav1.ConditionStatus) *v1alpha1.ClusterNetwork {
	n := &v1alpha1.ClusterNetwork{
		Spec: v1alpha1.ClusterNetworkSpec{InternalCIDRs: []v1alpha1.CIDR{"10.80.0.0/16"}, ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/16"}, RemapPools: []v1alpha1.CIDR{"10.64.0.0/10"}},
		Status: v1alpha1.ClusterNetworkStatus{
			PodCIDRs: []v1alpha1.CIDR{v1alpha1.CIDR(pods)}, ServiceCIDRs: []v1alpha1.CIDR{"10.96.0.0/16"}, NodeCIDRs: []v1alpha1.CIDR{"192.0.2.0/24"},
		},
	}
	for i, kind := range []string{v1alpha1.ConditionDetected, v1alpha1.ConditionReady} {
		status := metav1.ConditionTrue
		if i < len(conditions) {
			status = conditions[i]
		}
		n.Status.Conditions = append(n.Status.Conditions, metav1.Condition{Type: kind, Status: status, Message: kind + " is " + string(status)})
	}
	return n
}

func linux(name string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

// ordinary is a cluster in which nothing is wrong.
func ordinary() *facts {
	return &facts{
		name: "a", version: "v1.36.3", systemUID: "1", nodes: []corev1.Node{linux("n1")}, network: networkOf("10.0.0.0/16"),
		daemonSets: []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Name: "kindnet"}}},
		settings:   map[string]map[string]string{}, namespaces: map[string]*corev1.Namespace{},
		services: []corev1.Service{{
			Spec:   corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolUDP}}},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}},
		}},
	}
}

func TestWhatIsSaidOfACluster(t *testing.T) {
	plugin := func(name string) func(*facts) {
		return func(f *facts) { f.daemonSets[0].Name = name }
	}
	enforcing := func(name, level string) func(*facts) {
		return func(f *facts) {
			f.namespaces[name] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{enforce: level}}}
		}
	}
	aws := func(environment ...string) func(*facts) {
		return func(f *facts) {
			plugin("aws-node")(f)
			c := corev1.Container{Name: "aws-node"}
			for i := 0; i < len(environment); i += 2 {
				c.Env = append(c.Env, corev1.EnvVar{Name: environment[i], Value: environment[i+1]})
			}
			f.daemonSets[0].Spec.Template.Spec.Containers = []corev1.Container{c}
		}
	}
	pods := func(node, ip string) func(*facts) {
		return func(f *facts) {
			f.nodes[0].Spec.PodCIDRs = []string{"10.0.1.0/24"}
			f.pods = []corev1.Pod{
				{Spec: corev1.PodSpec{NodeName: node, HostNetwork: true}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "192.0.2.1"}}}},
				{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded, PodIPs: []corev1.PodIP{{IP: "10.0.9.9"}}}},
				{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: ip}}}},
			}
		}
	}
	flannelOver := func(addresses ...string) func(*facts) {
		return func(f *facts) {
			f.daemonSets = nil
			f.nodes[0].Annotations = map[string]string{flannelBackend: "vxlan"}
			for _, a := range addresses {
				f.nodes[0].Status.Addresses = append(f.nodes[0].Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
			}
		}
	}
	platform := func(providerID, label, value string) func(*facts) {
		return func(f *facts) {
			f.nodes[0].Spec.ProviderID = providerID
			f.nodes[0].Labels = map[string]string{label: value}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*facts)
		want   string // part of what is said; empty: no error and no warning
	}{
		{"nothing is wrong", func(*facts) {}, ""},
		{"an old version", func(f *facts) { f.version = "v1.30.4" }, "error STRAIT-C002 the API server is v1.30.4; the validation rules of Strait's CRDs need 1.31.0"},
		{"a version of a provider", func(f *facts) { f.version = "v1.31.5-gke.1169000" }, ""},
		{"a nonsense version", func(f *facts) { f.version = "?" }, "warning STRAIT-C002"},
		{"no nodes", func(f *facts) { f.nodes = nil }, "warning STRAIT-C003 the cluster has no nodes"},
		{"a Windows node", func(f *facts) {
			f.nodes = append(f.nodes, linux("w"))
			f.nodes[1].Status.NodeInfo.OperatingSystem = "windows"
		}, "warning STRAIT-C003 Strait works on 1 of 2 nodes; the others are 1 windows/amd64"},
		{"only another architecture", func(f *facts) { f.nodes[0].Status.NodeInfo.Architecture = "s390x" }, "error STRAIT-C003"},
		{"ranges that cannot be found", func(f *facts) { f.network = networkOf("10.0.0.0/16", "False") }, "error STRAIT-C004 Detected is False"},
		{"ranges that may not be read", func(f *facts) { f.network, f.unknown = nil, "forbidden" }, "skipped STRAIT-C004 skipped: forbidden"},
		{"a pool that is taken", func(f *facts) { f.network = networkOf("10.0.0.0/16", "True", "False") }, "error STRAIT-C005 Ready is False"},
		{"pods with IPv6 only and the default of externalCIDRs", func(f *facts) { f.network = networkOf("fd10::/48") },
			"warning STRAIT-C005 external [10.70.0.0/16] has no IP family in common with pods [fd10::/48]: nodes, gateways and mapped hosts have no address"},
		{"pods and external addresses with IPv6 only", func(f *facts) {
			f.network = networkOf("fd10::/48")
			f.network.Spec.ExternalCIDRs = []v1alpha1.CIDR{"fd70::/64"}
		}, ""},
		{"an unknown plugin", plugin("weave-net"), "info STRAIT-C006 the network plugin is not recognized"},
		{"Calico", plugin("calico-node"), "info STRAIT-C006 the network plugin is Calico: it masquerades"},
		{"Flannel within k3s", func(f *facts) {
			f.daemonSets = nil
			f.nodes[0].Annotations = map[string]string{"flannel.alpha.coreos.com/backend-type": "vxlan"}
		}, "info STRAIT-C006 the network plugin is Flannel: it masquerades"},
		{"Flannel with VXLAN over IPv6", flannelOver("fd30::101", "172.30.1.101"), "warning STRAIT-N006 Flannel gives pods the MTU of VXLAN over IPv4, and nodes are connected by IPv6"},
		{"Flannel with VXLAN over IPv6, and an MTU", func(f *facts) {
			flannelOver("fd30::101")(f)
			f.network.Spec.Overlay.MTU = 1350
		}, ""},
		{"Flannel with IPv4 first", flannelOver("172.30.1.101", "fd30::101"), ""},
		{"Calico with Flannel's routes", func(f *facts) {
			plugin("calico-node")(f)
			f.nodes[0].Annotations = map[string]string{"flannel.alpha.coreos.com/backend-type": "vxlan"}
		}, "info STRAIT-C006 the network plugin is Calico"},
		{"Cilium as it comes", func(f *facts) {
			plugin("cilium")(f)
			f.settings["cilium-config"] = map[string]string{}
		}, "warning STRAIT-C007 the policies of Cilium do not match nodes by address (policy-cidr-match-mode is \"\")"},
		{"Cilium with policies of its own", func(f *facts) {
			plugin("cilium")(f)
			f.cilium, f.settings["cilium-config"] = true, map[string]string{}
		}, ""},
		{"Cilium that routes in eBPF", func(f *facts) {
			plugin("cilium")(f)
			f.settings["cilium-config"] = map[string]string{"policy-cidr-match-mode": "nodes", "enable-bpf-masquerade": "true", "kube-proxy-replacement": "true"}
		}, "warning STRAIT-C008 Cilium routes in eBPF (kube-proxy-replacement=true, enable-host-legacy-routing=\"\", no masquerading by iptables)"},
		{"Cilium without masquerading", func(f *facts) {
			plugin("cilium")(f)
			f.settings["cilium-config"] = map[string]string{"policy-cidr-match-mode": "nodes", "enable-ipv4-masquerade": "false", "kube-proxy-replacement": "true"}
		}, "warning STRAIT-C008 Cilium routes in eBPF"},
		{"Cilium next to kube-proxy", func(f *facts) {
			plugin("cilium")(f)
			f.settings["cilium-config"] = map[string]string{"policy-cidr-match-mode": "nodes", "enable-bpf-masquerade": "true", "kube-proxy-replacement": "false"}
		}, ""},
		{"Cilium that lets the kernel route", func(f *facts) {
			plugin("cilium")(f)
			f.settings["cilium-config"] = map[string]string{"policy-cidr-match-mode": "nodes", "enable-bpf-masquerade": "true", "kube-proxy-replacement": "true", "enable-host-legacy-routing": "true"}
		}, ""},
		{"Cilium with devices that match Strait's links", func(f *facts) {
			plugin("cilium")(f)
			f.settings["cilium-config"] = map[string]string{"policy-cidr-match-mode": "nodes", "devices": "eth+ c+"}
		}, "warning STRAIT-C008 devices of Cilium includes \"c+\""},
		{"Cilium with devices of the nodes", func(f *facts) {
			plugin("cilium")(f)
			f.settings["cilium-config"] = map[string]string{"policy-cidr-match-mode": "nodes", "devices": "eth+,ens5"}
		}, ""},
		{"Cilium with addresses that contain Strait's pools", func(f *facts) {
			plugin("cilium")(f)
			f.settings["cilium-config"] = map[string]string{"policy-cidr-match-mode": "nodes", "ipam": "cluster-pool", "cluster-pool-ipv4-cidr": "10.80.0.0/12"}
		}, "warning STRAIT-C005 Cilium assigns addresses of pods from 10.80.0.0/12 (ipam cluster-pool), which overlaps Strait's pools 10.80.0.0/16, 10.64.0.0/10; declare clusterNetwork.podCIDRs=[10.80.0.0/12]"},
		{"Cilium with addresses of its own", func(f *facts) {
			plugin("cilium")(f)
			f.settings["cilium-config"] = map[string]string{"policy-cidr-match-mode": "nodes", "ipam": "cluster-pool", "cluster-pool-ipv4-cidr": "10.0.0.0/16 ?"}
		}, ""},
		{"security groups for pods in strict mode", aws("ENABLE_POD_ENI", "true"), "warning STRAIT-C008 security groups for pods in strict mode add routing rules of priority 10 and 20, before Strait's 105"},
		{"security groups for pods in standard mode", aws("ENABLE_POD_ENI", "true", "POD_SECURITY_GROUP_ENFORCING_MODE", "standard"), ""},
		{"no security groups for pods", aws("ENABLE_POD_ENI", "false"), ""},
		{"Calico for policies next to the VPC CNI", func(f *facts) {
			aws("ENABLE_POD_ENI", "true")(f)
			policies := f.daemonSets[0].DeepCopy()
			policies.Name, policies.Spec.Template.Spec.Containers[0].Env = "calico-node", []corev1.EnvVar{{Name: "CALICO_NETWORKING_BACKEND", Value: "none"}}
			f.daemonSets = append(f.daemonSets, *policies)
		}, "warning STRAIT-C008 security groups for pods in strict mode"},
		{"Calico with settings elsewhere", func(f *facts) {
			plugin("calico-node")(f)
			f.felix = &felixConfiguration{}
			f.daemonSets[0].Spec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "FELIX_DefaultEndpointToHostAction", ValueFrom: &corev1.EnvVarSource{}}}}}
		}, ""},
		{"Calico with the default of Felix", func(f *facts) {
			plugin("calico-node")(f)
			f.felix = &felixConfiguration{}
		}, "warning STRAIT-C016 Calico drops packets from pods to their own node"},
		{"Calico with detection by interface", func(f *facts) {
			plugin("calico-node")(f)
			f.daemonSets[0].Spec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "IP_AUTODETECTION_METHOD", Value: "interface=eth.*,c.*"}}}}
		}, "warning STRAIT-C008 Calico may take the address of a Strait link for that of the node (IP_AUTODETECTION_METHOD=interface=eth.*,c.* matches cni-strait*)"},
		{"IPPools that overlap the pools", func(f *facts) {
			plugin("calico-node")(f)
			f.ipPools = []string{"10.70.0.0/16"}
		}, "warning STRAIT-C005 Calico assigns addresses of pods from 10.70.0.0/16 (IPPools), which overlaps Strait's pools 10.70.0.0/16, 10.64.0.0/10"},
		{"pods of no node's CIDR", pods("n1", "10.0.7.7"), "info STRAIT-C014 1 of 1 addresses of pods are outside of their node's podCIDRs: each gets its own route"},
		{"pods of their node's CIDR", pods("n1", "10.0.1.7"), ""},
		{"pods of another node's CIDR", pods("n2", "10.0.1.7"), "warning STRAIT-C014 1 of 1 addresses of pods are in the podCIDRs of another node: pod default/p on node n2 has 10.0.1.7, of node n1"},
		{"pods of an unknown CIDR", pods("n1", "172.16.0.7"), "warning STRAIT-C014 1 of 1 addresses of pods are outside of the cluster's pod CIDRs: pod default/p has 172.16.0.7"},
		{"pods that may not be read", func(f *facts) { f.denied = map[topic]error{aboutPods: errors.New("forbidden")} }, "skipped STRAIT-C014 pods cannot be read: forbidden"},
		{"Cilium of Google's make, whose settings are hidden", plugin("anetd"), "warning STRAIT-C008 Google does not document whether packets of pods pass the routing"},
		{"OVN", plugin("ovnkube-node"), "warning STRAIT-C008 OVN-Kubernetes bypasses the routing of the node's kernel for packets of pods"},
		{"a namespace that keeps the helper out", enforcing("strait-nodes", "restricted"), "error STRAIT-C009 it enforces restricted, but the node helper needs privileged for the host network; with node.enabled=false"},
		{"nodes of Fargate alone", platform("aws:///eu-central-1a/x/fargate-ip-10-0-1-2", "eks.amazonaws.com/compute-type", "fargate"),
			"error STRAIT-C015 the node helper cannot run on the nodes (1 of EKS Fargate): install with node.enabled=false; then pods reach"},
		{"some nodes of Fargate", func(f *facts) {
			platform("", "eks.amazonaws.com/compute-type", "fargate")(f)
			f.nodes = append(f.nodes, linux("n2"))
		}, "warning STRAIT-C015 the node helper cannot run on 1 of 2 nodes (1 of EKS Fargate): their pods reach no remote cluster; with node.enabled=false, pods reach"},
		{"nodes of Autopilot", platform("gce://project/europe-west3-a/gk3-a-pool-1-5f0c", "", ""), "error STRAIT-C015 the node helper cannot run on the nodes (1 of GKE Autopilot)"},
		{"nodes of GKE Standard", platform("gce://gk3-project/europe-west3-a/gke-a-pool-1-5f0c", "", ""), ""},
		{"virtual nodes", platform("azure:///x", "type", "virtual-kubelet"), "error STRAIT-C015 the node helper cannot run on the nodes (1 of a virtual kubelet)"},
		{"virtual nodes of Liqo", platform("", "liqo.io/type", "virtual-node"), "error STRAIT-C015 the node helper cannot run on the nodes (1 of a virtual kubelet)"},
		{"virtual nodes of Admiralty", platform("", "virtual-kubelet.io/provider", "admiralty"), "error STRAIT-C015 the node helper cannot run on the nodes (1 of a virtual kubelet)"},
		{"nodes of Autopilot that admit the helper", func(f *facts) {
			platform("gce://project/europe-west3-a/gk3-a-pool-1-5f0c", "", "")(f)
			f.daemonSets = append(f.daemonSets, appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "strait-nodes", Name: "strait-node", Labels: map[string]string{install.NameLabel: install.Name}}})
		}, ""},
		{"no node helpers", func(f *facts) { f.withoutHelpers = true }, "info STRAIT-C015 without node helpers (node.enabled=false), pods reach Services of remote clusters by name, but no pod by its address, and servers see the address of a gateway instead of the client's"},
		{"no node helpers, and what they alone need", func(f *facts) {
			f.withoutHelpers = true
			enforcing("strait-nodes", "restricted")(f)
			pods("n2", "10.0.1.7")(f)
			plugin("cilium")(f)
			f.settings["cilium-config"] = map[string]string{"enable-bpf-masquerade": "true"}
		}, ""},
		{"no node helpers, and pods of an unknown CIDR", func(f *facts) {
			f.withoutHelpers = true
			pods("n1", "172.16.0.7")(f)
		}, "warning STRAIT-C014 1 of 1 addresses of pods are outside of the cluster's pod CIDRs"},
		{"a namespace as it shall be", enforcing("strait-gateways", "restricted"), ""},
		{"a namespace with a nonsense level", enforcing("strait-gateways", "strict"), "warning STRAIT-C009 it enforces \"strict\""},
		{"it is installed", func(f *facts) { f.image = "strait.dev/strait:0.0.9" }, "info STRAIT-C010 Strait is installed, from image strait.dev/strait:0.0.9"},
		{"it was installed", func(f *facts) { f.installed = &v1alpha1.ClusterNetwork{} }, "warning STRAIT-C010"},
		{"no LoadBalancer for UDP", func(f *facts) { f.services[0].Spec.Ports[0].Protocol = corev1.ProtocolTCP }, "info STRAIT-C011"},
		{"remains of a command", func(f *facts) { f.leftover = []string{"strait-verify-x"} }, "warning STRAIT-C013 namespaces strait-verify-x"},
		{"something may not be read", func(f *facts) { f.denied = map[topic]error{aboutServices: errors.New("forbidden")} }, "skipped STRAIT-C011 Services cannot be read: forbidden"},
	} {
		f := ordinary()
		c.change(f)
		all := clusterFindings(f)
		worst := findings.Worst(all)
		if c.want == "" && (worst == findings.Error || worst == findings.Warning) || !strings.Contains(text(all), c.want) {
			t.Errorf("%s:\n%swant %q", c.name, text(all), c.want)
		}
	}
}

func TestWhatIsSaidOfTwoClusters(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*facts)
		want   string
	}{
		{"nothing in common", func(f *facts) { f.network = networkOf("10.5.0.0/16") }, "info STRAIT-U002 10.70.0.0/16 will be mapped to 10."}, // the external ranges are alike
		{"pod CIDRs that are free", func(f *facts) { f.network = networkOf("10.5.0.0/16") }, "info STRAIT-U002 10.5.0.0/16 will be mapped to 10.64.0.0/16, one to one; with --keep-addresses it keeps its addresses"},
		{"the same pod CIDR", func(*facts) {}, "info STRAIT-U002 10.0.0.0/16 will be mapped to 10.64.0.0/16, one to one: 10.0.0.0/16 overlaps this cluster's pod CIDR 10.0.0.0/16"},
		{"no room", func(f *facts) { f.network = networkOf("10.0.0.0/8") }, "error STRAIT-U002 10.0.0.0/8 cannot be mapped"},
		{"the same cluster", func(f *facts) { f.systemUID = "1" }, "error STRAIT-U004 both are the same cluster"},
		{"clocks apart", func(f *facts) { f.skew = time.Minute }, "warning STRAIT-U003 their clocks differ by 1m0s"},
		{"ranges that are not known", func(f *facts) { f.network = nil }, "skipped STRAIT-U002"},
	} {
		local, remote := ordinary(), ordinary()
		remote.name, remote.systemUID = "b", "2"
		c.change(remote)
		if got := text(pairFindings(local, remote)); !strings.Contains(got, c.want) {
			t.Errorf("%s:\n%swant %q", c.name, got, c.want)
		}
	}
}

func TestOneWayBetweenClustersIsEnough(t *testing.T) {
	open, shut := crossProbe{from: "a", to: "b", passes: []string{"192.0.2.1:30000"}}, crossProbe{from: "b", to: "a", unanswered: []string{"192.0.2.2:30000 (nothing came back)"}}
	for _, c := range []struct {
		name   string
		probes []crossProbe
		want   findings.Severity
	}{
		{"both", []crossProbe{open, open}, findings.OK},
		{"one", []crossProbe{open, shut}, findings.Info},
		{"none", []crossProbe{shut, shut}, findings.Warning},
		{"not tried", []crossProbe{{err: errors.New("no")}, {err: errors.New("no")}}, findings.Skipped},
	} {
		if got := findings.Worst(udpFindings(c.probes...)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestNodesWithDifferentMTUsAreTold(t *testing.T) {
	a, b := good(), good()
	b.Node, b.Is.Out.MTU = "n2", 9000
	if got := text(mtuFindings(nodeContext{name: "a"}, []NodeReport{a, {Node: "lost", Err: errors.New("no")}, b})); !strings.Contains(got, "1500 on n1, and 9000 on n2") {
		t.Errorf("%q", got)
	}
	if got := mtuFindings(nodeContext{name: "a"}, []NodeReport{a, a}); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func TestTheChartSaysTheSame(t *testing.T) {
	text, err := os.ReadFile("../../charts/strait/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ AppVersion, KubeVersion string }
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(install.Image, ":"+chart.AppVersion) || !strings.HasPrefix(chart.KubeVersion, ">="+minKubernetes.String()) {
		t.Errorf("image %s and Kubernetes %s here; the chart has %+v", install.Image, minKubernetes, chart)
	}
	if !slices.Contains(levels, chartNamespaces["strait-nodes"]) {
		t.Errorf("levels %q", levels)
	}
}
