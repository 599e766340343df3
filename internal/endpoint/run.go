//go:build linux

package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// parallel is the number of sequences that run at once.
const parallel = 8

// Run runs all sequences and returns one result per check, in order. If ctx ends, the
// remaining checks are reported as not tried.
func Run(ctx context.Context, o Order) []Result {
	results := make([][]Result, len(o.Sequences))
	room := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i, s := range o.Sequences {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			results[i] = s.run(ctx, o.Marker)
		})
	}
	all.Wait()
	var joined []Result
	for _, of := range results {
		joined = append(joined, of...)
	}
	return joined
}

func (s Sequence) run(ctx context.Context, m Marker) []Result {
	results := make([]Result, 0, len(s))
	for _, c := range s {
		switch {
		case len(results) > 0 && results[0].Failure != "":
			results = append(results, Result{ID: c.ID}.failed(NotTried, "the first check of this destination failed"))
		case ctx.Err() != nil:
			results = append(results, Result{ID: c.ID}.failed(NotTried, "the time limit was reached"))
		default:
			results = append(results, c.run(ctx, m))
		}
	}
	return results
}

func (c Check) run(ctx context.Context, m Marker) Result {
	ctx, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	switch c.Protocol {
	case TCP:
		return c.retry(ctx, func() Result { return c.tcp(ctx, m) })
	case UDP, ICMP:
		return c.retry(ctx, func() Result { return c.datagram(ctx, m) })
	}
	return Result{ID: c.ID}.failed(NotPermitted, fmt.Sprintf("unknown protocol %q", c.Protocol))
}

const (
	again = 200 * time.Millisecond // between attempts
	// fresh is how long one socket is used. A node that did not know a Service when the
	// first packet came keeps its decision for as long as that socket's port is used.
	fresh = 2 * time.Second
	// brief is how long an interrupted attempt must have lasted for its result to count.
	brief = time.Second
)

// retry repeats an attempt while there is no reply, or one reports a temporary failure.
func (c Check) retry(ctx context.Context, try func() Result) Result {
	var last Result
	interrupted := 0
	for tries := 1; ; tries++ {
		began := time.Now()
		r := try()
		r.Tries, r.Interrupted = tries, interrupted
		switch r.Failure {
		case Refused, Unreachable, Closed, Timeout:
		default:
			return r
		}
		if ctx.Err() != nil && time.Since(began) < brief && last.Failure != "" {
			return last
		}
		if last = r; r.RTT > 0 {
			interrupted++
		}
		select {
		case <-ctx.Done():
			return r
		case <-time.After(again):
		}
	}
}

// because maps an error of a socket to a failure.
func because(err error) Failure {
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return Refused
	case errors.Is(err, unix.EMSGSIZE):
		return Big
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, unix.ETIMEDOUT):
		return Timeout
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Closed
	}
	return Unreachable // EHOSTUNREACH, ENETUNREACH, EACCES, EPERM of a filter, ENETDOWN
}

// checkSource compares the source address that the server saw.
func (c Check) checkSource(r Result) Result {
	if c.Source.IsValid() && r.Source != c.Source {
		return r.failed(WrongSource, fmt.Sprintf("the server saw %v instead of %v", r.Source, c.Source))
	}
	return r
}
