//go:build linux

package underlay

import (
	"encoding/binary"
	"maps"
	"sync"
	"sync/atomic"
)

// WireGuard messages start with their type and three zero bytes; indices are little-endian
// (wireguard.com/protocol). Each handshake message contains an index chosen by its sender, which the peer
// puts into its answers.
const (
	messageInitiation = 1 // sender index at 4
	messageResponse   = 2 // sender index at 4, receiver index at 8
	messageCookie     = 3 // receiver index at 4
	messageTransport  = 4 // receiver index at 4

	initiationSize = 148
	responseSize   = 92
	minMessageSize = 32 // an empty transport message
	// transportHeader is the length of the header of a transport message: type, receiver index at 4, counter at 8.
	transportHeader = 16
)

// routesPerLink is how many of its newest indices a link keeps. Each peer needs at most four (the previous,
// current and next session, and a handshake in progress), none for longer than 180 s; the rest is for
// handshakes that fail.
const routesPerLink = 64

// announces returns the index that a sent message announces, if it is a handshake message.
func announces(message []byte) (index uint32, ok bool) {
	switch {
	case len(message) == initiationSize && binary.LittleEndian.Uint32(message) == messageInitiation:
	case len(message) == responseSize && binary.LittleEndian.Uint32(message) == messageResponse:
	default:
		return 0, false
	}
	return binary.LittleEndian.Uint32(message[4:]), true
}

// isInitiation reports whether a message starts like an initiation.
func isInitiation(message []byte) bool {
	return len(message) >= minMessageSize && binary.LittleEndian.Uint32(message) == messageInitiation
}

func isResponse(message []byte) bool {
	return len(message) == responseSize && message[0] == messageResponse
}

func isCookie(message []byte) bool { return len(message) > 0 && message[0] == messageCookie }

// addressee returns the receiver index of a received message that is not an initiation. ok is false if it is
// not a WireGuard message.
func addressee(message []byte) (index uint32, ok bool) {
	if len(message) < minMessageSize {
		return 0, false
	}
	switch binary.LittleEndian.Uint32(message) {
	case messageResponse:
		return binary.LittleEndian.Uint32(message[8:]), true
	case messageCookie, messageTransport:
		return binary.LittleEndian.Uint32(message[4:]), true
	}
	return 0, false
}

// routes maps receiver indices to sessions. Lookups take no lock; changes, one per handshake, copy the table.
// Indices are random 32-bit numbers: if two links choose the same, the newer wins, and the other link recovers
// with its next handshake.
type routes struct {
	table   atomic.Pointer[map[uint32]*session] // never modified once stored
	mu      sync.Mutex                          // serialises changes
	indices map[*session]*recent                // protected by mu
}

// recent is a ring of a session's newest indices.
type recent struct {
	indices [routesPerLink]uint32
	used    int // number of indices ever added
}

// to returns the session of an index, or nil.
func (r *routes) to(index uint32) *session {
	table := r.table.Load()
	if table == nil {
		return nil
	}
	return (*table)[index]
}

// learn maps an index to s, and removes the oldest index of s when it has too many.
func (r *routes) learn(index uint32, s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.indices[s]
	if known == nil || r.to(index) == s {
		return // s is closed, or the index is known
	}
	table := r.copy()
	slot := &known.indices[known.used%routesPerLink]
	if known.used >= routesPerLink && table[*slot] == s {
		delete(table, *slot)
	}
	*slot = index
	known.used++
	table[index] = s
	r.table.Store(&table)
}

// join allows s to learn indices.
func (r *routes) join(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.indices == nil {
		r.indices = make(map[*session]*recent)
	}
	r.indices[s] = new(recent)
}

// leave removes s and its indices.
func (r *routes) leave(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.indices, s)
	table := r.copy()
	maps.DeleteFunc(table, func(_ uint32, owner *session) bool { return owner == s })
	r.table.Store(&table)
}

func (r *routes) copy() map[uint32]*session {
	if table := r.table.Load(); table != nil {
		return maps.Clone(*table)
	}
	return make(map[uint32]*session)
}
