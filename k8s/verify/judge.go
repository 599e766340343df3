package verify

import (
	"fmt"

	"strait.dev/strait/internal/endpoint"
)

// judge is what a result says about a check, for a peering of which it is said that it
// carries packets of mtu bytes.
func judge(p planned, r endpoint.Result, mtu int) Check {
	c := p.Check
	c.Outcome, c.Detail, c.RTT, c.Bytes = Passed, r.Detail, r.RTT.Seconds(), r.Bytes
	switch r.Failure {
	case "":
		if p.probe.Mode == endpoint.TooBig {
			c.Detail = fmt.Sprintf("told that the path carries %d bytes", r.MTU)
			if r.MTU < mtu {
				c.Outcome, c.Cause, c.Remedy = Failed, "something between the pod and the gateway carries less than the peering",
					"compare the MTU of the node's interfaces with that of the gateway's pod; overlay.mtu of the ClusterNetwork sets a smaller one for all"
			}
		}
	case endpoint.NotTried, endpoint.NotPermitted:
		c.Outcome = Skipped
	case endpoint.Crossed: // by a path that carries more: several gateways may differ
		c.Detail = r.Detail + fmt.Sprintf(": this path carries more than the peering's %d", mtu)
	default:
		c.Outcome = Failed
		c.Cause, c.Remedy = cause(p, r)
	}
	return c
}

// cause is the probable one of a failure, and its remedy.
func cause(p planned, r endpoint.Result) (cause, remedy string) {
	follow := fmt.Sprintf("run again with --keep, and strait trace says which hop: strait trace NAMESPACE/%s '->' %v --protocol %s", p.agent, p.probe.To, p.probe.Protocol)
	large := p.What == "udp mtu" || p.What == "icmp mtu" || p.What == "tcp mtu"
	service := len(p.Destination) > 7 && p.Destination[:7] == "Service"
	switch r.Failure {
	case endpoint.WrongSource:
		return "something on the way masquerades: the node's CNI, kube-proxy or a firewall; or the Peerings of the two clusters do not agree on the ranges",
			"see whether the rules of table inet strait are there on the source's node (nft list table inet strait), and compare strait status of both clusters"
	case endpoint.Corrupted:
		return "whoever answered is no agent of Strait, or something on the way changes bytes", follow
	case endpoint.Refused:
		if service {
			return "no node component serves ClusterIPs on the source's node, or the agent does not listen", "see whether kube-proxy, or what the CNI has in its place, runs on the node"
		}
		return "the packet arrived, and nobody listens there: it may have reached another pod than was meant", follow
	case endpoint.Unreachable:
		return "a router, a filter or the gateway refuses the packet: the address is not granted, or there is no route", follow
	case endpoint.Silent:
		return "ICMP errors do not reach the sender, so that large packets vanish: a firewall on the node or a NetworkPolicy drops ICMP",
			"let ICMP type 3 code 4 and ICMPv6 type 2 pass from the node to its pods"
	case endpoint.Big:
		return "the path carries less than the peering says", "lower overlay.mtu of the ClusterNetwork in both clusters, or leave it out, so that it is derived"
	case endpoint.Closed:
		return "the connection was opened and then ended: packets of full size do not cross, or a firewall resets connections", follow
	case endpoint.Timeout:
		switch {
		case large:
			return "small packets cross and large ones vanish: the underlay carries less than the gateways' interfaces say",
				"see PATH-MTU in strait status; lower overlay.mtu of the ClusterNetwork"
		case p.What == "udp frag" || p.What == "icmp frag":
			return "fragments do not cross: a firewall or the CNI drops them", "let fragments pass between pods, nodes and the gateway"
		case service:
			return "no node component serves ClusterIPs on the source's node, or the pod behind it is not reached; see the same row to the pod", follow
		}
		return "a packet or its answer is dropped on the way: a NetworkPolicy, a firewall, a missing route, a grant", follow
	}
	return "", follow
}
