package node

// LinkPrefix begins the names of Strait's links. Network plugins detect the devices of a node
// by name and skip those that begin with cni. Otherwise Cilium attaches programs to them and
// takes their MTU for all pods, and Calico may take one of their addresses for the node's.
const LinkPrefix = "cni-strait"

// RulePriority is the priority of Strait's routing rule.
const RulePriority = 105

// The marks of Strait's other objects; no other program is known to use these numbers.
const (
	tableName     = "strait" // of nftables
	routeTable    = 6091     // like the port
	routeProtocol = 91

	metricOverlay   = 100
	metricBlackhole = 10000
)
