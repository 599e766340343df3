package network

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/peering"
)

// nodesWith are nodes with these ranges for pods, and addresses 192.0.2.1, 192.0.2.2 ...
func nodesWith(podCIDRs ...string) (nodes []*corev1.Node) {
	for i, cidr := range podCIDRs {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i+1)}}
		node.Spec.PodCIDRs = commaList(cidr)
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("192.0.2.", i+1)}}
		nodes = append(nodes, node)
	}
	return nodes
}

func controlPlane(component string, arguments ...string) []corev1.Pod {
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Command: []string{component}, Args: arguments}}}}
	pod.Labels = map[string]string{"component": component}
	return []corev1.Pod{pod}
}

func TestWhatTheClusterUsesComesFromTheFirstSourceThatKnows(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("10.%d.0.0/24", i)
	}
	const kubeadm = "networking: {podSubnet: '10.244.0.0/16,fd00:10::/56', serviceSubnet: 10.96.0.0/12}"
	for _, c := range []struct {
		name          string
		spec          v1alpha1.ClusterNetworkSpec
		facts         Facts
		nodes         []*corev1.Node
		pods, service string // with their sources
		missing       string
	}{
		{"given", v1alpha1.ClusterNetworkSpec{PodCIDRs: []v1alpha1.CIDR{"10.1.0.0/16"}, ServiceCIDRs: []v1alpha1.CIDR{"10.2.0.0/16"}},
			Facts{kubeadm: readKubeadm(kubeadm), serviceCIDRs: []string{"10.97.0.0/16"}}, nodesWith("10.244.0.0/24"),
			"given [10.1.0.0/16]", "given [10.2.0.0/16]", ""},
		{"kubeadm", v1alpha1.ClusterNetworkSpec{}, Facts{kubeadm: readKubeadm(kubeadm), clusterCIDR: []string{"10.245.0.0/16"}}, nodesWith("10.244.0.0/24"),
			"kubeadm [10.244.0.0/16 fd00:10::/56]", "kubeadm [10.96.0.0/12]", ""},
		{"kubeadm, and a node elsewhere", v1alpha1.ClusterNetworkSpec{}, Facts{kubeadm: readKubeadm(kubeadm)}, nodesWith("10.245.0.0/24"),
			"kubeadm [10.244.0.0/16 10.245.0.0/24 fd00:10::/56]", "kubeadm [10.96.0.0/12]", ""},
		{"flags", v1alpha1.ClusterNetworkSpec{}, Facts{
			clusterCIDR:  flagOf(controlPlane("kube-controller-manager", "--v=2", "--cluster-cidr=10.244.0.0/16"), "kube-controller-manager", "--cluster-cidr"),
			serviceRange: flagOf(controlPlane("kube-apiserver", "--service-cluster-ip-range", "10.96.0.0/16,fd00:96::/112"), "kube-apiserver", "--service-cluster-ip-range"),
		}, nodesWith("10.244.0.0/24"),
			"flags [10.244.0.0/16]", "flags [10.96.0.0/16 fd00:96::/112]", ""},
		{"nodes, neighbours merged and gaps left", v1alpha1.ClusterNetworkSpec{}, Facts{serviceCIDRs: []string{"10.96.0.0/16"}},
			nodesWith("10.0.1.0/24,fd00:10:0:1::/64", "10.0.0.0/24,fd00:10::/64", "10.0.3.0/24"),
			"nodes [10.0.0.0/23 10.0.3.0/24 fd00:10::/63]", "ServiceCIDRs [10.96.0.0/16]", ""},
		{"nothing", v1alpha1.ClusterNetworkSpec{}, Facts{}, nodesWith(""),
			"nodes []", " []", "the pod CIDRs are not known from nodes, kubeadm or kube-controller-manager; set spec.podCIDRs of ClusterNetwork default; " +
				"the Service CIDRs are not known from ServiceCIDR objects, kubeadm or kube-apiserver; set spec.serviceCIDRs of ClusterNetwork default"},
		{"too many", v1alpha1.ClusterNetworkSpec{}, Facts{serviceCIDRs: []string{"10.96.0.0/16"}}, nodesWith(many...),
			"nodes []", "ServiceCIDRs [10.96.0.0/16]", "nodes have 100 separate pod CIDRs, more than the limit of 64; set spec.podCIDRs of ClusterNetwork default"},
		{"nonsense", v1alpha1.ClusterNetworkSpec{}, Facts{clusterCIDR: []string{"all"}, serviceCIDRs: []string{"10.96.0.0/16"}}, nil,
			" []", "ServiceCIDRs [10.96.0.0/16]", `of flags, "all" is not a prefix; set spec.podCIDRs of ClusterNetwork default`},
		{"what a status cannot hold", v1alpha1.ClusterNetworkSpec{}, Facts{clusterCIDR: []string{"240.0.0.0/4"}, serviceCIDRs: []string{"10.96.0.0/16"}}, nil,
			" []", "ServiceCIDRs [10.96.0.0/16]", "of flags, 240.0.0.0/4 is too wide or contains addresses that are not ordinary unicast; set spec.podCIDRs of ClusterNetwork default"},
	} {
		r := Detect(c.spec, c.facts, c.nodes)
		if got := fmt.Sprint(r.sources.PodCIDRs, " ", r.Pods); got != c.pods {
			t.Errorf("%s: pods are %s, want %s", c.name, got, c.pods)
		}
		if got := fmt.Sprint(r.sources.ServiceCIDRs, " ", r.Services); got != c.service {
			t.Errorf("%s: services are %s, want %s", c.name, got, c.service)
		}
		if got := strings.Join(r.undetected, "; "); got != c.missing {
			t.Errorf("%s: missing is %s, want %s", c.name, got, c.missing)
		}
	}
}

