//go:build linux

package endpoint

import (
	"context"
	"fmt"
	"time"
)

const (
	beat   = 50 * time.Millisecond // between parts of a flow
	part   = 1024                  // bytes
	starve = 15 * time.Second      // how long a flow may receive nothing
)

// Flow sends on a connection until ctx ends, and compares what comes back. It calls begun when the connection is
// open, or cannot be opened.
func Flow(ctx context.Context, o FlowOrder, begun func()) Result {
	ctx, end := context.WithTimeout(ctx, o.Longest)
	defer end()
	c := Check{ID: "flow", Protocol: TCP, To: o.To, Source: o.Source, Patience: o.Patience}
	first, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	var r Result
	for conn, is := c.dial(first); ; conn, is = c.dial(first) {
		if r = is; conn != nil {
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
			defer stop()
			begun()
			return c.checkSource(pace(ctx, o.Marker, conn, r, func() {}))
		}
		select {
		case <-first.Done():
			begun()
			return r
		case <-time.After(again):
		}
	}
}

// deadlined is a connection with deadlines.
type deadlined interface {
	Read([]byte) (int, error)
	Write([]byte) (int, error)
	SetDeadline(time.Time) error
}

// pace sends a part on each beat, waits for its echo, and calls echoed, until ctx ends.
func pace(ctx context.Context, m Marker, conn deadlined, r Result, echoed func()) Result {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	b := make([]byte, part)
	for ctx.Err() == nil {
		begin := time.Now()
		_ = conn.SetDeadline(begin.Add(starve)) // fails only on a closed socket
		if ctx.Err() != nil {
			break // ctx may have ended before the deadline
		}
		m.fill(b, r.Bytes)
		_, err := conn.Write(b)
		for n := 0; err == nil && n < part; {
			var more int
			more, err = conn.Read(b[n:part])
			if at := m.wrong(b[n:n+more], r.Bytes); at >= 0 {
				return r.failed(Corrupted, fmt.Sprintf("byte %d of the flow came back changed", r.Bytes+int64(at)))
			}
			n, r.Bytes = n+more, r.Bytes+int64(more)
		}
		r.Silence = max(r.Silence, time.Since(begin))
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			return r.failed(because(err), fmt.Sprintf("the flow ended after %d bytes: %v", r.Bytes, err))
		}
		echoed()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return r
}
