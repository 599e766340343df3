package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"strait.dev/strait/packet"
)

// sessionBuffer is the size in bytes of a session's queue of received datagrams.
const sessionBuffer = 128 << 10

// session carries datagrams between one client endpoint and one endpoint of a served address. Datagrams of either side
// refresh it.
type session struct {
	relay  *Relay
	m      *mapping
	from   netip.AddrPort // the client
	at     netip.AddrPort // the served address
	caller *stream
	target *socket
	idle   idle
	slot   *slot         // of the quota
	length atomic.Uint32 // payload length of the client's last datagram, bytes
}

// datagram handles a UDP datagram that belongs to no session, and reports whether it did; the stack answers others with
// "port unreachable". It runs on the goroutine that delivers the packet, and does not block.
func (r *Relay) datagram(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	m := r.served(id.LocalAddress)
	if m == nil || !validUDP(pkt) {
		return false
	}
	s := &session{
		relay: r, m: m, caller: &stream{queue: new(waiter.Queue)},
		from: netip.AddrPortFrom(address(id.RemoteAddress), id.RemotePort), at: netip.AddrPortFrom(m.External, id.LocalPort),
	}
	var refusal Refusal
	var ok bool
	if s.slot, refusal, ok = m.part.sessions.take(m.key(), s.from.Addr()); !ok {
		m.part.udp.refused[refusal].Add(1)
		r.tell(prohibited, quote(pkt))
		return true
	}
	end, err := udp.NewForwarderRequest(r.stack, id, pkt).CreateEndpoint(s.caller.queue)
	if err != nil { // an earlier datagram created the session meanwhile
		s.slot.give()
		return true
	}
	s.caller.end = end
	end.SocketOptions().SetReceiveBufferSize(sessionBuffer, true)
	if !r.use(m.scope) {
		end.Close()
		s.slot.give()
		return false
	}
	go s.run()
	return true
}

func validUDP(pkt *stack.PacketBuffer) bool {
	ip := pkt.Network()
	length, sum := header.UDPValid(header.UDP(pkt.TransportHeader().Slice()), func() uint16 { return pkt.Data().Checksum() },
		uint16(pkt.Data().Size()), pkt.NetworkProtocolNumber, ip.SourceAddress(), ip.DestinationAddress(), false)
	return length && sum
}

// run serves the session until it ends.
func (s *session) run() {
	r := s.relay
	defer s.m.running.Done()
	defer s.slot.give()
	defer s.caller.end.Close()
	var err error
	if s.target, err = r.dial(s.m, "udp", s.at.Port()); err != nil {
		refusal := refusalOf(err)
		s.m.part.udp.refused[refusal].Add(1)
		switch refusal {
		case TargetUnreachable:
			s.tell(hostUnreachable)
		case NoSocket:
			s.tell(prohibited)
		}
		return
	}
	end := func() { s.target.Close(); s.caller.end.Close() }
	s.idle.clock, s.idle.limit, s.idle.expired = r.clock, s.limit, func() { s.m.part.udp.expired.Add(1); end() }
	s.idle.start()
	defer s.idle.stop()
	s.slot.hold(&s.idle, func() { s.m.part.udp.evicted.Add(1); end() })
	s.m.part.udp.opened.Add(1)
	defer context.AfterFunc(s.m.ctx, end)()

	back := make(chan struct{})
	go func() { defer close(back); s.toCaller() }()
	s.toTarget()
	end()
	<-back
}

func (s *session) limit() time.Duration {
	if s.at.Port() == 53 {
		return s.relay.limits.Query
	}
	return s.relay.limits.Session
}

func (s *session) toTarget() {
	for {
		b, n, err := s.caller.receive()
		if err == nil {
			s.length.Store(uint32(n))
			s.idle.touch()
			s.count(&s.m.part.udp.toTarget, n, s.toTargetOnce(b[:n]))
		}
		giveBuffer(b)
		if errors.Is(err, io.EOF) {
			return // closed; other errors are ICMP errors about a reply, and do not end the session
		}
	}
}

// toTargetOnce sends one datagram. The socket reports an ICMP error about an earlier datagram first.
func (s *session) toTargetOnce(b []byte) error {
	_, err := s.target.Write(b)
	if errors.Is(err, syscall.ECONNREFUSED) {
		s.refused()
		_, err = s.target.Write(b)
	}
	return err
}

func (s *session) toCaller() {
	for {
		b, n, err := s.target.receive()
		switch {
		case err == nil:
			s.idle.touch()
			s.count(&s.m.part.udp.toCaller, n, s.caller.sendDatagram(b[:n]))
		case errors.Is(err, syscall.ECONNREFUSED):
			s.refused()
		case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
			s.tell(hostUnreachable)
		}
		if b == nil {
			return // closed
		}
		giveBuffer(b)
	}
}

// refused tells the client that the target's port is unreachable.
func (s *session) refused() {
	s.m.part.udp.refused[TargetRefused].Add(1)
	s.tell(portUnreachable)
}

func (s *session) count(bytes *atomic.Uint64, n int, err error) {
	if err != nil {
		s.m.part.udp.lost.Add(1)
		return
	}
	bytes.Add(uint64(n))
}

// tell sends the client an ICMP error about its last datagram. Clients read only the ports in the quote, so the other
// headers are made up.
func (s *session) tell(what icmpForm) {
	length := packet.UDPHeaderLen + int(s.length.Load())
	var b []byte
	if s.from.Addr().Is4() {
		ip := make(header.IPv4, header.IPv4MinimumSize)
		ip.Encode(&header.IPv4Fields{
			TotalLength: uint16(header.IPv4MinimumSize + length), TTL: 64, Protocol: packet.ProtoUDP,
			SrcAddr: stackAddress(s.from.Addr()), DstAddr: stackAddress(s.at.Addr()),
		})
		ip.SetChecksum(^ip.CalculateChecksum())
		b = ip
	} else {
		ip := make(header.IPv6, header.IPv6MinimumSize)
		ip.Encode(&header.IPv6Fields{
			PayloadLength: uint16(length), TransportProtocol: header.UDPProtocolNumber, HopLimit: 64,
			SrcAddr: stackAddress(s.from.Addr()), DstAddr: stackAddress(s.at.Addr()),
		})
		b = ip
	}
	b = binary.BigEndian.AppendUint16(b, s.from.Port())
	b = binary.BigEndian.AppendUint16(b, s.at.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	s.relay.tell(what, append(b, 0, 0))
}
