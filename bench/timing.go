package bench

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/gateway"
)

// spread is how many packets a timing takes in turn, where nothing else is said:
// what a gateway has in its receive ring, and as many nodes as send at once.
const spread = 256

// edited is a packet that a journey edits, with what it was like before: putting
// that back is part of every timing, about 2 ns.
type edited struct {
	bytes, before []byte
	from          netip.Addr // the outer source of a frame
}

func newEdited(b []byte, headers int, from netip.Addr) edited {
	return edited{b, append([]byte(nil), b[:headers]...), from}
}

func (e *edited) restore() { copy(e.bytes, e.before) }

// outgoing are frames with packets of different flows: from pods behind the
// routes of a cluster, taken in turn, to the other cluster.
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

// incoming are packets of different flows out of the tunnel.
func (c *cluster) incoming(count, size int) []edited {
	all := make([]edited, count)
	for i := range all {
		pod, _ := c.pod(i)
		f := flow{offset(c.remote.Addr(), 256+i%4096), pod, uint16(1024 + i), port}
		all[i] = newEdited(f.packet(size), f.headersLen(), netip.Addr{})
	}
	return all
}

// moment is when all packets without a clock arrive.
var moment = time.Unix(1_700_000_000, 0)

// errVerdict is a benchmark that measures something else than it says.
var errVerdict = errors.New("the packet was not forwarded: this build of strait is broken; run its tests")

// timeEach times a function on packets taken in turn, after it has accepted each.
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

// egress times the journey from nodes to the tunnel, without sockets and crypto.
func egress(of func() (*cluster, error), flows, size int) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (map[string]float64, error) {
		c, err := of()
		if err != nil {
			return nil, err
		}
		j := gateway.NewEgress(c.gateway)
		return timeEach(e, c.outgoing(flows, size), func(p *edited) bool {
			r := j.Frame(p.bytes, gateway.Outer{Source: p.from, Encapsulation: gateway.Geneve}, moment)
			return r.Verdict == gateway.ToTunnel
		})
	}
}

// ingress times the journey from the tunnel to nodes, without sockets and crypto.
func ingress(of func() (*cluster, error), flows, size int) func(context.Context, effort) (map[string]float64, error) {
	return func(_ context.Context, e effort) (map[string]float64, error) {
		c, err := of()
		if err != nil {
			return nil, err
		}
		j := gateway.NewIngress(c.gateway)
		return timeEach(e, c.incoming(flows, size), func(p *edited) bool {
			r := j.Packet(p.bytes, moment)
			return r.Verdict == gateway.ToNode
		})
	}
}
