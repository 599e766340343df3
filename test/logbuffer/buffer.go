// Package logbuffer holds what a program logs, for tests that read it while the program
// runs.
package logbuffer

import (
	"bytes"
	"sync"
)

// Buffer is a log. The zero value is empty. It is safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed by the next write; nil if no reader waits
}

// Write appends to the log. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	return b.text.Write(p)
}

// String returns the log.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Follow returns the log, and a channel that is closed when more is written.
func (b *Buffer) Follow() (string, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return b.text.String(), b.more
}
