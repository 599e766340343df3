package gateway_test

import (
	"net/netip"
	"sync"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// reloaded is cluster A after a new configuration: the pods of node-1 have moved
// to node-2, and B is seen elsewhere.
func reloaded(c *config.Gateway) {
	one, two := &c.Overlay.Nodes[0], &c.Overlay.Nodes[1]
	one.Prefixes, two.Prefixes = two.Prefixes, one.Prefixes
	c.Remote.Prefixes[0].SeenAs = netip.MustParsePrefix("10.171.0.0/16")
}

func TestANewTableDecidesTheNextPacket(t *testing.T) {
	t.Parallel()
	a := newA(t)
	old, next := a.Table(), tableOf(t, configured(t, clusterA, reloaded), mtus)
	out := flow{src: v4.podA, dst: v4.seenPodB}
	expectVerdict(t, a.fromNode(out.udp(nil)), gateway.ToTunnel)
	expectVerdict(t, a.fromTunnel(flow{src: v4.podB, dst: v4.podA}.udp(nil)), gateway.ToNode)

	a.SetTable(next)
	if a.Table() != next {
		t.Fatal("the old table is still there")
	}
	expectDrop(t, a.fromNode(out.udp(nil)), gateway.SpoofedSource)
	expectVerdict(t, a.fromNode(flow{src: v4.node, dst: v4.seenNodeB}.udp(nil)), gateway.ToTunnel) // from the same node, found anew
	r := a.fromTunnel(flow{src: v4.podB, dst: v4.podA}.udp(nil))
	expectVerdict(t, r, gateway.ToNode)
	expect(t, r.Packet, "10.171.2.9", v4.podA, 63)
	if r.Node.Name != "node-2" {
		t.Errorf("goes to %s", r.Node.Name)
	}

	a.SetTable(old)
	expectVerdict(t, a.fromNode(out.udp(nil)), gateway.ToTunnel)
}

// Links of both journeys run while tables change: every packet is decided by one
// table or the other, never by half of each.
func TestTablesChangeWhilePacketsRun(t *testing.T) {
	t.Parallel()
	const links, packets, changes = 4, 3000, 300
	g := newA(t).Gateway
	old, next := g.Table(), tableOf(t, configured(t, clusterA, reloaded), mtus)
	var running sync.WaitGroup
	for range links {
		running.Go(func() {
			e, i, o := gateway.NewEgress(g), gateway.NewIngress(g), gateway.NewOrigin(g)
			for range packets {
				datagram := node1A.frame(partial(flow{src: v4.podA, dst: v4.seenPodB}).tcp(ack, nil, counting(40)))
				r := e.Frame(datagram, node1A.outer(), start)
				if r.Verdict != gateway.ToTunnel && r.Reason != gateway.SpoofedSource && r.Reason != gateway.DestinationNotGranted {
					t.Errorf("egress: %q", r.Reason)
				}
				r = i.Packet(flow{src: v4.podB, dst: v4.podA}.tcp(syn|ack, mss(1000), nil), start)
				if r.Verdict != gateway.ToNode {
					t.Errorf("ingress: %q", r.Reason)
				}
				switch src := receive(t, r.Packet).src.String(); r.Node.Name + " " + src {
				case "node-1 10.71.2.9", "node-2 10.171.2.9":
				default:
					t.Errorf("ingress: %s from %s", r.Node.Name, src)
				}
				if r := o.Packet(flow{src: v4.gateway, dst: v4.podA}.udp(nil)); r.Verdict != gateway.ToNode {
					t.Errorf("origin: %q", r.Reason)
				}
			}
		})
	}
	running.Go(func() {
		for range changes {
			g.SetTap(func(gateway.Stage, []byte) {})
			g.SetTable(next)
			g.SetTap(nil)
			g.SetTable(old)
		}
	})
	running.Wait()
}
