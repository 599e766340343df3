package trace

// Reasons of drops that no gateway decides. Those of gateways are gateway.Reasons.
const (
	noAddress     = "no_address"      // the pod has none of the family, or none at all
	notRemote     = "not_remote"      // the address is none of a remote cluster
	noRoute       = "no_route"        // the node has no route
	noRule        = "no_rule"         // the node does not look at Strait's routes
	noServing     = "no_gateway"      // no gateway serves the range on the node
	nodeLinkDown  = "node_link_down"  // the node's device is down
	linkDown      = "link_down"       // the tunnel is
	unknownKey    = "unknown_key"     // the other gateway does not know this one
	noNodeThere   = "no_attachment"   // the gateway sends to a node that is gone
	routedBack    = "routed_back"     // the node sends the packet back to a gateway
	noPod         = "no_pod"          // nobody has the address
	podNotRunning = "pod_not_running" // it has an address and does not run
	otherPod      = "other_pod"       // the reply comes to another pod than it is for

	tooBig         = "too_big"
	noPeer         = "no_peer"
	sourceNotGiven = "source_not_granted"
	malformed      = "the packet is malformed; look at what sends it"
	outerHeader    = "recreate the node's device: strait node repairs it as soon as it is deleted (ip link delete); see what else writes to the overlay's ports"
)

// remedies are what to do about each reason.
var remedies = map[string]string{
	noAddress:     "wait until the pod runs; for the other family, give the cluster's pods both",
	notRemote:     "look at strait status for the ranges in which remote clusters are seen here, and use the address from there; strait resolve ADDRESS says what an address means",
	noRoute:       "look at the node's routes: ip route get ADDRESS; Strait's own are in table 6091",
	noRule:        "see whether strait node runs on the node, and what it logs: it repairs the rule of priority 105",
	noServing:     "look at kubectl get nodeattachments and strait status: no gateway of the Peering answers the node",
	nodeLinkDown:  "see whether strait node runs on the node, and what it logs: it sets its devices up",
	linkDown:      "run strait status: it says how far the Peering is; UDP has to reach the port of one of the gateways",
	unknownKey:    "run strait status in both clusters: each names the keys that it trusts in spec.peers; join them again with strait peer or strait accept",
	noNodeThere:   "see whether the node is there and strait node runs on it: kubectl get nodeattachments",
	routedBack:    "look at the node's routes to its own pods: they have to be more exact than those to other clusters",
	noPod:         "look at the pod's address: kubectl get pods -A -o wide; the packet leaves the node's device with nobody to answer",
	podNotRunning: "see why it does not run: kubectl describe pod",
	otherPod:      "see whether two pods have one address",

	"unknown_source":          "compare the node's source address with underlayAddresses and status.gateways of its NodeAttachment; a network plugin may masquerade the node's frames",
	"wrong_vni":               "see what strait node logs on that node: its device has another VNI or encapsulation than the gateway was told",
	"frame_truncated":         outerHeader,
	"geneve_version":          outerHeader,
	"geneve_control":          outerHeader,
	"geneve_critical":         outerHeader,
	"geneve_options":          outerHeader,
	"geneve_protocol":         outerHeader,
	"vxlan_flags":             outerHeader,
	"frame_loop":              "look for two hosts with one internal address (kubectl get nodeattachments), and for an endpoint of the peer in a range that is seen here",
	"frame_ethertype":         "harmless: only IPv4, IPv6 and ARP cross",
	"frame_neighbour":         "harmless: ARP that asks nothing of the gateway",
	"ecn":                     "look for congestion between the node and the gateway: a router on the way marks packets, and this one's sender does not understand marks",
	"ip_truncated":            malformed,
	"ip_version":              malformed,
	"ip_header":               malformed,
	"ip_length":               malformed,
	"ip_checksum":             malformed,
	"ip_options":              malformed,
	"ip_source_route":         "send it without a source route: those are never forwarded",
	"ip_extension":            malformed,
	"ip_fragment":             malformed,
	"multicast":               "use the address of one host: multicast joins no clusters",
	"martian":                 "use an address that crosses routers: this one never does",
	"spoofed_source":          "let the source be behind that node: its podCIDRs are in the NodeAttachment; the node's table of nftables settles sources, and strait node repairs it. If it is a host elsewhere that shall reach the other cluster, name it in spec.masquerade.sources of the ClusterNetwork",
	sourceNotGiven:            "let both clusters agree: spec.localPrefixes, or localPods, of the Peering on the sender's side grants it, and spec.prefixes or acceptPrefixes on the other takes it",
	"no_external_address":     "give the node an external address: the external range of the ClusterNetwork may be used up, see the NodeAttachment",
	"destination_not_granted": "let the Peering on the destination's side grant the address (spec.localPrefixes or localPods), and that on the sender's side have it in spec.prefixes",
	"no_node":                 "look for the pod, or for its node: kubectl get pods -A -o wide, kubectl get nodeattachments; no node has the address",
	"fragment_memory":         "look for a flood of fragments, or for loss: datagrams of masqueraded sources wait until all their fragments are there",
	"fragment_overlap":        malformed,
	"fragment_timeout":        "look for loss on the way: the rest of the datagram's fragments did not come within 30 s",
	"nat_protocol":            "use TCP, UDP or ping: nothing else has ports, and a source that is neither pod nor node needs one",
	"nat_quota":               "see who the source is; spec.masquerade.flowsPerSource of the ClusterNetwork is how many flows one may have",
	"nat_exhausted":           "raise spec.masquerade.flows of the ClusterNetwork, or name fewer sources there; see docs/runbooks/StraitMasqueradeExhausted.md",
	"nat_no_mapping":          "send first from this side: to a masqueraded source only answers come in",
	"ttl_exceeded":            "look for a loop: the packet has crossed too many routers",
	tooBig:                    "send packets of that size at most: hosts that listen to ICMP errors do so by themselves, so let ICMP through; spec.overlay.mtu of the ClusterNetwork changes it",
	"upper_header":            malformed,
	"icmp_checksum":           malformed,
	"icmp_quote":              malformed,
	"icmp_unrelated":          "look at who sends ICMP errors about connections that are not there",
	noPeer:                    "let one side know where the other is: an endpoint in spec.peers of the Peering; run strait status",
	"tunnel_queue":            "look for a flood of packets that need ICMP errors",
	"panic":                   "report it with the gateway's log: it is a fault of the gateway's own, which it survived",
	"underlay_send":           "see whether the gateway's pod reaches the node's address: routes, NetworkPolicies, send buffers",
}

// Remedy is what to do about a reason why a packet went no further, of a gateway or of
// anybody else; empty for an unknown one.
func Remedy(reason string) string { return remedies[reason] }
