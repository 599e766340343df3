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

// parallel is how many sequences are tried at once.
const parallel = 8

// Run tries all sequences, and returns as many results as there are checks, in order.
// Where ctx ends, what was not tried says so.
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
			results = append(results, Result{ID: c.ID}.failed(NotTried, "there was no time left"))
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
		return c.insist(ctx, func() Result { return c.tcp(ctx, m) })
	case UDP, ICMP:
		return c.insist(ctx, func() Result { return c.datagram(ctx, m) })
	}
	return Result{ID: c.ID}.failed(NotPermitted, fmt.Sprintf("there is no protocol %q", c.Protocol))
}

const (
	again = 200 * time.Millisecond // before something is tried again
	// fresh is how long one socket is tried. A node that did not know a Service yet when
	// the first packet came goes on as it began for as long as that socket's port is used.
	fresh = 2 * time.Second
	// brief is how long a try that was cut short must have lasted to tell anything.
	brief = time.Second
)

// insist tries again while nothing comes back, or somebody answers that it does not work
// yet.
func (c Check) insist(ctx context.Context, try func() Result) Result {
	var last Result
	for {
		began := time.Now()
		r := try()
		switch r.Failure {
		case Refused, Unreachable, Closed, Timeout:
		default:
			return r
		}
		if ctx.Err() != nil && time.Since(began) < brief && last.Failure != "" {
			return last
		}
		last = r
		select {
		case <-ctx.Done():
			return r
		case <-time.After(again):
		}
	}
}

// because is what an error of a socket means.
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

// checkSource reports who the server saw.
func (c Check) checkSource(r Result) Result {
	if c.Source.IsValid() && r.Source != c.Source {
		return r.failed(WrongSource, fmt.Sprintf("the server saw %v instead of %v", r.Source, c.Source))
	}
	return r
}
