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

// maxRunTime is how long a run may take in an agent, with whatever waits for it.
const maxRunTime = 3 * time.Minute

// endTimeout is how long an agent may take to end after it has said what it had to say.
const endTimeout = 5 * time.Second

// ask has an agent try sequences of checks.
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
		return nil, fmt.Errorf("cluster %s: agent %s: %w; is its image that of this version?", s.id, agent, err)
	}
	return results, nil
}

// session is what an agent does until it is told to end.
type session struct {
	input  *io.PipeWriter
	output *json.Decoder
	ended  chan struct{} // closed when the agent has
	cancel context.CancelFunc
}

// begin has an agent do something until end is called, which has to be.
func (s *site) begin(ctx context.Context, agent, what string, order any) *session {
	ctx, cancel := context.WithTimeout(ctx, maxRunTime)
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
	go func() { _ = json.NewEncoder(input).Encode(order) }() // whether it arrived, the answer tells
	return &session{input, json.NewDecoder(output), ended, cancel}
}

// next reads the next thing that the agent says.
func (s *session) next(into any) error { return s.output.Decode(into) }

// end tells the agent to end, and reads what came of it.
func (s *session) end(into any) error {
	_ = s.input.Close()
	defer s.cancel()
	if err := s.next(into); err != nil {
		return err
	}
	select { // an end in peace says nothing of connections that were cut
	case <-s.ended:
	case <-time.After(endTimeout):
	}
	return nil
}
