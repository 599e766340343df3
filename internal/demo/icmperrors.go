package demo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"

	"strait.dev/strait/internal/plan"
	"strait.dev/strait/packet"
)

const (
	closedPort = 9 // discard, RFC 863: pod b has no such server
	sizeID     = 0x535a
)

// portUnreachable sends UDP to a closed port. The error must come from the
// destination address, quote that packet, and reach the sending socket.
func (d *Demo) portUnreachable(ctx context.Context, s *Step) error {
	from, to := d.a.Address[plan.V4], netip.AddrPortFrom(d.b.PodSeen[plan.V4], closedPort)
	listener, err := d.a.pod.listenICMP(from, d.limits.reply)
	if err != nil {
		return err
	}
	defer listener.close()
	socket, err := d.a.pod.dialUDP(to)
	if err != nil {
		return err
	}
	defer socket.Close()
	begin := time.Now()
	if _, err := socket.Write([]byte("hello")); err != nil {
		return err
	}
	m, err := listener.wait(ctx, func(m *message) bool { return m.isError && m.quoted.Proto == packet.ProtoUDP })
	took := time.Since(begin)
	if err == nil {
		err = m.checkQuote(from, to.Addr())
	}
	if err == nil && (m.what != portUnreachable || m.from != to.Addr() || binary.BigEndian.Uint16(m.body[2:]) != closedPort) {
		err = fmt.Errorf("%v", m)
	}
	if err != nil {
		return &mismatch{fmt.Sprintf("%s from %v about port %d", portUnreachable, to.Addr(), closedPort), err.Error()}
	}
	if err := awaitRefusal(ctx, socket, d.limits.reply); err != nil {
		return err
	}
	s.Summary = fmt.Sprintf("UDP to %v: %v; the socket reports it", to, m)
	s.Figure = &Figure{"took", took.Seconds(), "s"}
	return nil
}

// awaitRefusal waits until a socket returns "connection refused". A pending read
// does not return when the error arrives (the stack wakes readers for data only),
// so it polls.
func awaitRefusal(ctx context.Context, socket net.Conn, limit time.Duration) error {
	refused := (&tcpip.ErrConnectionRefused{}).String()
	for end := time.Now().Add(limit); ; {
		if err := socket.SetReadDeadline(time.Now().Add(pollInterval)); err != nil {
			return err
		}
		n, err := socket.Read(make([]byte, 1))
		var timeout net.Error
		switch {
		case err == nil:
			return &mismatch{"the socket to fail: " + refused, fmt.Sprintf("%d bytes", n)}
		case strings.Contains(err.Error(), refused): // the stack's errors have no type here, only text
			return nil
		case !errors.As(err, &timeout) || !timeout.Timeout() || ctx.Err() != nil || time.Now().After(end):
			return &mismatch{"the socket to fail: " + refused, err.Error()}
		}
	}
}

// tooBig sends packets that fit pod a's interface but exceed the tunnel's MTU
// and must not be fragmented, then packets of the MTU that the error states.
func (d *Demo) tooBig(ctx context.Context, s *Step) error {
	for f, want := range [...]string{plan.V4: tooBig4, plan.V6: tooBig6} {
		if err := d.tooBigFor(ctx, f, want); err != nil {
			return err
		}
	}
	s.Summary = fmt.Sprintf("%d bytes with DF set: %s (IPv6: %s); %d bytes pass", podMTU, tooBig4, tooBig6, plan.InnerMTU)
	s.Figure = &Figure{"mtu", plan.InnerMTU, "B"}
	return nil
}

func (d *Demo) tooBigFor(ctx context.Context, f int, want string) error {
	listener, err := d.a.pod.listenICMP(d.a.Address[f], d.limits.reply)
	if err != nil {
		return err
	}
	defer listener.close()
	q := echo{from: d.a.Address[f], to: d.b.PodSeen[f], id: sizeID, sequence: 1, ttl: pingTTL, length: podMTU}
	m, _, err := listener.exchange(ctx, q)
	if err == nil && (m.what != want || m.from != plan.GatewayInternal[f] || m.mtu != plan.InnerMTU) {
		err = fmt.Errorf("%v, mtu %d", m, m.mtu)
	}
	if err != nil {
		return &mismatch{fmt.Sprintf("%s from %v, mtu %d, in reply to %d bytes", want, plan.GatewayInternal[f], plan.InnerMTU, q.length), err.Error()}
	}
	q.sequence, q.length = 2, m.mtu
	m, _, err = listener.exchange(ctx, q)
	if err == nil && (m.what != echoReply || m.from != q.to) {
		err = fmt.Errorf("%v", m)
	}
	if err != nil {
		return &mismatch{fmt.Sprintf("%s from %v in reply to %d bytes", echoReply, q.to, q.length), err.Error()}
	}
	return nil
}
