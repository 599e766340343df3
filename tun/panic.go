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

// A panic on a packet's journey would end the process, and with it all traffic, and the sender of
// the packet could repeat it. So Read and Write drop that packet, count it as "panic", and
// continue with the next.

const (
	// panicQuiet is the minimum time between two log lines about panics: the packet that caused
	// the first may come at line rate.
	panicQuiet = time.Minute
	// maxLogged is the maximum number of header bytes logged.
	maxLogged = 64
)

// panics logs recovered panics. Safe for concurrent use.
type panics struct {
	log *slog.Logger // nil = no log

	mu   sync.Mutex // protects last
	last time.Time  // time of the last log line; zero = never
}

// report logs one line about a panic on the journey of a packet, which may be invalid, unless it
// logged one recently.
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
	p.log.Error("a bug in this program: a packet caused a panic; the packet was dropped and the gateway continues; report the bug with this line",
		"fault", fmt.Sprint(fault), "headers", fmt.Sprintf("%x", headers(ip)), "stack", string(debug.Stack()))
}

// headers returns the bytes of b before its payload, maxLogged at most. For an invalid packet it
// returns the fixed header of its IP version.
func headers(b []byte) (h []byte) {
	defer func() {
		if recover() != nil {
			h = nil // the same packet may panic here too
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

// upperHeaderLen returns the length in bytes of the header after the IP header, 0 if the protocol
// is not known.
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

// inner returns the IP packet in a frame from a node, or nil.
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
