package demo

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	pings  = 20
	pingID = 0x5354
)

// ping pings pod b from pod a and records the path of the first ping.
func (d *Demo) ping(f int) func(context.Context, *Step) error {
	return func(ctx context.Context, s *Step) error {
		from, to := d.a.Address[f], d.b.PodSeen[f]
		listener, err := d.a.pod.listenICMP(from, d.limits.reply)
		if err != nil {
			return err
		}
		defer listener.close()
		recorder := recordPath(pingID, d.a, d.b)
		defer recorder.stop()

		trips := make([]time.Duration, pings)
		for i := range trips {
			m, trip, err := listener.exchange(ctx, echo{from: from, to: to, id: pingID, sequence: uint16(i + 1), ttl: pingTTL, length: pingLength})
			if err == nil && (m.what != echoReply || m.from != to) {
				err = fmt.Errorf("%v", m)
			}
			if err != nil {
				return &mismatch{fmt.Sprintf("%s from %v to ping %d of %d", echoReply, to, i+1, pings), err.Error()}
			}
			trips[i] = trip
		}
		s.Path = recorder.stop()
		if err := compare(s.Path, d.expectedPath(f)); err != nil {
			return err
		}
		slices.Sort(trips)
		s.Summary = fmt.Sprintf("%v to %v: %d of %d pings answered", from, to, pings, pings)
		s.Figure = &Figure{"round trip", trips[pings/2].Seconds(), "s"}
		return nil
	}
}
