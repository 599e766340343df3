package findings

// Check describes a code.
type Check struct {
	Title  string // what is checked, a noun phrase
	Remedy string // what to do if it fails, an imperative
}

// Catalog contains all checks. Codes are never reused: STRAIT-C for the cluster, -N for
// nodes, -U for the path between clusters, -D for the names of Services, -L for leftovers.
var Catalog = map[string]Check{
	"STRAIT-C001": {"access to the API server", "Select a context with --context, and check that kubectl reaches the cluster with it."},
	"STRAIT-C002": {"version of Kubernetes", "Upgrade the cluster to Kubernetes 1.31 or later."},
	"STRAIT-C003": {"operating systems and architectures of nodes", "Run gateways on Linux nodes (amd64 or arm64); pods on other nodes cannot reach other clusters."},
	"STRAIT-C004": {"CIDRs of pods and Services", "Set the CIDRs with the chart's value clusterNetwork, as in clusterNetwork.podCIDRs=[10.0.0.0/16]."},
	"STRAIT-C005": {"address pools", "Choose free CIDRs with the chart's values clusterNetwork.internalCIDRs, externalCIDRs and remapPools."},
	"STRAIT-C006": {"network plugin", "See the notes on this network plugin on the documentation page."},
	"STRAIT-C007": {"network policies that match nodes by address", "Install with the chart's value gateway.networkPolicy=false, or let the plugin's policies match nodes by address."},
	"STRAIT-C008": {"routing of pods by the node's kernel", "Route packets of pods through the node's kernel, as the page explains for each network plugin."},
	"STRAIT-C009": {"Pod Security of the namespaces", "Correct the label pod-security.kubernetes.io/enforce of the namespace, or let the chart create it."},
	"STRAIT-C010": {"existing installation", "Upgrade it with helm upgrade, or uninstall it first."},
	"STRAIT-C011": {"Services of type LoadBalancer", "No action is needed: gateways can use a NodePort, or initiate the connection."},
	"STRAIT-C012": {"inspection pods", "Use an account that may create namespaces and pods and exec into them, and set an image that nodes can pull with --image; or skip these checks with --no-pods."},
	"STRAIT-C013": {"leftovers of earlier commands", "Remove the namespaces with kubectl delete namespace, unless a strait command is still running."},
	"STRAIT-C014": {"addresses of pods", "Let the network plugin assign addresses from the podCIDRs of nodes, or declare the CIDRs of pods, as the page explains for each network plugin."},
	"STRAIT-C015": {"privileges of the node helper", "Install with the chart's value node.enabled=false, or let the cluster admit the node helper, as the page explains."},
	"STRAIT-C016": {"packets from pods to their own node", "Set defaultEndpointToHostAction: Accept in FelixConfiguration default, or FELIX_DEFAULTENDPOINTTOHOSTACTION=ACCEPT on DaemonSet calico-node."},

	"STRAIT-N001": {"tunnel devices of the node's kernel", "Load the kernel module geneve or vxlan on the node, and configure it to be loaded at boot."},
	"STRAIT-N002": {"nftables of the node's kernel", "Load the kernel modules nf_tables, nft_chain_nat, nft_nat, nft_ct and nft_fib_inet on the node, or remove what forbids nftables rules, as the page explains."},
	"STRAIT-N003": {"ports of the node", "Stop the process that uses the port, or configure another port for it."},
	"STRAIT-N004": {"forwarding on the node", "Set net.ipv4.ip_forward=1 on the node, and net.ipv6.conf.all.forwarding=1 if pods have IPv6."},
	"STRAIT-N005": {"limits of socket buffers on the node", "Set net.core.rmem_max=4194304 and net.core.wmem_max=4194304 on nodes that gateways run on."},
	"STRAIT-N006": {"MTU of the node's network", "Use one MTU of at least 1400 on all nodes' networks, or set clusterNetwork.overlay.mtu."},
	"STRAIT-N007": {"clock of the node", "Synchronize the node's clock with NTP."},
	"STRAIT-N008": {"conflicting links, routes and rules", "Remove the conflicting configuration from the node, or the product that created it."},
	"STRAIT-N009": {"leftovers of Strait on the node", "Run strait node --remove on the node, unless Strait is installed."},
	"STRAIT-N010": {"UDP between nodes", "Allow UDP 6091 and 6092 between all nodes and pods in firewalls and security groups."},
	"STRAIT-N011": {"node that could not be inspected", "Check that the node is ready and that pods with NET_ADMIN may run on it."},
	"STRAIT-N012": {"offloads of the node's network", "Enable GRO with ethtool -K LINK gro on, for the link in the finding."},
	"STRAIT-N013": {"routes of the node in the remap pools", "Add the destination to clusterNetwork.reservedCIDRs, or set clusterNetwork.remapPools to CIDRs that no node routes itself."},
	"STRAIT-N014": {"spread of flows over gateways", "To spread the flows between two pods as well, set net.ipv4.fib_multipath_hash_policy=1 on the node, and the same of net.ipv6."},
	"STRAIT-N015": {"routing rules that precede Strait's", "Give the rules priorities above 105, or let the program that adds them not do so, as the page explains."},
	"STRAIT-N016": {"packets from gateways that nodes refuse", "If the remote cluster may open connections to nodes, set spec.localNodes of the Peering to Allow; for other reasons, see the page."},

	"STRAIT-U001": {"UDP between the clusters", "Allow UDP to a NodePort or LoadBalancer of one of the clusters in firewalls and security groups."},
	"STRAIT-U002": {"CIDRs of the remote cluster", "Set seenAs in the Peering to a free CIDR, or configure a larger remap pool with clusterNetwork.remapPools."},
	"STRAIT-U003": {"clocks of the clusters", "Synchronize the clocks of both clusters with NTP."},
	"STRAIT-U004": {"two different clusters", "Select the contexts of two clusters with --context and --remote-context."},

	"STRAIT-D001": {"CoreDNS of the cluster", "Upgrade CoreDNS to 1.12.2 or later; for other DNS servers, see the page."},
	"STRAIT-D002": {"configuration of CoreDNS", "Run strait dns configure."},
	"STRAIT-D003": {"names in clusterset.local", "Run strait dns configure, and wait up to 3 minutes until CoreDNS has read its configuration."},

	"STRAIT-L001": {"Strait's custom resources", "To remove the CustomResourceDefinitions and all their objects, run kubectl delete crd --selector app.kubernetes.io/part-of=strait."},
	"STRAIT-L002": {"cluster-wide RBAC", "Remove strait-coredns with strait dns remove, and other ClusterRoles and ClusterRoleBindings with kubectl delete."},
	"STRAIT-L003": {"namespaces", "Remove the namespaces with kubectl delete namespace."},
	"STRAIT-L004": {"Strait's objects in namespaces", "Remove what is offloaded with strait unborrow and strait unlend, and the rest with kubectl delete."},
	"STRAIT-L005": {"links on the node", "Run strait node --remove on the node, or reboot it."},
	"STRAIT-L006": {"routes and rules on the node", "Run strait node --remove on the node, or reboot it."},
	"STRAIT-L007": {"nftables table on the node", "Run strait node --remove on the node, or reboot it."},
}
