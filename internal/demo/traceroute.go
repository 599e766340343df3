package demo

import (
	"context"
	"fmt"

	"strait.dev/strait/internal/plan"
)

const traceID = 0x5452

// traceroute sends echo requests from pod a to pod b whose TTL expires at each hop.
func (d *Demo) traceroute(ctx context.Context, s *Step) error {
	from, to := d.a.Address[plan.V4], d.b.PodSeen[plan.V4]
	listener, err := d.a.pod.listenICMP(from, d.limits.reply)
	if err != nil {
		return err
	}
	defer listener.close()
	path := []struct {
		name    string
		address fmt.Stringer
		want    string
	}{
		{"node a", d.a.Router[plan.V4], timeExceeded},
		{"gateway a", plan.GatewayInternal[plan.V4], timeExceeded},
		{"gateway b", d.b.GatewaySeen[plan.V4], timeExceeded},
		{"node b", d.b.NodeSeen[plan.V4], timeExceeded},
		{"pod b", to, echoReply},
	}
	for i, hop := range path {
		ttl := i + 1
		m, trip, err := listener.exchange(ctx, echo{from: from, to: to, id: traceID, sequence: uint16(ttl), ttl: uint8(ttl), length: pingLength})
		if err == nil && (m.what != hop.want || m.from.String() != hop.address.String()) {
			err = fmt.Errorf("%v", m)
		}
		if err != nil {
			return &mismatch{fmt.Sprintf("%s from %v, %s, at hop %d", hop.want, hop.address, hop.name, ttl), err.Error()}
		}
		s.Hops = append(s.Hops, Hop{ttl, m.from.String(), hop.name, trip.Seconds()})
	}
	s.Summary = fmt.Sprintf("path from pod a to %v", to)
	s.Figure = &Figure{"length", float64(len(s.Hops)), "hops"}
	return nil
}
