package trace

// Reasons of drops outside of gateways. Those of gateways are gateway.Reasons.
const (
	noAddress      = "no_address"       // the pod has no address of the IP family
	notRemote      = "not_remote"       // the address is not in a mapped CIDR of a remote cluster
	noRoute        = "no_route"         // the node has no route
	noRule         = "no_rule"          // the node's policy rule for Strait's routes is missing
	noHelpers      = "no_node_helpers"  // the cluster has no node helpers, so that its pods reach imported Services only
	noServing      = "no_gateway"       // the node has no gateway for the CIDR
	nodeLinkDown   = "node_link_down"   // the node's device is down
	linkDown       = "link_down"        // the tunnel is down
	unknownKey     = "unknown_key"      // the remote gateway does not trust this one's key
	noNodeThere    = "no_attachment"    // the gateway sends to a node that does not exist
	nodeNotGranted = "node_not_granted" // the remote cluster may not open connections to the node
	routedBack     = "routed_back"      // the node sends the packet back to a gateway
	noPod          = "no_pod"           // no pod has the address
	podNotRunning  = "pod_not_running"  // the pod has an address but is not running
	otherPod       = "other_pod"        // the reply reaches another pod

	tooBig         = "too_big"
	noPeer         = "no_peer"
	sourceNotGiven = "source_not_granted"
	malformed      = "the packet is malformed; check its sender"
	outerHeader    = "delete the node's device (ip link delete), and strait node creates it again; check which other process sends to the overlay's ports"
)

var remedies = map[string]string{
	noAddress:      "wait until the pod runs; for the other IP family, run dual-stack pods",
	notRemote:      "run strait status for the CIDRs that remote clusters are mapped to, and use an address in them; strait resolve ADDRESS explains an address",
	noRoute:        "check the node's routes: ip route get ADDRESS; Strait's own are in table 6091",
	noRule:         "check that strait node runs on the node, and its log: it repairs the rule with priority 105",
	noHelpers:      "connect to the name of an imported Service; strait services lists them",
	noServing:      "run kubectl get nodeattachments and strait status: no gateway of the Peering answers the node",
	nodeLinkDown:   "check that strait node runs on the node, and its log: it sets its devices up",
	linkDown:       "run strait status for the state of the Peering; UDP has to reach the port of one of the gateways",
	unknownKey:     "run strait status in both clusters; the trusted keys are in spec.peers; join the clusters again with strait peer or strait accept",
	noNodeThere:    "check that the node exists and strait node runs on it: kubectl get nodeattachments",
	nodeNotGranted: "set localNodes: Allow in the spec of the Peering in that cluster, if the remote cluster may open connections to nodes; for single ports, create an AddressMapping",
	routedBack:     "check the node's routes to its own pods: they have to be more specific than those to other clusters",
	noPod:          "check the pod's address: kubectl get pods -A -o wide; no pod of the node has this address",
	podNotRunning:  "check why it does not run: kubectl describe pod",
	otherPod:       "check whether two pods have the same address",

	"unknown_source":          "compare the node's source address with underlayAddresses and status.gateways of its NodeAttachment; a network plugin may masquerade the overlay packets",
	"wrong_vni":               "check the log of strait node on that node: its device uses another VNI or encapsulation than the gateway is configured with",
	"frame_truncated":         outerHeader,
	"geneve_version":          outerHeader,
	"geneve_control":          outerHeader,
	"geneve_critical":         outerHeader,
	"geneve_options":          outerHeader,
	"geneve_protocol":         outerHeader,
	"vxlan_flags":             outerHeader,
	"frame_loop":              "check for two hosts with the same internal address (kubectl get nodeattachments), and for an endpoint of the peer in a mapped CIDR",
	"frame_ethertype":         "harmless: only IPv4, IPv6 and ARP are forwarded",
	"frame_neighbour":         "harmless: ARP that is not for the gateway",
	"ecn":                     "check for congestion between the node and the gateway: a router on the path marks packets with CE, and the sender does not support ECN",
	"ip_truncated":            malformed,
	"ip_version":              malformed,
	"ip_header":               malformed,
	"ip_length":               malformed,
	"ip_checksum":             malformed,
	"ip_options":              malformed,
	"ip_source_route":         "send it without a source route: packets with one are never forwarded",
	"ip_extension":            malformed,
	"ip_fragment":             malformed,
	"multicast":               "use a unicast address: multicast is not forwarded between clusters",
	"martian":                 "use an address that is routable: this one is never forwarded",
	"spoofed_source":          "use a source address of that node: its podCIDRs are in the NodeAttachment; the node's nftables table controls source addresses, and strait node repairs it. To let another host reach the remote cluster, add it to spec.masquerade.sources of the ClusterNetwork",
	sourceNotGiven:            "grant the source in both clusters: in spec.localPrefixes or localPods of the sender's Peering, and in spec.prefixes or acceptPrefixes of the receiver's",
	"no_external_address":     "give the node an external address: externalCIDRs of the ClusterNetwork may be exhausted, see the NodeAttachment",
	"destination_not_granted": "grant the address in spec.localPrefixes or localPods of the destination's Peering, and list it in spec.prefixes of the sender's",
	"no_node":                 "check the pod and its node: kubectl get pods -A -o wide, kubectl get nodeattachments; no node has the address",
	"gateway_port":            "use another destination: the gateway itself answers only pings and the probes of nodes",
	"echo_budget":             "send fewer pings to the gateway: at most 100 per second from a node and its pods",
	"probe_budget":            "check for two node helpers on that node: it sends more than 25 probes per second",
	"probe_malformed":         "check which process of the node sends to UDP port 6095 of the gateway",
	"fragment_memory":         "check for a flood of fragments, or for packet loss: datagrams of masqueraded sources wait for all their fragments",
	"fragment_overlap":        malformed,
	"fragment_timeout":        "check for packet loss on the path: the other fragments of the datagram did not arrive within 30 s",
	"nat_protocol":            "use TCP, UDP or ping: masquerading supports no other protocol",
	"nat_quota":               "check the source; spec.masquerade.flowsPerSource of the ClusterNetwork limits the flows of one source",
	"nat_exhausted":           "increase spec.masquerade.flows of the ClusterNetwork, or configure fewer sources; see docs/runbooks/StraitMasqueradeExhausted.md",
	"nat_no_mapping":          "initiate the connection from this cluster: only replies reach a masqueraded source",
	"ttl_exceeded":            "check for a routing loop: the packet has passed too many routers",
	"owner_down":              "check the link to the remote gateway that has the address: strait status; replies to a masqueraded source reach only that gateway",
	tooBig:                    "send packets of at most that size: path MTU discovery does so automatically, so allow ICMP; spec.overlay.mtu of the ClusterNetwork sets the MTU",
	"upper_header":            malformed,
	"icmp_checksum":           malformed,
	"icmp_quote":              malformed,
	"icmp_unrelated":          "check which host sends ICMP errors for connections that do not exist",
	noPeer:                    "set an endpoint in spec.peers of one of the Peerings; run strait status",
	"tunnel_queue":            "check for a flood of packets that cause ICMP errors",
	"panic":                   "report it with the gateway's log: it is a bug in the gateway, which recovered",
	"underlay_send":           "check that the gateway's pod can reach the node's address: routes, NetworkPolicies, send buffers",
}

// Remedy returns the remedy for the reason of a drop, in a gateway or elsewhere; empty for
// an unknown reason.
func Remedy(reason string) string { return remedies[reason] }
