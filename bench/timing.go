package bench

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/gateway"
)

// spread is the default number of packets that a timing cycles through: the size of a
// gateway's receive ring, and the number of nodes that send at once.
const spread = 256

// edited is a packet that the timed function modifies, with its original headers: every
// timing includes restoring them, about 2 ns.
type edited struct {
	bytes, before []byte
	from          netip.Addr // the outer source of a frame
}

func newEdited(b []byte, headers int, from netip.Addr) edited {
	return edited{b, append([]byte(nil), b[:headers]...), from}
}

func (e *edited) restore() { copy(e.bytes, e.before) }

// outgoing returns frames of different flows, from pods behind each route in turn.
func (c *cluster) outgoing(count, size int) []edited {
	all := make([]edited, count)
	for i := range all {
		pod, node := c.pod(i)
		f := flow{pod, offset(c.remoteSeen.Addr(), 256+i%4096), uint16(1024 + i), port}
		b := frame(uint32(node+1), offset(bigInternal, node), bigGateway, f.packet(size))
		all[i] = newEdited(b, gateway.EncapLen+f.headersLen(), offset(bigUnderlay, node))
	}
	return all
}

// incoming returns packets of different flows from the tunnel.
func (c *cluster) incoming(count, size int) []edited {
	all := make([]edited, count)
	for i := range all {
		pod, _ := c.pod(i)
		f := flow{offset(c.remote.Addr(), 256+i%4096), pod, uint16(1024 + i), port}
		all[i] = newEdited(f.packet(size), f.headersLen(), netip.Addr{})
	}
	return all
}

// moment is the arrival time of all packets in tests without a clock.
var moment = time.Unix(1_700_000_000, 0)

// errVerdict is returned if a benchmark would not measure what its name states.
var errVerdict = errors.New("the packet was not forwarded: this build of strait is broken; run its tests")

// timeEach times a function on the packets in turn, after it has accepted each once.
func timeEach(e effort, packets []edited, do func(*edited) bool) (map[string]float64, error) {
	for i := range packets {
		packets[i].restore()
		if !do(&packets[i]) {
			return nil, errVerdict
		}
	}
	next := 0
	perOp := measure.PerOp(e.operation, measure.NewClock().Now, func(n int) {
		for range n {
			p := &packets[next]
			p.restore()
			do(p)
			if next++; next == len(packets) {
				next = 0
			}
		}
	})
	return map[string]float64{"ns/op": perOp}, nil
}

// egress times the path from nodes to the tunnel, without sockets and cryptography.
func egress(of func() *cluster, flows, size int) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (map[string]float64, error) {
		c := of()
		j := gateway.NewEgress(c.gateway)
		return timeEach(e, c.outgoing(flows, size), func(p *edited) bool {
			r := j.Frame(p.bytes, gateway.Outer{Source: p.from, Encapsulation: gateway.Geneve}, moment)
			return r.Verdict == gateway.ToTunnel
		})
	}
}

// ingress times the path from the tunnel to nodes, without sockets and cryptography.
func ingress(of func() *cluster, flows, size int) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (map[string]float64, error) {
		c := of()
		j := gateway.NewIngress(c.gateway)
		return timeEach(e, c.incoming(flows, size), func(p *edited) bool {
			r := j.Packet(p.bytes, moment)
			return r.Verdict == gateway.ToNode
		})
	}
}
