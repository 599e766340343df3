package tun

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/vxlan"
)

// A panic on a packet's journey would end the process, and with it all traffic: whoever
// finds the packet could send it again and again. So Read and Write drop that packet,
// count it as "panic", and go on with the next.

const (
	// panicQuiet is how long no other panic is written down after one: the packet that
	// made the first may come at line rate.
	panicQuiet = time.Minute
	// maxLogged is how many bytes of a packet's headers are written down.
	maxLogged = 64
)

// panics writes contained panics down. Safe for concurrent use.
type panics struct {
	log *slog.Logger // nil = nobody reads

	mu   sync.Mutex // protects last
	last time.Time  // when one was written down; zero = never
}

// report writes one line about a panic on the journey of an IP packet, or of what should
// have been one, unless it wrote one lately.
func (p *panics) report(now time.Time, fault any, ip []byte) {
	p.mu.Lock()
	quiet := p.log == nil || !p.last.IsZero() && now.Sub(p.last) < panicQuiet
	if !quiet {
		p.last = now
	}
	p.mu.Unlock()
	if quiet {
		return
	}
	p.log.Error("a packet met a fault of this program; it was dropped, and the gateway goes on: report the fault with this line",
		"fault", fmt.Sprint(fault), "headers", fmt.Sprintf("%x", headers(ip)), "stack", string(debug.Stack()))
}

// headers are the bytes of b up to its payload, maxLogged at most. Of what is no IP packet,
// they are those that every header of its version has.
func headers(b []byte) (h []byte) {
	defer func() {
		if recover() != nil {
			h = nil // what the journey stumbled over, we may too
		}
	}()
	var ip packet.IP
	end := 0
	switch {
	case packet.Parse(b, &ip) == packet.FaultNone:
		end = int(ip.Header) + upperHeaderLen(b, &ip)
	case len(b) > 0 && b[0]>>4 == 4:
		end = packet.IPv4HeaderLen
	case len(b) > 0 && b[0]>>4 == 6:
		end = packet.IPv6HeaderLen
	}
	return b[:min(end, len(b), maxLogged)]
}

// upperHeaderLen is the length in bytes of the header behind the IP header, 0 where there
// is none that we know.
func upperHeaderLen(b []byte, ip *packet.IP) int {
	u := ip.Upper(b)
	size := 0
	switch ip.Proto {
	case packet.ProtoTCP:
		if len(u) >= packet.TCPHeaderLen {
			size = max(int(u[12]>>4)*4, packet.TCPHeaderLen)
		}
	case packet.ProtoUDP:
		size = packet.UDPHeaderLen
	case packet.ProtoICMP, packet.ProtoICMPv6:
		size = packet.ICMPHeaderLen
	}
	return min(size, len(u))
}

// inner is the IP packet in a frame from a node, or nil.
func inner(frame []byte, e gateway.Encapsulation) (ip []byte) {
	defer func() {
		if recover() != nil {
			ip = nil
		}
	}()
	if e == gateway.VXLAN {
		_, frame, _ = vxlan.Decode(frame)
	} else {
		_, _, frame, _ = geneve.Decode(frame)
	}
	return frame[min(packet.EthernetHeaderLen, len(frame)):]
}
