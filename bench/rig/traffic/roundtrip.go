//go:build linux

package traffic

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"strait.dev/strait/bench/measure"
)

// patience is the time limit for a response before the path counts as broken.
const patience = 5 * time.Second

// RoundTrips returns when the duration is over.
func (e *End) RoundTrips(r RoundTrips, l *Latencies) error {
	connections := make([]net.Conn, r.Connections)
	for i := range connections {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(r.To, portTCPEcho).String(), patience)
		if err != nil {
			return fmt.Errorf("no connection through the gateways: %w", err)
		}
		defer c.Close()
		connections[i] = c
	}
	seen := newRecorder()
	failed := make([]error, len(connections))
	var all sync.WaitGroup
	for i, c := range connections {
		all.Go(func() { failed[i] = exchange(c, r.Size, r.Duration, seen) })
	}
	all.Wait()
	*l = seen.latencies()
	return errors.Join(failed...)
}

// exchange records round trips over one connection for a while, at least one.
func exchange(c net.Conn, size int, d time.Duration, to *recorder) error {
	message := make([]byte, size)
	if err := c.SetDeadline(time.Now().Add(d + patience)); err != nil {
		return err
	}
	for now := to.clock.Now(); ; {
		if _, err := c.Write(message); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, message); err != nil {
			return err
		}
		then := now
		now = to.clock.Now()
		to.record(then, now)
		if now >= d {
			return nil
		}
	}
}

// recorder collects latencies from several goroutines.
type recorder struct {
	clock measure.Clock // starts with the recorder

	sync.Mutex // protects seen
	seen       *measure.Latencies
}

func newRecorder() *recorder {
	return &recorder{clock: measure.NewClock(), seen: measure.NewLatencies()}
}

func (r *recorder) record(asked, answered time.Duration) {
	r.Lock()
	r.seen.Record(asked, answered)
	r.Unlock()
}

func (r *recorder) latencies() Latencies {
	r.Lock()
	defer r.Unlock()
	return latenciesOf(r.seen, r.clock.Now())
}

func latenciesOf(seen *measure.Latencies, elapsed time.Duration) Latencies {
	at := seen.At
	return Latencies{seen.Count(), elapsed, at(0.5), at(0.9), at(0.99), at(0.999), at(1)}
}
