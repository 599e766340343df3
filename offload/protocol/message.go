package protocol

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Message is one line of the status stream. Exactly one field is set.
type Message struct {
	Hello     *Hello     `json:"hello,omitempty"` // the first message
	Pod       *PodStatus `json:"pod,omitempty"`
	Needs     *Needs     `json:"needs,omitempty"`
	Synced    bool       `json:"synced,omitempty"` // the snapshot is complete
	Heartbeat bool       `json:"heartbeat,omitempty"`
}

// Hello describes a lender and its offer. A changed offer is another Hello.
type Hello struct {
	Epoch      string              `json:"epoch"` // of this run of the lender
	Term       int32               `json:"term"`  // of the borrower; lists of lower ones have no effect
	Resources  corev1.ResourceList `json:"resources,omitempty"`
	Largest    corev1.ResourceList `json:"largest,omitempty"`    // machine: a pod that requests more does not run
	Namespaces []string            `json:"namespaces,omitempty"` // that are lent
}

// PodStatus is what a lender says about a pod. The latest one about a UID counts.
type PodStatus struct {
	UID     string `json:"uid"`
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`  // of StateRefused, as of a condition
	Message string `json:"message,omitempty"` // of StateRefused
	// Ended is whether, in StateRefused, the lender knows no twin and will make none: if the pod
	// ran, it does not any more.
	Ended bool `json:"ended,omitempty"`
	// Outdated is whether the lender has another template than that of the list, and needs the latter.
	Outdated bool `json:"outdated,omitempty"`
	// Made is how many twins were made so far.
	Made int32 `json:"made,omitempty"`
	// Status is that of the twin, with the provider's addresses, in StateMade.
	Status *corev1.PodStatus `json:"status,omitempty"`
}

// Size returns about how many bytes of memory a status takes.
func (p *PodStatus) Size() int {
	const fixed = 256
	n := fixed + len(p.UID) + len(p.Reason) + len(p.Message)
	if p.Status != nil {
		n += p.Status.Size()
	}
	return n
}

// Needs are the hashes of contents that the lender needs now. The latest message counts.
type Needs struct {
	Hashes []string `json:"hashes"`
}

// State is the progress of a pod in the provider.
type State string

// The states of a pod.
const (
	StateUnknown State = "Unknown" // the lender needs its template
	StatePending State = "Pending" // it is stored, or waits until a former pod of that name has ended
	StateRefused State = "Refused" // no twin can be made now
	StateMade    State = "Made"    // Status is the twin's, or the last one of the last twin
	StateGone    State = "Gone"    // it has no twin, and none will be made
)

func (m *Message) validate() error {
	fields := 0
	for _, set := range []bool{m.Hello != nil, m.Pod != nil, m.Needs != nil, m.Synced, m.Heartbeat} {
		if set {
			fields++
		}
	}
	switch {
	case fields != 1:
		return fmt.Errorf("a message has %d fields, not one", fields)
	case m.Hello != nil:
		return m.Hello.validate()
	case m.Pod != nil:
		return m.Pod.validate()
	case m.Needs != nil && (len(m.Needs.Hashes) > MaxNeeds || slices.ContainsFunc(m.Needs.Hashes, func(h string) bool { return !isHash(h) })):
		return fmt.Errorf("needs: is not a list of up to %d hashes", MaxNeeds)
	}
	return nil
}

func (h *Hello) validate() error {
	switch {
	case !isHash(h.Epoch):
		return errors.New("hello.epoch: is not one")
	case h.Term < 0:
		return errors.New("hello.term: is negative")
	case len(h.Resources) > maxLent || len(h.Largest) > maxLent || len(h.Namespaces) > maxLent:
		return fmt.Errorf("hello: more than %d resources or namespaces", maxLent)
	case slices.ContainsFunc(h.Namespaces, func(name string) bool { return !isLabel(name) }):
		return errors.New("hello.namespaces: one is not the name of a namespace")
	}
	for field, list := range map[string]corev1.ResourceList{"resources": h.Resources, "largest": h.Largest} {
		for _, q := range list {
			if q.Sign() < 0 {
				return fmt.Errorf("hello.%s: one is negative", field)
			}
		}
	}
	return nil
}

func (p *PodStatus) validate() error {
	switch {
	case !isLabel(p.UID):
		return errors.New("pod.uid: is not a UID")
	case !slices.Contains([]State{StateUnknown, StatePending, StateRefused, StateMade, StateGone}, p.State):
		return errors.New("pod.state: is not one")
	case (p.State == StateMade) != (p.Status != nil):
		return errors.New("pod.status: belongs to the state Made, and to no other")
	case p.Ended && p.State != StateRefused:
		return errors.New("pod.ended: belongs to the state Refused, and to no other")
	case p.Made < 0:
		return errors.New("pod.made: is negative")
	case len(p.Reason) > maxText || len(p.Message) > maxText:
		return fmt.Errorf("pod: a text is longer than %d bytes", maxText)
	}
	return nil
}

// Write writes a message as one line.
func Write(w io.Writer, m Message) error {
	if err := m.validate(); err != nil {
		return err
	}
	line, err := encode(m, MaxLine)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Reader reads the messages of a status stream.
type Reader struct{ lines *bufio.Scanner }

// NewReader returns a reader of a stream.
func NewReader(r io.Reader) *Reader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), MaxLine+1)
	return &Reader{lines}
}

// Read returns the next message, which is valid; io.EOF at the end of the stream.
func (r *Reader) Read() (m Message, err error) {
	if !r.lines.Scan() {
		if err := r.lines.Err(); err != nil {
			return m, fmt.Errorf("read the status stream: %w", err)
		}
		return m, io.EOF
	}
	if err := decode(r.lines.Bytes(), MaxLine, &m); err != nil {
		return m, err
	}
	return m, m.validate()
}
