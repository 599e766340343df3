package lender

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"strait.dev/strait/offload/protocol"
)

// board has the latest status of each pod, for the status stream. It is safe for concurrent use.
type board struct {
	mu      sync.Mutex
	version uint64 // rises with each change
	hello   *protocol.Hello
	helloAt uint64
	beatAt  uint64 // version of the last heartbeat
	needs   []string
	needsAt uint64
	pods    map[string]posted // by UID
	changed chan struct{}     // closed by a change
	stream  chan struct{}     // closed when another stream begins
	session context.Context   // of the stream; nil: none yet
}

type posted struct {
	status *protocol.PodStatus
	at     uint64 // version
}

func newBoard() *board {
	return &board{pods: make(map[string]posted), changed: make(chan struct{})}
}

// post sets the statuses of all pods, the needed contents, and the offer.
func (b *board) post(hello *protocol.Hello, statuses []*protocol.PodStatus, needs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.version
	if !reflect.DeepEqual(hello, b.hello) {
		b.version++
		b.hello, b.helloAt = hello, b.version
	}
	if !slices.Equal(needs, b.needs) {
		b.version++
		b.needs, b.needsAt = needs, b.version
	}
	pods := make(map[string]posted, len(statuses))
	for _, s := range statuses {
		was, ok := b.pods[s.UID]
		if !ok || !reflect.DeepEqual(was.status, s) {
			b.version++
			was = posted{s, b.version}
		}
		pods[s.UID] = was
	}
	b.pods = pods
	if b.version != before {
		b.signal()
	}
}

func (b *board) beat() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	b.beatAt = b.version
	b.signal()
}

// signal tells streams of a change. b.mu is held.
func (b *board) signal() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// begin begins a stream with a context, which ends the former one. It returns a channel that is
// closed when the new one has to end.
func (b *board) begin(ctx context.Context) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stream != nil {
		close(b.stream)
	}
	b.stream, b.session = make(chan struct{}), ctx
	return b.stream
}

// current returns the context of the latest stream; nil: there is none.
func (b *board) current() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil || b.session.Err() != nil {
		return nil
	}
	return b.session
}

// after returns the messages after a version for a borrower with a term, in no order but that the
// offer is the first; the version that they lead to; and a channel that is closed by the next
// change.
func (b *board) after(version uint64, term int32) (messages []protocol.Message, now uint64, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hello != nil && b.helloAt > version {
		hello := *b.hello
		hello.Term = term
		messages = append(messages, protocol.Message{Hello: &hello})
	}
	for _, p := range b.pods {
		if p.at > version {
			messages = append(messages, protocol.Message{Pod: p.status})
		}
	}
	if b.needsAt > version {
		messages = append(messages, protocol.Message{Needs: &protocol.Needs{Hashes: b.needs}})
	}
	if b.beatAt > version {
		messages = append(messages, protocol.Message{Heartbeat: true})
	}
	return messages, b.version, b.changed
}

func (b *board) ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hello != nil
}
