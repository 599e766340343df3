package nodeprobe

import (
	"encoding/binary"
	"time"
)

// Port is the UDP port of a gateway's internal address that receives requests.
const Port = 6095

// Len is the length of a message of this version in bytes.
const Len = 20

// RestInterval is the time between two requests of a node until the gateway has said another.
const RestInterval = 250 * time.Millisecond

// MinInterval is the least time between two requests.
const MinInterval = 100 * time.Millisecond

// RepeatInterval is the time after which a node repeats a request that is not answered. A
// gateway answers 25 requests of a node per second.
const RepeatInterval = 100 * time.Millisecond

const (
	magic   = 0x5354524e
	version = 1

	kindRequest = 1
	kindAnswer  = 2
)

// State is the state of a gateway. The zero value is Unknown.
type State uint8

// The states, with their numbers in the message.
const (
	Unknown State = 0
	NoLinks State = 1 // no link to the remote cluster is up
	Leaving State = 2 // shutting down; it forwards for some seconds more
	LinksUp State = 3 // at least one link is up
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case NoLinks:
		return "no_links"
	case Leaving:
		return "leaving"
	case LinksUp:
		return "links_up"
	}
	return "unknown"
}

// Message is a request or an answer.
type Message struct {
	Answer   bool
	State    State         // of the gateway that answers
	Sequence uint64        // an answer has that of its request
	Interval time.Duration // at which the gateway asks the node to probe it, in whole milliseconds
}

// Put writes the message to the first Len bytes of b.
func (m Message) Put(b []byte) {
	_ = b[Len-1]
	binary.BigEndian.PutUint32(b, magic)
	b[4], b[5], b[6], b[7] = version, kindRequest, byte(m.State), 0
	if m.Answer {
		b[5] = kindAnswer
	}
	binary.BigEndian.PutUint64(b[8:], m.Sequence)
	binary.BigEndian.PutUint32(b[16:], uint32(m.Interval.Milliseconds()))
}

// Parse reads a message. It reports false if b is none.
func Parse(b []byte) (m Message, ok bool) {
	if len(b) < Len || binary.BigEndian.Uint32(b) != magic || b[4] < version || b[5] != kindRequest && b[5] != kindAnswer {
		return Message{}, false
	}
	m = Message{
		Answer: b[5] == kindAnswer, State: State(b[6]), Sequence: binary.BigEndian.Uint64(b[8:]),
		Interval: time.Duration(binary.BigEndian.Uint32(b[16:])) * time.Millisecond,
	}
	if m.State > LinksUp {
		m.State = Unknown
	}
	return m, true
}
