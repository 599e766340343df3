package demo

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"strait.dev/strait/packet"
)

// icmpListener receives the ICMP messages that arrive at a pod, like a packet socket.
type icmpListener struct {
	host     *host
	protocol tcpip.NetworkProtocolNumber
	received chan message
	limit    time.Duration // how long a reply may take
}

// listenICMP receives the messages of one address family. The caller must close it.
func (h *host) listenICMP(own netip.Addr, limit time.Duration) (*icmpListener, error) {
	l := &icmpListener{host: h, protocol: networkProtocol(own), received: make(chan message, 16), limit: limit}
	if err := h.stack.RegisterPacketEndpoint(hostNIC, l.protocol, l); err != nil {
		return nil, fmt.Errorf("network stack: listen for ICMP: %v", err)
	}
	return l, nil
}

func (l *icmpListener) close() { l.host.stack.UnregisterPacketEndpoint(hostNIC, l.protocol, l) }

// HandlePacket implements stack.PacketEndpoint. It is called for both directions.
func (l *icmpListener) HandlePacket(_ tcpip.NICID, _ tcpip.NetworkProtocolNumber, p *stack.PacketBuffer) {
	if p.PktType == tcpip.PacketOutgoing {
		return
	}
	m, ok := readMessage(p.Data().AsRange().ToSlice())
	if !ok {
		return
	}
	select {
	case l.received <- m:
	default: // no exchange is waiting
	}
}

// exchange sends an echo request and waits for the first message about it: the
// answer, or an error. It returns the round trip as well.
func (l *icmpListener) exchange(ctx context.Context, q echo) (message, time.Duration, error) {
	begin := time.Now()
	if err := l.host.stack.WriteRawPacket(hostNIC, l.protocol, buffer.MakeWithData(q.packet())); err != nil {
		return message{}, 0, fmt.Errorf("network stack: send: %v", err)
	}
	m, err := l.wait(ctx, q.concerns)
	trip := time.Since(begin)
	if err == nil {
		err = m.checkQuote(q.from, q.to)
	}
	return m, trip, err
}

func (l *icmpListener) wait(ctx context.Context, concerns func(*message) bool) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	for {
		select {
		case m := <-l.received:
			if concerns(&m) {
				return m, nil
			}
		case <-ctx.Done():
			return message{}, fmt.Errorf("no message within %v", l.limit)
		}
	}
}

// message is an ICMP or ICMPv6 message.
type message struct {
	from, to netip.Addr
	what     string // its meaning, or its type and code
	mtu      int    // of tooBig: the MTU in bytes of IP packet
	isError  bool
	quoted   packet.IP // of an error: the packet that caused it
	body     []byte    // the message itself; of an error: the quoted upper-layer header and payload
}

// The meanings of messages.
const (
	echoReply       = "echo reply"
	timeExceeded    = "time exceeded"
	portUnreachable = "port unreachable"
	tooBig4         = "fragmentation needed"
	tooBig6         = "packet too big"
)

// meanings maps IP version, type and code to a meaning: RFC 792, RFC 4443.
var meanings = map[[3]uint8]string{
	{4, 0, 0}: echoReply, {6, 129, 0}: echoReply,
	{4, 11, 0}: timeExceeded, {6, 3, 0}: timeExceeded,
	{4, 3, 3}: portUnreachable, {6, 1, 4}: portUnreachable,
	{4, 3, 4}: tooBig4, {6, 2, 0}: tooBig6,
}

// readMessage parses an IP packet. ok is false if it is not a valid ICMP message.
func readMessage(b []byte) (m message, ok bool) {
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone || !packet.ICMPChecksumOK(b[:ip.Len], &ip) {
		return m, false
	}
	u := ip.Upper(b)
	if len(u) < packet.ICMPHeaderLen {
		return m, false
	}
	m = message{from: ip.Src, to: ip.Dst, what: meanings[[3]uint8{ip.Version, u[0], u[1]}], body: u}
	switch m.what {
	case "":
		m.what = fmt.Sprintf("ICMP type %d code %d", u[0], u[1])
	case tooBig4: // RFC 1191 section 4
		m.mtu = int(binary.BigEndian.Uint16(u[6:]))
	case tooBig6: // RFC 4443 section 3.2
		m.mtu = int(binary.BigEndian.Uint32(u[4:]))
	}
	if m.isError = packet.IsICMPError(b, &ip); m.isError {
		quote, ok := packet.ParseQuote(b, &ip, &m.quoted)
		if !ok {
			return m, false
		}
		m.body = quote[m.quoted.Header:]
	}
	return m, true
}

// checkQuote checks that an error quotes the addresses that the sender used:
// otherwise the pod cannot match the error to a socket.
func (m *message) checkQuote(src, dst netip.Addr) error {
	if m.isError && (m.quoted.Src != src || m.quoted.Dst != dst) {
		return fmt.Errorf("%v about a packet from %v to %v", m, m.quoted.Src, m.quoted.Dst)
	}
	return nil
}

func (m message) String() string { return m.what + " from " + m.from.String() }
