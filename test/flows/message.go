package flows

import (
	"bytes"
	"encoding/binary"
)

// size is the size of a message in bytes: a marker, the flow's ID, the number, zeros.
const size = 64

// marker begins each message, so that messages are found in captured packets whatever
// encapsulates them.
var marker = []byte("\xf1\x0a\x57\xd3\x9e\x42\xb6\x08")

// makeMessage writes a message to b, which has size bytes.
func makeMessage(b []byte, id int, number uint64) {
	copy(b, marker)
	binary.BigEndian.PutUint32(b[8:], uint32(id))
	binary.BigEndian.PutUint64(b[12:], number)
}

// parseMessage parses a message.
func parseMessage(b []byte) (id int, number uint64, ok bool) {
	if len(b) < size || !bytes.HasPrefix(b, marker) {
		return 0, 0, false
	}
	return int(binary.BigEndian.Uint32(b[8:])), binary.BigEndian.Uint64(b[12:]), true
}

// eachMessage calls found with the ID of each message in a captured packet. A packet that
// the kernel has not segmented yet has several.
func eachMessage(packet []byte, found func(id int)) {
	for {
		i := bytes.Index(packet, marker)
		if i < 0 || len(packet) < i+12 {
			return
		}
		found(int(binary.BigEndian.Uint32(packet[i+8:])))
		packet = packet[i+12:]
	}
}
