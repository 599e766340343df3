package bench

import "fmt"

// The sizes of packets, bytes of IP packet.
const (
	smallest = 64
	largest  = 1400
)

// Ladder lists all tests, in the order of a packet's journey and of rising rungs.
func Ladder() (all []Test) {
	for _, size := range []int{smallest, largest} {
		name := fmt.Sprintf("packet/size=%d", size)
		all = append(all,
			Test{Name: name, Subject: "parse", measure: parse(size)},
			Test{Name: name, Subject: "nat", measure: translate(size)},
			Test{Name: name, Subject: "egress", measure: egress(small, spread, size)},
			Test{Name: name, Subject: "ingress", measure: ingress(small, spread, size)},
			Test{Name: name, Subject: "seal", measure: seal(size)},
			Test{Name: name, Subject: "open", measure: open(size)},
			Test{Name: name, Subject: "journey", measure: journey(size)},
		)
	}
	for _, c := range []struct{ nodes, routes, flows int }{
		{1, 1, 1}, {1, 1, 4096}, {100, 100, spread}, {5000, 5000, spread}, {1, 100_000, spread}, {5000, 100_000, spread}, {5000, 100_000, 4096},
	} {
		name := fmt.Sprintf("table/nodes=%d/routes=%d/flows=%d", c.nodes, c.routes, c.flows)
		of := clusterOf(c.nodes, c.routes)
		all = append(all,
			Test{Name: name, Subject: "egress", measure: egress(of, c.flows, smallest)},
			Test{Name: name, Subject: "ingress", measure: ingress(of, c.flows, smallest)},
		)
	}
	for _, t := range []struct {
		name  string
		sizes []int
		mode  string
	}{
		{"size=64", []int{smallest}, nogro},
		{"size=1400", []int{largest}, nogro},
		{"size=imix", mixed, nogro},
		{"size=1400", []int{largest}, wire},
	} {
		for _, over := range subjects {
			all = append(all, Test{
				Name: "throughput/" + t.name, Mode: t.mode, Subject: over.name,
				measure: throughput(over.open, t.sizes, t.mode == wire),
			})
		}
	}
	for _, over := range subjects {
		all = append(all,
			Test{Name: "rtt/flow=known", Mode: nogro, Subject: over.name, measure: roundTrip(over.open, false)},
			Test{Name: "rtt/flow=new", Mode: nogro, Subject: over.name, measure: roundTrip(over.open, true)},
		)
	}
	for _, t := range []struct {
		streams int
		mode    string
	}{{1, nogro}, {4, nogro}, {1, wire}} {
		for _, over := range subjects {
			all = append(all, Test{
				Name: fmt.Sprintf("tcp/streams=%d", t.streams), Mode: t.mode, Subject: over.name,
				measure: transfer(over.open, t.streams, t.mode == wire),
			})
		}
	}
	return append(all, Test{Name: "idle", Subject: "gateway", measure: idlePeerings})
}

// What the sockets of nodes do, and of senders on loopback. The gateways' own
// always do what they can.
const (
	nogro = "nogro" // one datagram at a time: what a pod network does
	wire  = "wire"  // segmentation and coalescing: what a network card does
)

var subjects = []struct {
	name string
	open opener
}{
	{"udp", throughLoopback},
	{"gateways", throughGateways},
}
