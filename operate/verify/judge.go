package verify

import (
	"fmt"

	"strait.dev/strait/internal/endpoint"
)

// judge evaluates the result of a check, for a peering with this MTU.
func judge(p planned, r endpoint.Result, mtu int) Check {
	c := p.Check
	c.Outcome, c.Detail, c.RTT, c.Bytes = Passed, r.Detail, r.RTT.Seconds(), r.Bytes
	switch r.Failure {
	case "":
		if p.probe.Mode == endpoint.TooBig {
			c.Detail = fmt.Sprintf("path MTU %d reported", r.MTU)
			if r.MTU < mtu {
				c.Outcome, c.Cause, c.Remedy = Failed, "the MTU between the pod and the gateway is smaller than that of the peering",
					"compare the MTU of the node's interfaces with that of the gateway's pod; set a smaller overlay.mtu in the ClusterNetwork"
			}
		}
	case endpoint.NotTried, endpoint.NotPermitted:
		c.Outcome = Skipped
	case endpoint.Crossed: // by a path with a larger MTU: gateways may differ
		c.Detail = r.Detail + fmt.Sprintf(": the MTU of this path is larger than the peering's %d", mtu)
	default:
		c.Outcome = Failed
		c.Cause, c.Remedy = cause(p, r)
	}
	return c
}

// cause returns the probable cause of a failure and its remedy.
func cause(p planned, r endpoint.Result) (cause, remedy string) {
	to := p.probe.To.String()
	if p.probe.Protocol == endpoint.ICMP { // which has no ports
		to = p.probe.To.Addr().String()
	}
	follow := fmt.Sprintf("run again with --keep, and find the hop with strait trace NAMESPACE/%s '->' %s --protocol %s", p.agent, to, p.probe.Protocol)
	large := p.What == "udp mtu" || p.What == "icmp mtu" || p.What == "tcp mtu"
	service := len(p.Destination) > 7 && p.Destination[:7] == "Service"
	switch r.Failure {
	case endpoint.WrongSource:
		return "the packet is masqueraded on the path by the node's CNI, kube-proxy or a firewall; or the Peerings of the two clusters have different CIDRs",
			"check that the rules of table inet strait exist on the source's node (nft list table inet strait), and compare strait status of both clusters"
	case endpoint.Corrupted:
		return "the answer is not from an agent of Strait, or the payload is changed on the path", follow
	case endpoint.Refused:
		if service {
			return "ClusterIPs are not served on the source's node, or the agent does not listen", "check that kube-proxy, or its replacement in the CNI, runs on the node"
		}
		return "the packet arrived, but no process listens on the port: it may have reached another pod", follow
	case endpoint.Unreachable:
		return "a router, a firewall or the gateway rejects the packet: the address is not granted, or there is no route", follow
	case endpoint.Silent:
		return "ICMP errors do not reach the sender, so large packets are lost: a firewall on the node or a NetworkPolicy drops ICMP",
			"allow ICMP type 3 code 4 and ICMPv6 type 2 from the node to its pods"
	case endpoint.Big:
		return "the MTU of the path is smaller than that of the peering", "reduce overlay.mtu of the ClusterNetwork in both clusters, or remove it to derive the MTU"
	case endpoint.Closed:
		return "the connection was opened and then closed: packets of full size do not pass, or a firewall resets connections", follow
	case endpoint.Timeout:
		switch {
		case large:
			return "small packets pass and large ones are lost: the MTU of the underlay is smaller than that of the gateways' interfaces",
				"check PATH-MTU in strait status; reduce overlay.mtu of the ClusterNetwork"
		case p.What == "udp frag" || p.What == "icmp frag":
			return "fragments do not pass: a firewall or the CNI drops them", "allow fragments between pods, nodes and the gateway"
		case service:
			return "ClusterIPs are not served on the source's node, or the pod of the Service is not reached; see the row of the pod", follow
		}
		return "a packet or its answer is dropped on the path: by a NetworkPolicy, a firewall, a missing route or a missing grant", follow
	}
	return "", follow
}
