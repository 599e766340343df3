package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"strait.dev/strait/packet"
)

// Target sends datagrams to the ports of one target, and receives those that the target sends back. Safe for concurrent
// use.
type Target interface {
	// Send sends one datagram, or drops it. It does not wait.
	Send(b []byte, port uint16) error
	// Receive waits for a datagram from any port of the target. An error may be an ICMP error about a datagram to port, of
	// which n bytes are quoted. Its receiver returns the buffer to the pool; it is nil after Close only.
	Receive() (b *Buffer, n int, port uint16, err error)
	Close() error
}

// session carries datagrams between one client endpoint and all ports of one served address. It sends from one socket,
// so the target sees one endpoint, whichever of its ports the client addresses (RFC 4787 REQ-1). Any port of the target's
// address may answer (REQ-8: address-dependent filtering): protocols like TFTP answer from another port than that of the
// request. Datagrams of either side refresh the session.
type session struct {
	relay  *Relay
	m      *mapping
	key    sessionKey
	target Target
	idle   idle
	slot   *slot       // of the quota
	lasts  atomic.Bool // not only port 53 is used
}

type sessionKey struct {
	from netip.AddrPort // the client
	at   netip.Addr     // the served address
}

// sessions are the open sessions. Safe for concurrent use.
type sessions struct {
	mu sync.Mutex
	of map[sessionKey]*session
}

func (s *sessions) get(k sessionKey) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[k]
}

// add adds a session, or returns the one of the same client.
func (s *sessions) add(x *session) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.of[x.key]; was != nil {
		return was
	}
	s.of[x.key] = x
	return x
}

func (s *sessions) remove(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[x.key] == x {
		delete(s.of, x.key)
	}
}

// datagram handles a UDP datagram that belongs to no socket of the stack, and reports whether it did; the stack answers
// others with "port unreachable". It runs on the goroutine that delivers the packet, and does not block.
func (r *Relay) datagram(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	key := sessionKey{netip.AddrPortFrom(address(id.RemoteAddress), id.RemotePort), address(id.LocalAddress)}
	s := r.sessions.get(key)
	if s == nil {
		m := r.served(id.LocalAddress)
		if m == nil || !validUDP(pkt) {
			return false
		}
		var handled bool
		if s, handled = r.newSession(m, key, pkt); s == nil {
			return handled
		}
	} else if !validUDP(pkt) {
		return false
	}
	s.toTarget(id.LocalPort, pkt)
	return true
}

// newSession opens a session within the quota, or tells the client why not.
func (r *Relay) newSession(m *mapping, key sessionKey, pkt *stack.PacketBuffer) (s *session, handled bool) {
	p := m.part
	slot, refusal, ok := p.sessions.take(m.key(), key.from.Addr())
	if !ok {
		p.udp.refused[refusal].Add(1)
		r.tell(prohibited, quote(pkt))
		return nil, true
	}
	target, err := r.target(m.Target)
	if err != nil {
		slot.give()
		p.udp.refused[NoSocket].Add(1)
		r.tell(prohibited, quote(pkt))
		return nil, true
	}
	if !r.use(m.scope) {
		_ = target.Close()
		slot.give()
		return nil, false
	}
	s = &session{relay: r, m: m, key: key, target: target, slot: slot}
	s.idle.clock, s.idle.limit, s.idle.expired = r.clock, s.limit, func() { p.udp.expired.Add(1); s.end() }
	s.idle.start()
	if was := r.sessions.add(s); was != s { // an earlier datagram opened it meanwhile
		s.idle.stop()
		_ = target.Close()
		slot.give()
		m.running.Done()
		return was, true
	}
	slot.hold(&s.idle, func() { p.udp.evicted.Add(1); s.end() })
	p.udp.opened.Add(1)
	go s.run()
	return s, true
}

func validUDP(pkt *stack.PacketBuffer) bool {
	ip := pkt.Network()
	length, sum := header.UDPValid(header.UDP(pkt.TransportHeader().Slice()), func() uint16 { return pkt.Data().Checksum() },
		uint16(pkt.Data().Size()), pkt.NetworkProtocolNumber, ip.SourceAddress(), ip.DestinationAddress(), false)
	return length && sum
}

// end ends the session: the next datagram of its client opens another one.
func (s *session) end() {
	s.relay.sessions.remove(s)
	_ = s.target.Close()
}

func (s *session) limit() time.Duration {
	if s.lasts.Load() {
		return s.relay.limits.Session
	}
	return s.relay.limits.Query
}

