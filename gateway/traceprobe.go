package gateway

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"strait.dev/strait/packet"
)

// Probe describes a packet to trace: the SYN of a TCP connection or the SYN-ACK, a UDP
// datagram, an ICMP echo message. It is plain data.
type Probe struct {
	Protocol    string     `json:"protocol"` // see the constants
	Source      netip.Addr `json:"source"`
	Destination netip.Addr `json:"destination"`
	SourcePort  uint16     `json:"sourcePort,omitempty"` // of TCP and UDP
	Port        uint16     `json:"port,omitempty"`       // of the destination
	Reply       bool       `json:"reply,omitempty"`      // SYN-ACK, or echo reply
	TTL         uint8      `json:"ttl"`                  // or hop limit
	Size        int        `json:"size"`                 // of the IP packet, bytes; 0 = no payload
	MSS         uint16     `json:"mss,omitempty"`        // that a SYN announces, bytes; 0 = none
	// MayFragment clears DF in IPv4. Hosts that discover path MTUs, as Linux does, set DF in
	// all packets.
	MayFragment bool `json:"mayFragment,omitempty"`
}

// The protocols of probes.
const (
	TCP  = "tcp"
	UDP  = "udp"
	ICMP = "icmp" // ICMPv6 between IPv6 addresses
)

// Types of echo messages (RFC 792, RFC 4443 section 4).
const (
	echoReply4, echo4 = 0, 8
	echo6, echoReply6 = 128, 129
	tcpOptionMSSLen   = 4
)

// Check returns an error for a probe that is not a valid packet.
func (p Probe) Check() error {
	switch {
	case !p.Source.IsValid() || !p.Destination.IsValid():
		return fmt.Errorf("source or destination is missing; give both addresses")
	case p.Source.Is4In6() || p.Destination.Is4In6() || p.Source.Zone() != "" || p.Destination.Zone() != "":
		return fmt.Errorf("%v to %v: write addresses like 10.0.1.5 or fd00:10::5", p.Source, p.Destination)
	case p.Source.Is4() != p.Destination.Is4():
		return fmt.Errorf("%v and %v are of different families; give two of IPv4 or two of IPv6", p.Source, p.Destination)
	case p.Protocol != TCP && p.Protocol != UDP && p.Protocol != ICMP:
		return fmt.Errorf("protocol %q: choose %s, %s or %s", p.Protocol, TCP, UDP, ICMP)
	case p.TTL == 0:
		return fmt.Errorf("TTL 0 is not valid; give 1 to 255")
	case p.Size != 0 && p.Size < p.least() || p.Size > packet.MaxLen:
		return fmt.Errorf("size %d is out of range; give %d (no payload) to %d bytes", p.Size, p.least(), packet.MaxLen)
	}
	return nil
}

// Length returns the length of the packet in bytes.
func (p Probe) Length() int { return max(p.Size, p.least()) }

// least returns the length without payload.
func (p Probe) least() int { return fixedHeader(p.version()) + p.upperHeader() }

func (p Probe) version() uint8 {
	if p.Source.Is4() {
		return 4
	}
	return 6
}

func (p Probe) upperHeader() int {
	switch {
	case p.Protocol == TCP && p.MSS != 0:
		return packet.TCPHeaderLen + tcpOptionMSSLen
	case p.Protocol == TCP:
		return packet.TCPHeaderLen
	case p.Protocol == UDP:
		return packet.UDPHeaderLen
	}
	return packet.ICMPHeaderLen
}

