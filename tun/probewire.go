package tun

import (
	"encoding/binary"
	"math"
	"time"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
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
// that size; kind 4, with the same sequence, says so. See pathProber.
//
// The inner MTU is what the sender's own interfaces and its path to the receiver carry. All probes are
// padded with zeros. Later versions may append fields; receivers ignore what they do not know.
const (
	probePort    = 6093
	probeLen     = 32
	probeMagic   = 0x53545250
	probeVersion = 1

	probeHello   = 1
	probeLeaving = 2
	probeAsk     = 3
	probeAnswer  = 4

	maxHeld    = math.MaxUint32 * time.Microsecond
	maxSilence = math.MaxUint32 * time.Millisecond

	// probeSize is the least size of a probe's packet in bytes: WireGuard messages of that size have
	// priority over data.
	probeSize = underlay.ControlSize - device.MessageTransportSize
	// probeHeaders is the length of the headers of a probe's packet, bytes.
	probeHeaders = packet.IPv6HeaderLen + packet.UDPHeaderLen
)

type probe struct {
	kind     uint8
	mtu      uint16
	sequence uint64
	arrived  uint64
	held     time.Duration // whole microseconds on the wire, at most maxHeld
	silence  time.Duration // whole milliseconds on the wire, at most maxSilence
}

func (p probe) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, probeMagic)
	b = append(b, probeVersion, p.kind)
	b = binary.BigEndian.AppendUint16(b, p.mtu)
	b = binary.BigEndian.AppendUint64(b, p.sequence)
	b = binary.BigEndian.AppendUint64(b, p.arrived)
	b = binary.BigEndian.AppendUint32(b, uint32(min(p.held, maxHeld)/time.Microsecond))
	return binary.BigEndian.AppendUint32(b, uint32(min(p.silence, maxSilence)/time.Millisecond))
}

func parseProbe(b []byte) (probe, bool) {
	if len(b) < probeLen || binary.BigEndian.Uint32(b) != probeMagic || b[4] < probeVersion {
		return probe{}, false
	}
	p := probe{
		kind: b[5], mtu: binary.BigEndian.Uint16(b[6:]), sequence: binary.BigEndian.Uint64(b[8:]), arrived: binary.BigEndian.Uint64(b[16:]),
		held:    time.Duration(binary.BigEndian.Uint32(b[24:])) * time.Microsecond,
		silence: time.Duration(binary.BigEndian.Uint32(b[28:])) * time.Millisecond,
	}
	return p, p.kind >= probeHello && p.kind <= probeAnswer
}

// isProbe reports whether a valid IP packet from the tunnel goes to the port of probes, between the link's addresses. Probes
// have neither extension headers nor fragments. Their checksum is not checked: they are authenticated.
func (l *Link) isProbe(b []byte) bool {
	if len(b) < probeHeaders || b[0]>>4 != 6 || b[6] != packet.ProtoUDP || binary.BigEndian.Uint16(b[packet.IPv6HeaderLen+2:]) != probePort {
		return false
	}
	src, dst := addresses(b)
	return src == l.far && dst == l.own
}
