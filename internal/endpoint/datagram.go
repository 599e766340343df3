//go:build linux

package endpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// resend is the time without a reply after which a datagram is sent again.
const resend = 300 * time.Millisecond

// datagram sends packets of one size until one comes back or an ICMP error reports why not.
func (c Check) datagram(ctx context.Context, m Marker) Result {
	r := Result{ID: c.ID}
	if c.Size < c.overhead()+headLen || c.Size > largest-1 {
		return r.failed(NotPermitted, fmt.Sprintf("a packet of %d bytes is not possible", c.Size))
	}
	s, err := c.open()
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return r.failed(NotPermitted, fmt.Sprintf("%v: allow it with sysctl net.ipv4.ping_group_range or the capability NET_RAW", err))
	}
	if err != nil {
		return r.failed(because(err), err.Error())
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Now()) })
	defer stop()
	nonce := rand.Uint64()
	for tries := uint64(0); ctx.Err() == nil && tries < uint64(fresh/resend); tries++ {
		sent := time.Now()
		_, err := s.Write(c.packet(m, nonce+tries))
		var answer []byte
		var of uint64
		if err == nil {
			_ = s.SetReadDeadline(sent.Add(resend)) // fails only on a closed socket
			answer, of, err = c.receive(s, nonce, tries)
		}
		switch f := because(err); {
		case err == nil && of == nonce+tries:
			r.RTT = time.Since(sent)
			return c.compare(r, m, answer)
		case err == nil: // a late reply to an earlier one
			return c.compare(r, m, answer)
		case f == Big:
			return c.reportedTooBig(r)
		case f == Timeout && errors.Is(err, os.ErrDeadlineExceeded):
		case f == Refused || f == Unreachable:
			return r.failed(f, err.Error())
		}
	}
	if c.Mode == TooBig {
		return r.failed(Silent, fmt.Sprintf("%d bytes were lost without an ICMP error about the path MTU", c.Size))
	}
	return r.failed(Timeout, fmt.Sprintf("no reply to %d bytes", c.Size))
}

// reportedTooBig returns the result for an ICMP error that the packet is too big.
func (c Check) reportedTooBig(r Result) Result {
	r.MTU = pathMTU(c.To)
	if c.Mode == TooBig {
		return r
	}
	return r.failed(Big, fmt.Sprintf("%d bytes are too big: the reported path MTU is %d", c.Size, r.MTU))
}

func (c Check) compare(r Result, m Marker, back []byte) Result {
	r.Bytes = int64(len(back))
	want := c.Size - c.overhead()
	switch at := 0; {
	case len(back) != want:
		return r.failed(Corrupted, fmt.Sprintf("%d bytes came back instead of %d", len(back), want))
	case c.Protocol == UDP:
		from, _, _ := parseReply(back)
		r.Source = from.Addr()
		fallthrough
	default:
		if at = m.wrong(back[headLen:], 0); at >= 0 {
			return r.failed(Corrupted, fmt.Sprintf("byte %d of %d came back changed", headLen+at, want))
		}
	}
	if c.Mode == TooBig {
		return r.failed(Crossed, fmt.Sprintf("%d bytes came back unfragmented", c.Size))
	}
	return c.checkSource(r)
}

func (c Check) overhead() int {
	if c.To.Addr().Is4() {
		return 20 + 8
	}
	return 40 + 8
}

// packet is the data to send: for UDP the payload, for ICMP including its header.
func (c Check) packet(m Marker, nonce uint64) []byte {
	payload := make([]byte, c.Size-c.overhead())
	putRequest(payload, nonce)
	m.fill(payload[headLen:], 0)
	if c.Protocol == UDP {
		return payload
	}
	return echoRequest(c.To.Addr().Is6(), nonce, payload)
}

// receive waits for the reply to one of the attempts.
func (c Check) receive(s *socket, nonce, tries uint64) (payload []byte, of uint64, err error) {
	b := make([]byte, largest)
	for {
		n, err := s.Read(b)
		if err != nil {
			return nil, 0, err
		}
		var ok bool
		if c.Protocol == ICMP {
			payload, of, ok = echoReply(c.To.Addr().Is6(), s.raw, b[:n])
		} else {
			_, of, ok = parseReply(b[:n])
			payload = b[:n]
		}
		if ok && of-nonce <= tries {
			return payload, of, nil
		}
	}
}
