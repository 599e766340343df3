package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"strait.dev/strait/internal/endpoint"
)

// maxRunTime is the maximum duration of a run in an agent, including its startup.
const maxRunTime = 3 * time.Minute

// endTimeout is the time that an agent has to exit after its last output.
const endTimeout = 5 * time.Second

// ask has an agent run sequences of checks.
func (s *site) ask(ctx context.Context, agent string, o endpoint.Order) (results []endpoint.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxRunTime)
	defer cancel()
	in, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := s.agentGroup(agent).Exec(ctx, agent, bytes.NewReader(in), &out, "agent", "probe"); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", s.id, err)
	}
	if err := json.Unmarshal(out.Bytes(), &results); err != nil {
		return nil, fmt.Errorf("cluster %s: agent %s: %w; check that its image has the version of this strait", s.id, agent, err)
	}
	return results, nil
}

// session is a command in an agent that runs until it is ended.
type session struct {
	input  *io.PipeWriter
	orders chan<- any // that are written to input one after the other
	output *json.Decoder
	ended  chan struct{} // closed when the command has exited
	cancel context.CancelFunc
}

// begin starts a command in an agent, with a time limit. The caller must call end or cancel.
func (s *site) begin(ctx context.Context, agent, what string, order any, limit time.Duration) *session {
	ctx, cancel := context.WithTimeout(ctx, limit)
	fromUs, input := io.Pipe()
	output, fromAgent := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := s.agentGroup(agent).Exec(ctx, agent, fromUs, fromAgent, "agent", what)
		_ = fromUs.CloseWithError(io.ErrClosedPipe)
		if err == nil {
			err = io.EOF
		}
		_ = fromAgent.CloseWithError(err)
	}()
	orders := make(chan any, 1)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case one := <-orders:
				_ = json.NewEncoder(input).Encode(one) // a failure shows as a missing answer
			}
		}
	}()
	orders <- order
	return &session{input, orders, json.NewDecoder(output), ended, cancel}
}

func (s *session) send(order any) { s.orders <- order }

func (s *session) next(into any) error { return s.output.Decode(into) }

func (s *session) end(into any) error {
	_ = s.input.Close()
	defer s.cancel()
	if err := s.next(into); err != nil {
		return err
	}
	select { // let the command exit normally, so that no connection is cut
	case <-s.ended:
	case <-time.After(endTimeout):
	}
	return nil
}
