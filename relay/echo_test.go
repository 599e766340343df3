package relay

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/waiter"

	"strait.dev/strait/packet"
)

// pinger is a ping socket of a caller.
type pinger struct {
	w     *world
	end   tcpip.Endpoint
	queue waiter.Queue
	to    netip.Addr
	n     uint16
}

func (w *world) pinger(from, to netip.Addr) *pinger {
	w.Helper()
	p := &pinger{w: w, to: to}
	protocol := icmp.ProtocolNumber4
	if to.Is6() {
		protocol = icmp.ProtocolNumber6
	}
	end, err := w.caller.NewEndpoint(protocol, network(to), &p.queue)
	if err == nil {
		p.end = end
		w.Cleanup(end.Close)
		err = end.Bind(full(netip.AddrPortFrom(from, 0)))
	}
	if err == nil {
		err = end.Connect(full(netip.AddrPortFrom(to, 0)))
	}
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// send sends an echo request with data.
func (p *pinger) send(data []byte) {
	p.w.Helper()
	p.n++
	message := make([]byte, packet.ICMPHeaderLen, packet.ICMPHeaderLen+len(data))
	message[0] = byte(header.ICMPv4Echo)
	if p.to.Is6() {
		message[0] = byte(header.ICMPv6EchoRequest)
	}
	binary.BigEndian.PutUint16(message[6:], p.n)
	if _, err := p.end.Write(bytes.NewReader(append(message, data...)), tcpip.WriteOptions{}); err != nil {
		p.w.Fatal(err)
	}
}

// receives waits for the reply to the last request.
func (p *pinger) receives(data []byte) {
	p.w.Helper()
	var got bytes.Buffer
	p.w.until("there is an echo reply", func() bool {
		_, err := p.end.Read(&got, tcpip.ReadOptions{})
		return err == nil
	})
	if b := got.Bytes(); binary.BigEndian.Uint16(b[6:]) != p.n || !bytes.Equal(b[packet.ICMPHeaderLen:], data) {
		p.w.Errorf("a reply of %d bytes, number %d; want number %d with %d bytes of data", len(b), binary.BigEndian.Uint16(b[6:]), p.n, len(data))
	}
}

// receivesNothing reports whether there is no reply.
func (p *pinger) receivesNothing() {
	p.w.Helper()
	if _, err := p.end.Read(new(bytes.Buffer), tcpip.ReadOptions{}); err == nil {
		p.w.Error("a reply")
	}
}

func TestPingIsAnsweredWhenTheTargetIsUp(t *testing.T) {
	t.Parallel()
	for _, to := range []struct{ from, at netip.Addr }{{callerAddr, mappedAddr}, {callerAddr6, mappedAddr6}} {
		w := newWorld(t, Limits{})
		p := w.pinger(to.from, to.at)
		for _, size := range []int{56, 0, 3000} { // the last comes and goes in fragments
			data := bytes.Repeat([]byte{9}, size)
			p.send(data)
			p.receives(data)
		}
		if s := w.relay.Echo(); s.Answered != 3 || s.Down != 0 {
			t.Errorf("counted %+v", s)
		}
	}
}

// The stack owns the address, and yet does not answer for a target that is down.
func TestPingIsNotAnsweredWhenTheTargetIsDown(t *testing.T) {
	t.Parallel()
	for _, to := range []struct{ from, at netip.Addr }{{callerAddr, mappedAddr}, {callerAddr6, mappedAddr6}} {
		w := newWorld(t, Limits{})
		var up atomic.Bool
		var asked atomic.Int64
		w.alive = func(context.Context, netip.Addr, uint16) bool { asked.Add(1); return up.Load() }
		p := w.pinger(to.from, to.at)
		for n := range 5 {
			p.send([]byte("up?"))
			w.until("it is counted", func() bool { return w.relay.Echo().Down == uint64(n+1) })
		}
		if asked.Load() != 1 {
			t.Errorf("the target was asked %d times", asked.Load())
		}
		up.Store(true)
		w.advance(aliveFor + time.Second)
		p.receivesNothing()
		p.send([]byte("now?"))
		p.receives([]byte("now?"))
	}
}

func TestPingToATargetThatIsSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	asked := make(chan struct{})
	w.alive = func(ctx context.Context, _ netip.Addr, _ uint16) bool { close(asked); <-ctx.Done(); return false }
	p := w.pinger(callerAddr, mappedAddr)
	for range waitingPerOne + 3 {
		p.send([]byte("?"))
	}
	<-asked // the timer runs
	w.until("some are too many", func() bool { return w.relay.Echo().Refused == 3 })
	w.advance(askFor)
	w.until("all are given up", func() bool { return w.relay.Echo().Down == waitingPerOne })
	w.until("nothing waits or is asked", func() bool {
		return w.relay.echo.waiting.now.Load() == 0 && w.relay.echo.asking.now.Load() == 0
	})
	p.receivesNothing()
}

// An address of the gateway that is not mapped is answered by its stack.
func TestPingToAnUnmappedAddressIsLeftToTheStack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	w.must(w.relay.SetMappings(both[1:]))
	p := w.pinger(callerAddr, mappedAddr)
	p.send([]byte("gateway?"))
	p.receives([]byte("gateway?"))
	if s := w.relay.Echo(); s != (EchoStats{}) {
		t.Errorf("counted %+v", s)
	}
}

// What was learned of ports on which the target answers is asked about.
func TestATargetIsAskedOnAPortThatAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	ports := make(chan uint16, 1)
	w.alive = func(_ context.Context, _ netip.Addr, p uint16) bool { ports <- p; return true }
	w.pair(w.listen(port))
	w.pinger(callerAddr, mappedAddr).send(nil)
	if p := <-ports; p != port {
		t.Errorf("asked on port %d", p)
	}
}

// This machine is up and answers, by ping or by refusing TCP; what is asked of a network
// for documentation is not.
func TestAliveAsksForReal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	if !alive(ctx, netip.MustParseAddr("127.0.0.1"), 0) {
		t.Error("this machine is not up")
	}
	cancel()
	if alive(ctx, netip.MustParseAddr("192.0.2.77"), 0) {
		t.Error("192.0.2.77 answered after the end of time")
	}
}