// used notes a datagram to or from a port of the target.
func (s *session) used(port uint16) {
	if port != 53 {
		s.lasts.Store(true) // needs no watch: the limit grows
	}
	s.idle.touch()
}

// toTarget sends a datagram of the client.
func (s *session) toTarget(port uint16, pkt *stack.PacketBuffer) {
	s.used(port)
	b := takeBuffer()
	defer giveBuffer(b)
	into := tcpip.SliceWriter(b[:])
	n, err := pkt.Data().ReadTo(&into, true)
	if err == nil {
		n = min(n, int(header.UDP(pkt.TransportHeader().Slice()).Length())-packet.UDPHeaderLen)
		err = s.target.Send(b[:n], port)
	}
	s.count(&s.m.part.udp.toTarget, n, err)
	if isUnreachable(err) {
		s.m.part.udp.refused[TargetUnreachable].Add(1)
		s.relay.tell(hostUnreachable, quote(pkt))
	}
}

// run carries the datagrams of the target until the session ends.
func (s *session) run() {
	defer s.m.running.Done()
	defer s.slot.give()
	defer s.idle.stop()
	defer context.AfterFunc(s.m.ctx, s.end)()
	for {
		b, n, port, err := s.target.Receive()
		if b == nil {
			return // closed
		}
		switch {
		case err == nil:
			s.used(port)
			s.count(&s.m.part.udp.toCaller, n, s.relay.sendUDP(netip.AddrPortFrom(s.key.at, port), s.key.from, b[:n]))
		case errors.Is(err, syscall.ECONNREFUSED):
			s.m.part.udp.refused[TargetRefused].Add(1)
			s.tell(portUnreachable, port, n)
		case isUnreachable(err):
			s.m.part.udp.refused[TargetUnreachable].Add(1)
			s.tell(hostUnreachable, port, n)
		case errors.Is(err, errForeign):
			s.m.part.udp.refused[ForeignSource].Add(1)
		}
		giveBuffer(b)
	}
}

// isUnreachable reports whether an error means that there is no route to the target, or that a filter or a router rejects
// packets to it (connect(2); ICMPv6 "administratively prohibited" is EACCES, while that of IPv4 is EHOSTUNREACH).
func isUnreachable(err error) bool {
	return slices.ContainsFunc([]error{syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EACCES, syscall.EPERM},
		func(e error) bool { return errors.Is(err, e) })
}

func (s *session) count(bytes *atomic.Uint64, n int, err error) {
	if err != nil {
		s.m.part.udp.lost.Add(1)
		return
	}
	bytes.Add(uint64(n))
}

// tell sends the client an ICMP error about a datagram of n bytes to a port. Clients read only the ports in the quote, so
// the other headers are made up.
func (s *session) tell(what icmpForm, port uint16, n int) {
	length := packet.UDPHeaderLen + n
	from, at := s.key.from, s.key.at
	var b []byte
	if at.Is4() {
		ip := make(header.IPv4, header.IPv4MinimumSize)
		ip.Encode(&header.IPv4Fields{
			TotalLength: uint16(header.IPv4MinimumSize + length), TTL: 64, Protocol: packet.ProtoUDP,
			SrcAddr: stackAddress(from.Addr()), DstAddr: stackAddress(at),
		})
		ip.SetChecksum(^ip.CalculateChecksum())
		b = ip
	} else {
		ip := make(header.IPv6, header.IPv6MinimumSize)
		ip.Encode(&header.IPv6Fields{
			PayloadLength: uint16(length), TransportProtocol: header.UDPProtocolNumber, HopLimit: 64,
			SrcAddr: stackAddress(from.Addr()), DstAddr: stackAddress(at),
		})
		b = ip
	}
	b = binary.BigEndian.AppendUint16(b, from.Port())
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	s.relay.tell(what, append(b, 0, 0))
}

// sendUDP sends a datagram to a client from a served address.
func (r *Relay) sendUDP(from, to netip.AddrPort, payload []byte) error {
	b := make([]byte, packet.UDPHeaderLen+len(payload))
	h := header.UDP(b)
	h.Encode(&header.UDPFields{SrcPort: from.Port(), DstPort: to.Port(), Length: uint16(len(b))})
	copy(b[packet.UDPHeaderLen:], payload)
	sum := ^packet.Sum(b, packet.PseudoSum(from.Addr(), to.Addr(), packet.ProtoUDP, len(b)))
	if sum == 0 {
		sum = 0xffff // 0 means none (RFC 768)
	}
	h.SetChecksum(sum)
	return r.write(header.UDPProtocolNumber, from.Addr(), to.Addr(), b)
}