// Packet returns the IP packet of a valid probe, in new memory.
func (p Probe) Packet() []byte {
	b := make([]byte, p.Length())
	header := fixedHeader(p.version())
	proto, checksum := p.putUpper(b[header:])
	if p.version() == 4 {
		p.putIPv4(b, proto)
	} else {
		b[0] = 6 << 4
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-header))
		b[6], b[7] = proto, p.TTL
		copy(b[8:], p.Source.AsSlice())
		copy(b[24:], p.Destination.AsSlice())
	}
	var pseudo uint16
	if proto != packet.ProtoICMP {
		pseudo = packet.PseudoSum(p.Source, p.Destination, proto, len(b)-header)
	}
	sum := ^packet.Sum(b[header:], pseudo)
	if sum == 0 && proto == packet.ProtoUDP {
		sum = 0xffff // 0 would mean that there is none, RFC 768
	}
	binary.BigEndian.PutUint16(b[header+checksum:], sum)
	return b
}

func (p Probe) putIPv4(b []byte, proto uint8) {
	b[0] = 4<<4 | packet.IPv4HeaderLen/4
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	if !p.MayFragment {
		b[6] = 0x40 // DF
	}
	b[8], b[9] = p.TTL, proto
	copy(b[12:], p.Source.AsSlice())
	copy(b[16:], p.Destination.AsSlice())
	binary.BigEndian.PutUint16(b[10:], ^packet.Sum(b[:packet.IPv4HeaderLen], 0))
}

// putUpper writes the upper-layer header and returns the offset of its checksum.
func (p Probe) putUpper(u []byte) (proto uint8, checksum int) {
	if p.Protocol != ICMP {
		binary.BigEndian.PutUint16(u, p.SourcePort)
		binary.BigEndian.PutUint16(u[2:], p.Port)
	}
	switch p.Protocol {
	case TCP:
		u[12], u[13] = byte(p.upperHeader()/4)<<4, packet.TCPFlagSYN
		if p.Reply {
			u[13] |= packet.TCPFlagACK
		}
		binary.BigEndian.PutUint16(u[14:], 0xffff) // window
		if p.MSS != 0 {
			u[packet.TCPHeaderLen], u[packet.TCPHeaderLen+1] = 2, tcpOptionMSSLen
			binary.BigEndian.PutUint16(u[packet.TCPHeaderLen+2:], p.MSS)
		}
		return packet.ProtoTCP, 16
	case UDP:
		binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
		return packet.ProtoUDP, 6
	}
	u[7] = 1 // of some sequence
	if p.version() == 4 {
		u[0] = echo4
		if p.Reply {
			u[0] = echoReply4
		}
		return packet.ProtoICMP, 2
	}
	u[0] = echo6
	if p.Reply {
		u[0] = echoReply6
	}
	return packet.ProtoICMPv6, 2
}

// ReadProbe returns the probe that describes a packet. ok is false if no probe does.
func ReadProbe(b []byte) (p Probe, ok bool) {
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone || ip.Fragment != packet.Unfragmented {
		return p, false
	}
	b = b[:ip.Len]
	u := ip.Upper(b)
	p = Probe{Source: ip.Src, Destination: ip.Dst, TTL: ip.TTL, Size: len(b), MayFragment: !ip.DF}
	switch {
	case ip.Proto == packet.ProtoTCP && len(u) >= packet.TCPHeaderLen:
		p.Protocol, p.Reply = TCP, u[13]&packet.TCPFlagACK != 0
		p.MSS, _ = packet.MSS(b, &ip)
	case ip.Proto == packet.ProtoUDP && len(u) >= packet.UDPHeaderLen:
		p.Protocol = UDP
	case (ip.Proto == packet.ProtoICMP || ip.Proto == packet.ProtoICMPv6) && len(u) >= packet.ICMPHeaderLen:
		p.Protocol, p.Reply = ICMP, u[0] == echoReply4 || u[0] == echoReply6
		return p, true
	default:
		return p, false
	}
	p.SourcePort, p.Port = binary.BigEndian.Uint16(u), binary.BigEndian.Uint16(u[2:])
	return p, true
}

// Answer returns the probe that the receiver of p sends back.
func (p Probe) Answer() Probe {
	p.Source, p.Destination = p.Destination, p.Source
	p.SourcePort, p.Port = p.Port, p.SourcePort
	p.Reply = p.Protocol != UDP // UDP has no separate reply
	return p
}
