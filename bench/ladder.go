package bench

import (
	"context"
	"fmt"
	"slices"

	"strait.dev/strait/bench/measure"
)

// Packet sizes in bytes of IP packet.
const (
	smallest = 64
	largest  = 1400
)

// Ladder returns all tests, from one function to whole gateways.
func Ladder() []Test {
	return slices.Concat(
		packetTests(), tableTests(), socketTests(), throughputTests(), roundTripTests(), transferTests(),
		[]Test{{Name: "idle", Subject: "gateway", measure: idlePeerings}},
	)
}

func packetTests() (all []Test) {
	for _, size := range []int{smallest, largest} {
		name := fmt.Sprintf("packet/size=%d", size)
		all = append(all,
			Test{Name: name, Subject: "parse", measure: parse(size)},
			Test{Name: name, Subject: "nat", measure: translate(size)},
			Test{Name: name, Subject: "egress", measure: egress(small, spread, size)},
			Test{Name: name, Subject: "ingress", measure: ingress(small, spread, size)},
			Test{Name: name + "/ip=6", Subject: "egress", measure: egress(small6, spread, size)},
			Test{Name: name + "/ip=6", Subject: "ingress", measure: ingress(small6, spread, size)},
			Test{Name: name, Subject: "copy", measure: duplicate(size)},
			Test{Name: name, Subject: "seal", measure: seal(size)},
			Test{Name: name, Subject: "open", measure: open(size)},
			Test{Name: name, Subject: "pipeline", measure: pipeline(size)},
		)
	}
	return all
}

func tableTests() (all []Test) {
	for _, c := range []struct{ nodes, routes, flows int }{
		{1, 1, 1}, {1, 1, 4096}, {100, 100, spread}, {5000, 5000, spread}, {1, 100_000, spread}, {5000, 100_000, spread}, {5000, 100_000, 4096},
	} {
		name := fmt.Sprintf("table/nodes=%d/routes=%d/flows=%d", c.nodes, c.routes, c.flows)
		of := ranges4.clusterOf(c.nodes, c.routes)
		all = append(all,
			Test{Name: name, Subject: "egress", measure: egress(of, c.flows, smallest)},
			Test{Name: name, Subject: "ingress", measure: ingress(of, c.flows, smallest)},
		)
	}
	return all
}

// mixes are the packet sizes for whole paths.
var mixes = []struct {
	name  string
	sizes []int
}{
	{"size=64", []int{smallest}},
	{"size=1400", []int{largest}},
	{"size=imix", measure.IMIX},
}

func socketTests() (all []Test) {
	for _, mode := range modes {
		for _, m := range mixes {
			name := "socket/" + m.name
			all = append(all,
				Test{Name: name, Mode: mode, Subject: "send", measure: socketPrice(false, m.sizes, mode == wire)},
				Test{Name: name, Mode: mode, Subject: "receive", measure: socketPrice(true, m.sizes, mode == wire)},
			)
		}
	}
	return all
}

func throughputTests() (all []Test) {
	for _, mode := range modes {
		for _, m := range mixes {
			for _, over := range subjects {
				all = append(all, Test{
					Name: "throughput/" + m.name, Mode: mode, Subject: over.name,
					measure: throughput(over.open, load{m.sizes, 4, mode == wire}),
				})
			}
		}
	}
	// Sockets do not parse packets: udp would be the same as for IPv4.
	return append(all, Test{
		Name: "throughput/size=64/ip=6", Mode: nogro, Subject: "gateways",
		measure: throughput(throughGateways, load{[]int{smallest}, 6, false}),
	})
}

func roundTripTests() (all []Test) {
	for _, over := range subjects {
		all = append(all,
			Test{Name: "rtt/flow=known", Mode: nogro, Subject: over.name, measure: roundTrip(over.open, 4, false)},
			Test{Name: "rtt/flow=new", Mode: nogro, Subject: over.name, measure: roundTrip(over.open, 4, true)},
			Test{Name: "rr/parallel=16", Mode: nogro, Subject: over.name, measure: requestResponse(over.open, 16)},
		)
	}
	return append(all, Test{
		Name: "rtt/flow=known/ip=6", Mode: nogro, Subject: "gateways", measure: roundTrip(throughGateways, 6, false),
	})
}

func transferTests() (all []Test) {
	for _, t := range []struct {
		streams int
		mode    string
	}{{1, nogro}, {4, nogro}, {32, nogro}, {1, wire}} {
		for _, over := range subjects {
			all = append(all, Test{
				Name: fmt.Sprintf("tcp/streams=%d", t.streams), Mode: t.mode, Subject: over.name,
				measure: transfer(over.open, t.streams, t.mode == wire),
			})
		}
		for _, carried := range []struct {
			name string
			open func(int, bool) func(context.Context, effort) (map[string]float64, error)
		}{{"forward", transferForwarded}, {"proxy", transferProxied}} {
			all = append(all, Test{
				Name: fmt.Sprintf("tcp/streams=%d", t.streams), Mode: t.mode, Subject: carried.name,
				measure: carried.open(t.streams, t.mode == wire),
			})
		}
	}
	return all
}

// Offloads of the sockets of nodes, and of senders on loopback. The gateways' own sockets
// always use all that the kernel supports.
const (
	nogro = "nogro" // one datagram at a time, as in a pod network
	wire  = "wire"  // segmentation and coalescing, as in a network card
)

var modes = []string{nogro, wire}

var subjects = []struct {
	name string
	open opener
}{
	{"udp", throughLoopback},
	{"gateways", throughGateways},
}