// The texts are written without knowledge of Strait.
func FuzzWhatIsDetectedAStatusCanHold(f *testing.F) {
	f.Add("networking: {podSubnet: '10.244.0.0/16,fd00:10::/56', serviceSubnet: 10.96.0.0/12}", "--cluster-cidr=10.244.0.0/16", "10.244.0.0/24", "192.0.2.21")
	f.Add("networking: {podSubnet: [1]}", "--cluster-cidr", "::ffff:10.0.0.0/112", "::ffff:192.0.2.21")
	f.Add("networking: 7", "--cluster-cidr=,", "0.0.0.0/0", "fe80::1%eth0")
	f.Add("{", "", "240.0.0.0/8", "node-1")
	f.Fuzz(func(t *testing.T, kubeadm, flag, podCIDR, address string) {
		nodes := nodesWith(podCIDR)
		nodes[0].Status.Addresses[0].Address = address
		pods := controlPlane("kube-controller-manager", strings.Fields(flag)...)
		r := Detect(v1alpha1.ClusterNetworkSpec{}, Facts{
			kubeadm:     readKubeadm(kubeadm),
			clusterCIDR: flagOf(pods, "kube-controller-manager", "--cluster-cidr"),
			apiServers:  []string{address},
		}, nodes)
		for _, p := range slices.Concat(r.Pods, r.Services, r.Nodes, r.APIServers) {
			if !cidrs.Ordinary(p) || p != p.Masked() {
				t.Errorf("detected %v", p)
			}
		}
		if len(r.undetected) == 0 && (len(r.Pods) == 0 || len(r.Services) == 0) {
			t.Errorf("nothing is missing, pods are %v, services %v", r.Pods, r.Services)
		}
	})
}

// The address of a virtual node is that of the borrower's pod, and its pods have addresses of
// another cluster.
func TestVirtualNodesAddNothingToTheCluster(t *testing.T) {
	nodes := nodesWith("10.0.1.0/24", "10.0.2.0/24")
	nodes[1].Labels = map[string]string{peering.Label: "b"}
	if r := Detect(v1alpha1.ClusterNetworkSpec{}, Facts{}, nodes); fmt.Sprint(r.Nodes, r.Pods) != "[192.0.2.1/32] [10.0.1.0/24]" {
		t.Errorf("the CIDRs of nodes are %v, those of pods %v", r.Nodes, r.Pods)
	}
}

// A node of Fargate has the address of its only pod, which has to stay reachable.
func TestNodesOfFargateAreNoNodeCIDRs(t *testing.T) {
	nodes := nodesWith("", "", "")
	nodes[0].Spec.ProviderID = "aws:///us-east-1a/0123456789-abcdef/fargate-ip-192-0-2-1.ec2.internal"
	nodes[1].Spec.ProviderID = "aws:///us-east-1a/i-0123456789abcdef0"
	nodes[2].Spec.ProviderID = "kind://docker/fargate-1/node"
	if r := Detect(v1alpha1.ClusterNetworkSpec{}, Facts{}, nodes); fmt.Sprint(r.Nodes) != "[192.0.2.2/31]" {
		t.Errorf("the CIDRs of nodes are %v", r.Nodes)
	}
}
