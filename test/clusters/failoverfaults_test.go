//go:build lab || nightly

package clusters

import (
	"fmt"
	"syscall"
	"time"

	"strait.dev/strait/geneve"
	"strait.dev/strait/test/flows"
	"strait.dev/strait/test/netns"
	"strait.dev/strait/vxlan"
)

// faultKind is one of the faults that are measured.
type faultKind struct {
	name   string
	entry  bool // it takes away a node whose NodePorts links of other gateways may use
	choose func(*failover) fault
}

// fault is a fault of one gateway, or of the link between two.
type fault struct {
	victim  string
	of      []*gatewayPod
	used    func(f *flows.Flow, passing map[string][]bool) bool // whether the flow needs what fails
	inflict func() (repair func())
}

// The faults. Each leaves the node on which the flows begin or end.
var (
	gatewayKilled = &faultKind{name: nameKilled, choose: func(f *failover) fault {
		return f.ofGateway(func(g *gatewayPod) func() {
			g.Kill()
			return func() { g.startContainer(f.t) } // the kubelet does so, with a delay
		})
	}}
	gatewayStopped = &faultKind{name: nameStopped, choose: func(f *failover) fault {
		return f.ofGateway(func(g *gatewayPod) func() {
			must(f.t, syscall.Kill(g.PID(), syscall.SIGSTOP))
			f.pause(5 * time.Second)
			must(f.t, syscall.Kill(g.PID(), syscall.SIGCONT))
			return func() {}
		})
	}}
	nodeCutOff = &faultKind{name: nameCutOff, entry: true, choose: func(f *failover) fault {
		return f.ofGateway(func(g *gatewayPod) func() {
			port := g.c.nodes[g.node].port
			f.IP(f.t, "link set dev "+port+" down")
			return func() { f.IP(f.t, "link set dev "+port+" up") }
		})
	}}
	linksDown = &faultKind{name: nameLinksDown, choose: func(f *failover) fault {
		return f.ofGateway(func(g *gatewayPod) func() {
			// A link that was down for long has another port.
			rule := fmt.Sprintf("%s udp dport != { %d, %d } drop", g.address, geneve.Port, vxlan.Port)
			return f.drop(g.c.nodes[g.node].Namespace, "ip saddr "+rule+"\nip daddr "+rule)
		})
	}}
	linkCutOneWay = &faultKind{name: nameOneWay, choose: (*failover).linkOneWay}
	// No gateway can replace what this takes away, so it is not part of the measurement.
	clustersCutOff = &faultKind{name: "clusters cut off from each other for 3 s", choose: func(f *failover) fault {
		return fault{
			victim: "all", of: f.gateways, used: func(*flows.Flow, map[string][]bool) bool { return true },
			inflict: func() func() {
				remove := f.drop(f.wan.Namespace, "iifname lan-a oifname lan-b drop\niifname lan-b oifname lan-a drop")
				time.Sleep(3 * time.Second)
				remove()
				return func() {}
			},
		}
	}}
)

// ofGateway returns a fault of a random gateway.
func (f *failover) ofGateway(inflict func(*gatewayPod) (repair func())) fault {
	g := f.gateways[f.random.IntN(len(f.gateways))]
	return fault{
		victim: g.label(), of: []*gatewayPod{g},
		used:    func(flow *flows.Flow, passing map[string][]bool) bool { return passing[g.label()][flow.ID] },
		inflict: func() func() { return inflict(g) },
	}
}

// linkOneWay returns a fault of a random link that carries flows, between gateways of one ordinal: packets of its WireGuard session are dropped in
// one direction. The gateways of b connect to the NodePorts of those of a, so the NodePort
// tells the links of a gateway of b apart.
func (f *failover) linkOneWay() fault {
	ordinal := f.random.IntN(f.replicas)
	client, server := f.b.gateways[fmt.Sprintf("a-%d", ordinal)], f.a.gateways[fmt.Sprintf("b-%d", ordinal)]
	from, to, rule := client, server, fmt.Sprintf("ip saddr %s udp dport %d drop", client.address, server.port)
	if f.random.IntN(2) == 0 {
		from, to, rule = server, client, fmt.Sprintf("ip daddr %s udp sport %d drop", client.address, server.port)
	}
	return fault{
		victim: from.label() + " to " + to.label(), of: []*gatewayPod{from, to},
		used: func(flow *flows.Flow, passing map[string][]bool) bool {
			return flow.From == from.c.name && passing[from.label()][flow.ID] && passing[to.label()][flow.ID]
		},
		inflict: func() func() { return f.drop(f.b.nodes[client.node].Namespace, rule) },
	}
}

// drop applies rules to the packets that a namespace forwards. The returned function removes
// them.
func (f *failover) drop(in *netns.Namespace, rules string) (remove func()) {
	in.NFT(f.t, fmt.Sprintf(`table ip fault {
	chain forward {
		type filter hook forward priority filter
		%s
	}
}`, rules))
	return func() { in.NFT(f.t, "delete table ip fault") }
}
