package link

import (
	"encoding/binary"
	"math"
	"time"
)

// A link probe, in a UDP datagram between link addresses:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                        magic "STRP"                           |
//	+---------------+---------------+-------------------------------+
//	|  version = 1  | kind: 1 to 4  |   inner MTU of the sender     |
//	+---------------+---------------+-------------------------------+
//	|                       sequence (8 bytes)                      |
//	+---------------------------------------------------------------+
//	|                        arrived (8 bytes)                      |
//	+---------------------------------------------------------------+
//	|                      held, in microseconds                    |
//	+---------------------------------------------------------------+
//	|                   silence, in milliseconds                    |
//	+---------------------------------------------------------------+
//
// Kind 1 is the probe of a tick, and kind 2 that of a sender that is shutting down, or has removed this
// link for one with other keys: the receiver prefers other links. Their sequence is one more than that
// of the sender's last one. Arrived is the sequence of the receiver's last probe that has arrived, 0 =
// none, and held the time since then. Silence is the time since the sender last received an
// authenticated packet from the receiver. The greatest number stands for that time or longer, and for
// never.
//
// Kind 3 asks whether a packet of the size in bytes that its sequence says arrives, and is padded to
// that size; kind 4, with the same sequence, says so. See Path.
//
// The inner MTU is what the sender's own interfaces and its path to the receiver carry. All probes are
// padded with zeros. Later versions may append fields; receivers ignore what they do not know.
const (
	// ProbeLen is the length of a probe without padding, bytes.
	ProbeLen     = 32
	probeMagic   = 0x53545250
	probeVersion = 1

	maxHeld = math.MaxUint32 * time.Microsecond
	// MaxSilence stands for that time or longer, and for never.
	MaxSilence = math.MaxUint32 * time.Millisecond
)

// The kinds of probes.
const (
	Hello       = 1
	Leaving     = 2
	AskSize     = 3
	SizeArrived = 4
)

// Probe is a probe as values.
type Probe struct {
	Kind     uint8
	MTU      uint16
	Sequence uint64        // of kinds AskSize and SizeArrived: bytes
	Arrived  uint64        // a sequence; 0 = none
	Held     time.Duration // whole microseconds on the wire
	Silence  time.Duration // whole milliseconds on the wire
}

// Append appends the bytes of a probe.
func (p Probe) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, probeMagic)
	b = append(b, probeVersion, p.Kind)
	b = binary.BigEndian.AppendUint16(b, p.MTU)
	b = binary.BigEndian.AppendUint64(b, p.Sequence)
	b = binary.BigEndian.AppendUint64(b, p.Arrived)
	b = binary.BigEndian.AppendUint32(b, uint32(min(p.Held, maxHeld)/time.Microsecond))
	return binary.BigEndian.AppendUint32(b, uint32(min(p.Silence, MaxSilence)/time.Millisecond))
}

// ParseProbe reads a probe. It reports false if b is none.
func ParseProbe(b []byte) (Probe, bool) {
	if len(b) < ProbeLen || binary.BigEndian.Uint32(b) != probeMagic || b[4] < probeVersion {
		return Probe{}, false
	}
	p := Probe{
		Kind: b[5], MTU: binary.BigEndian.Uint16(b[6:]), Sequence: binary.BigEndian.Uint64(b[8:]), Arrived: binary.BigEndian.Uint64(b[16:]),
		Held:    time.Duration(binary.BigEndian.Uint32(b[24:])) * time.Microsecond,
		Silence: time.Duration(binary.BigEndian.Uint32(b[28:])) * time.Millisecond,
	}
	return p, p.Kind >= Hello && p.Kind <= SizeArrived
}

// Unreached reports whether the sender says that it receives nothing.
func (p Probe) Unreached() bool { return p.Silence >= Misses*Interval }
