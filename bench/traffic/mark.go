package traffic

import (
	"encoding/binary"
	"time"
)

// MarkLen is the length in bytes of a Mark.
const MarkLen = 16

// Mark is the end of every datagram, after all headers:
//
//	0       4        8                16
//	| Trial | Number | Due            |
type Mark struct {
	Trial  uint32        // trial number: datagrams of an earlier trial may still arrive
	Number uint32        // within the trial
	Due    time.Duration // when it was due, by the sender's clock
}

// Put writes the mark to the last MarkLen bytes of a datagram, which must be long enough.
func (m Mark) Put(datagram []byte) {
	b := datagram[len(datagram)-MarkLen:]
	binary.BigEndian.PutUint32(b, m.Trial)
	binary.BigEndian.PutUint32(b[4:], m.Number)
	binary.BigEndian.PutUint64(b[8:], uint64(m.Due))
}

// MarkOf reads a mark. ok is false if the datagram is too short.
func MarkOf(datagram []byte) (m Mark, ok bool) {
	if len(datagram) < MarkLen {
		return m, false
	}
	b := datagram[len(datagram)-MarkLen:]
	m.Trial = binary.BigEndian.Uint32(b)
	m.Number = binary.BigEndian.Uint32(b[4:])
	m.Due = time.Duration(binary.BigEndian.Uint64(b[8:]))
	return m, true
}
