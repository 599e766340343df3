package demo

import (
	"context"
	"fmt"
)

const traceID = 0x5452

// traceroute sends echo requests from pod a to pod b whose TTL ends at each hop
// in turn.
func (d *Demo) traceroute(ctx context.Context, s *Step) error {
	from, to := d.a.address[v4], d.b.podSeen[v4]
	ear, err := d.a.pod.listenICMP(from, d.limits.answer)
	if err != nil {
		return err
	}
	defer ear.close()
	way := []struct {
		who     string
		address fmt.Stringer
		says    string
	}{
		{"node a", d.a.router[v4], timeExceeded},
		{"gateway a", gatewayInternal[v4], timeExceeded},
		{"gateway b", d.b.gatewaySeen[v4], timeExceeded},
		{"node b", d.b.nodeSeen[v4], timeExceeded},
		{"pod b", to, echoReply},
	}
	for i, hop := range way {
		ttl := i + 1
		m, trip, err := ear.ask(ctx, echo{from: from, to: to, id: traceID, sequence: uint16(ttl), ttl: uint8(ttl), length: pingLength})
		if err == nil && (m.what != hop.says || m.from.String() != hop.address.String()) {
			err = fmt.Errorf("%v", m)
		}
		if err != nil {
			return &mismatch{fmt.Sprintf("at hop %d %s from %v, %s", ttl, hop.says, hop.address, hop.who), err.Error()}
		}
		s.Hops = append(s.Hops, Hop{ttl, m.from.String(), hop.who, trip.Seconds()})
	}
	s.Summary = fmt.Sprintf("the way from pod a to %v", to)
	s.Figure = &Figure{"length", float64(len(s.Hops)), "hops"}
	return nil
}
