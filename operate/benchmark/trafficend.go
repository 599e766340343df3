package benchmark

import (
	"context"
	"errors"
	"io"

	"strait.dev/strait/bench/rig/traffic"
)

type end struct {
	*traffic.Client
	ended chan struct{} // closed when the process has exited
}

type pipe struct {
	io.Reader
	io.Writer
	close func() error
}

func (p pipe) Close() error { return p.close() }

// startEnd starts the traffic process in a pod and waits until it listens. It runs until
// ctx ends, or Close.
func (s podEnd) startEnd(ctx context.Context) (*end, error) {
	responses, responseWriter := io.Pipe()
	requests, requestWriter := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	e := &end{ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		err := s.crew.Exec(ctx, s.agent, requests, responseWriter, "bench", "peer", "end")
		if err == nil {
			err = io.EOF
		}
		_, _ = responseWriter.CloseWithError(err), requests.CloseWithError(err)
	}()
	e.Client = traffic.NewClient(pipe{responses, requestWriter, func() error {
		cancel()
		return errors.Join(responses.Close(), requestWriter.Close())
	}})
	if _, err := e.Count(); err != nil { // answered once it listens
		e.stop()
		return nil, err
	}
	return e, nil
}

func (e *end) stop() {
	_ = e.Close() // the pod may be deleted already
	<-e.ended
}
