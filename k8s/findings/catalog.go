package findings

// Check is what a code stands for.
type Check struct {
	Title  string // what is looked at, a noun phrase
	Remedy string // what to do where it fails, an imperative
}

// Catalog are all checks. Codes are never used again for something else: STRAIT-C of the
// cluster, -N of nodes, -U of the way between clusters, -L of what was left behind.
var Catalog = map[string]Check{
	"STRAIT-C001": {"access to the API server", "Choose a context with --context, and see whether kubectl reaches the cluster with it."},
	"STRAIT-C002": {"version of Kubernetes", "Upgrade the cluster to Kubernetes 1.31 or later."},
	"STRAIT-C003": {"operating systems and architectures of nodes", "Run gateways on Linux nodes of amd64 or arm64; pods on other nodes reach no other cluster."},
	"STRAIT-C004": {"ranges of pods and Services", "Tell the ranges with the chart's value clusterNetwork, as in clusterNetwork.podCIDRs=[10.0.0.0/16]."},
	"STRAIT-C005": {"pools of addresses", "Choose free ranges with the chart's values clusterNetwork.internalCIDRs and clusterNetwork.externalCIDRs."},
	"STRAIT-C006": {"network plugin", "See what the page says of this network plugin."},
	"STRAIT-C007": {"network policies that tell nodes by their addresses", "Install with the chart's value gateway.networkPolicy=false, or let the plugin's policies match nodes by address."},
	"STRAIT-C008": {"routing of pods by the node's kernel", "Let packets of pods pass the routing of the node's kernel, as the page says for the network plugin."},
	"STRAIT-C009": {"Pod Security of the namespaces", "Correct the labels pod-security.kubernetes.io/enforce of the namespace, or let the chart make it."},
	"STRAIT-C010": {"an installation that is there already", "Upgrade it with helm upgrade, or uninstall it first."},
	"STRAIT-C011": {"Services of type LoadBalancer", "Nothing needs to be done: gateways can be called by NodePort, or call themselves."},
	"STRAIT-C012": {"pods that look at nodes", "Use an account that may create namespaces and pods and exec into them, and name an image that nodes can pull with --image; or leave these checks out with --no-pods."},
	"STRAIT-C013": {"remains of earlier commands", "Remove the namespaces with kubectl delete namespace, unless a command of Strait still runs."},

	"STRAIT-N001": {"tunnel devices of the node's kernel", "Load the kernel's module geneve or vxlan on the node, and see to it that it is loaded at boot."},
	"STRAIT-N002": {"nftables of the node's kernel", "Load the kernel's modules nf_tables, nft_chain_nat and nft_nat on the node."},
	"STRAIT-N003": {"ports of the node", "End what uses the port, or give it another one."},
	"STRAIT-N004": {"forwarding on the node", "Set net.ipv4.ip_forward=1 on the node, and net.ipv6.conf.all.forwarding=1 where pods have IPv6."},
	"STRAIT-N005": {"limits of socket buffers on the node", "Set net.core.rmem_max=4194304 and net.core.wmem_max=4194304 on nodes that gateways run on."},
	"STRAIT-N006": {"MTU of the node's network", "Give the nodes' networks one MTU of 1400 or more, or set clusterNetwork.overlay.mtu."},
	"STRAIT-N007": {"clock of the node", "Let the node's clock follow NTP."},
	"STRAIT-N008": {"links, routes and rules in the way", "Remove what is in the way on the node, or the product that made it."},
	"STRAIT-N009": {"remains of Strait on the node", "Run strait node --remove on the node, unless Strait is installed."},
	"STRAIT-N010": {"UDP between nodes", "Let UDP 6091 and 6092 pass between all nodes and pods, in firewalls and security groups."},
	"STRAIT-N011": {"node that could not be looked at", "See whether the node is ready, and whether pods with NET_ADMIN may run on it."},
	"STRAIT-N012": {"offloads of the node's network", "Switch GRO on with ethtool -K LINK gro on, for the link that the finding names."},

	"STRAIT-U001": {"UDP between the clusters", "Let UDP pass to a NodePort or LoadBalancer of one of the clusters, in firewalls and security groups."},
	"STRAIT-U002": {"ranges of the remote cluster", "Name a range in which the remote cluster is to be seen, or a larger remap pool, with clusterNetwork.remapPools."},
	"STRAIT-U003": {"clocks of the clusters", "Let the clocks of both clusters follow NTP."},
	"STRAIT-U004": {"two different clusters", "Name the contexts of two clusters with --context and --remote-context."},

	"STRAIT-L001": {"Strait's kinds and objects", "Remove the CustomResourceDefinitions with kubectl delete crd; that removes all their objects."},
	"STRAIT-L002": {"cluster-wide rights", "Remove the ClusterRoles and ClusterRoleBindings with kubectl delete."},
	"STRAIT-L003": {"namespaces", "Remove the namespaces with kubectl delete namespace."},
	"STRAIT-L004": {"Strait's objects in namespaces", "Remove them with kubectl delete."},
	"STRAIT-L005": {"links on the node", "Run strait node --remove on the node, or start it anew."},
	"STRAIT-L006": {"routes and rules on the node", "Run strait node --remove on the node, or start it anew."},
	"STRAIT-L007": {"nftables table on the node", "Run strait node --remove on the node, or start it anew."},
}
