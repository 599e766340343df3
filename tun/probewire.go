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
//	|  version = 2  | kind: 1 to 4  |   inner MTU of the sender     |
//	+---------------+---------------+-------------------------------+
//	|                       sequence (8 bytes)                      |
//	+---------------------------------------------------------------+
//	|                   silence, in milliseconds                    |
//	+---------------+-----------------------------------------------+
//	|   interval    |
//	+---------------+
//
// Kind 1 is a request. Kind 2 is an answer with the sequence of the request. Kind 3 is an answer
// from a sender that is shutting down, or has removed this link for one with other keys: the receiver
// prefers other links. Versions without kind 3 treat it as a missing answer and mark the link down. With sequence 0 it
// is a statement. Kind 4 is a statement; versions without it send a request at each tick, and need none.
//
// Silence is the time since the sender last received an authenticated packet from the receiver
// of the probe; the greatest number stands for that time or longer, and for never. Version 1 does
// not have it. Interval is the time between the ticks of the sender, in units of 10 ms; 0 stands for unknown, and
// is what senders pad with that do not know the field. Later versions may append fields; receivers
// ignore what they do not know. All are padded with zeros, some requests to the size of large packets: see
// pathProber.
//
// The inner MTU is what the sender's own interfaces and its path to the receiver carry. Versions
// that do not search the path send the inner MTU that they use.
const (
	probePort    = 6093
	probeLen     = 21
	probeLen2    = 20 // of version 2 without interval
	probeLen1    = 16 // of version 1
	probeMagic   = 0x53545250
	probeVersion = 2

	probeAsk       = 1
	probeAnswer    = 2
	probeLeaving   = 3
	probeStatement = 4

	// unstated is the silence in a probe of version 1, and maxSilence the greatest one.
	unstated   = -1
	maxSilence = math.MaxUint32 * time.Millisecond

	// intervalUnit is the unit of the interval.
	intervalUnit = 10 * time.Millisecond

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
	silence  time.Duration // whole milliseconds; unstated: version 1
	interval time.Duration // between its ticks, a multiple of intervalUnit; 0: unknown
}

func (p probe) append(b []byte) []byte {
	version := byte(probeVersion)
	if p.silence == unstated {
		version = 1
	}
	b = binary.BigEndian.AppendUint32(b, probeMagic)
	b = append(b, version, p.kind)
	b = binary.BigEndian.AppendUint16(b, p.mtu)
	b = binary.BigEndian.AppendUint64(b, p.sequence)
	if version > 1 {
		b = binary.BigEndian.AppendUint32(b, uint32(p.silence/time.Millisecond))
		b = append(b, byte(p.interval/intervalUnit))
	}
	return b
}

func parseProbe(b []byte) (probe, bool) {
	if len(b) < probeLen1 || binary.BigEndian.Uint32(b) != probeMagic || b[4] == 0 {
		return probe{}, false
	}
	p := probe{kind: b[5], mtu: binary.BigEndian.Uint16(b[6:]), sequence: binary.BigEndian.Uint64(b[8:]), silence: unstated}
	if b[4] > 1 {
		if len(b) < probeLen2 {
			return probe{}, false
		}
		p.silence = time.Duration(binary.BigEndian.Uint32(b[16:])) * time.Millisecond
		if len(b) >= probeLen {
			p.interval = time.Duration(b[20]) * intervalUnit
		}
	}
	return p, p.kind >= probeAsk && p.kind <= probeStatement
}

// isProbe reports whether a valid IP packet from the tunnel goes to the port of probes, between the link's addresses. Probes
// of all versions have neither extension headers nor fragments. Their checksum is not checked: they are authenticated.
func (l *Link) isProbe(b []byte) bool {
	if len(b) < probeHeaders || b[0]>>4 != 6 || b[6] != packet.ProtoUDP || binary.BigEndian.Uint16(b[packet.IPv6HeaderLen+2:]) != probePort {
		return false
	}
	src, dst := addresses(b)
	return src == l.prober.address && dst == l.own
}
