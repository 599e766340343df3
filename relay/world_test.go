package relay

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/faketime"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"strait.dev/strait/config"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const nic = 1

var (
	callerAddr  = netip.MustParseAddr("10.71.2.9")
	other       = netip.MustParseAddr("10.71.2.10") // another caller
	mappedAddr  = netip.MustParseAddr("10.70.1.9")
	targetAddr  = netip.MustParseAddr("192.0.2.77")
	callerAddr6 = netip.MustParseAddr("fd00:71::9")
	mappedAddr6 = netip.MustParseAddr("fd00:70::9")
	targetAddr6 = netip.MustParseAddr("2001:db8::77")

	both = []config.Mapping{{External: mappedAddr, Target: targetAddr}, {External: mappedAddr6, Target: targetAddr6}}
)

// world is a caller's stack, joined to a gateway's with a relay. Targets are sockets of
// this machine. Time stands still but for advance.
type world struct {
	testing.TB
	clock        *faketime.ManualClock
	caller, host *stack.Stack
	relay        *Relay
	link         *channel.Endpoint // of the gateway
	carried      atomic.Int64      // packets, by the wires
	sent         atomic.Int64      // packets from any address, by send
	arrived      atomic.Int64      // packets at the gateway
	synacks      chan uint32       // sequence numbers of the gateway's SYN-ACKs
	resets       atomic.Int64      // the gateway's segments with RST
	lost         atomic.Bool       // what the wires carry

	mu      sync.Mutex
	told    []icmpForm                                             // ICMP errors that callers got; of the other family 0
	targets map[string]string                                      // what is listening where, by network and address
	dial    func(ctx context.Context, address string) error        // asked first; nil error: go on
	alive   func(ctx context.Context, a netip.Addr, p uint16) bool // nil: up
}

func newWorld(t testing.TB, l Limits) *world {
	clock := faketime.NewManualClock()
	w := newWorldIn(t, l, clock)
	w.clock = clock
	return w
}

// newWorldIn is a world in which time passes as a clock says.
func newWorldIn(t testing.TB, l Limits, clock tcpip.Clock) *world {
	w := &world{TB: t, targets: make(map[string]string), synacks: make(chan uint32, 1)}
	here, there := channel.New(4096, 1420, ""), channel.New(4096, 1420, "")
	w.link = there
	w.caller, w.host = newStack(t, clock), newStack(t, clock)
	w.relay = New(Config{Stack: w.host, NIC: nic, Limits: l, Dial: w.dialTarget, Target: w.openTarget, Alive: func(ctx context.Context, a netip.Addr, p uint16) bool {
		return w.alive == nil || w.alive(ctx, a, p)
	}})
	w.join(w.caller, here, callerAddr, other, callerAddr6)
	w.join(w.host, there, mappedAddr, mappedAddr6)
	w.must(w.relay.SetMappings(both))
	ctx, cut := context.WithCancel(context.Background())
	var wires sync.WaitGroup
	wires.Go(func() { w.carry(ctx, here, there) })
	wires.Go(func() { w.carry(ctx, there, here) })
	t.Cleanup(func() {
		w.relay.Close()
		cut()
		wires.Wait()
		for _, s := range []*stack.Stack{w.caller, w.host} {
			s.Close()
			s.Wait()
		}
	})
	return w
}

// carry is a wire, one way.
func (w *world) carry(ctx context.Context, from, to *channel.Endpoint) {
	for {
		p := from.ReadContext(ctx)
		if p == nil {
			return
		}
		b := p.ToBuffer()
		flat := slices.Clone(b.Flatten())
		w.carried.Add(1)
		protocol := p.NetworkProtocolNumber
		p.DecRef()
		if w.lost.Load() {
			b.Release()
			w.noteFrom(from, flat)
			continue
		}
		q := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: b})
		to.InjectInbound(protocol, q)
		q.DecRef()
		w.noteFrom(from, flat) // only now: a caller that is told has an error to read
		if from != w.link {
			w.arrived.Add(1)
		}
	}
}

func (w *world) noteFrom(from *channel.Endpoint, b []byte) {
	if from == w.link {
		w.note(b)
	}
}

// note remembers what a packet of the gateway says, if it is an ICMP error that is as it
// should be.
func (w *world) note(b []byte) {
	var ip, quoted packet.IP
	if fault := packet.Parse(b, &ip); fault != packet.FaultNone {
		w.Errorf("the gateway sent a packet with %v: % x", fault, b)
		return
	}
	if u := ip.Upper(b); ip.Proto == packet.ProtoTCP && header.TCP(u).Flags() == header.TCPFlagSyn|header.TCPFlagAck {
		select {
		case w.synacks <- header.TCP(u).SequenceNumber():
		default: // no reader
		}
	}
	if ip.Proto == packet.ProtoTCP && header.TCP(ip.Upper(b)).Flags().Contains(header.TCPFlagRst) {
		w.resets.Add(1)
	}
	if sum, ok := packet.UpperChecksum(b, &ip); ok && ip.Proto == packet.ProtoUDP && header.UDP(ip.Upper(b)).Checksum() != sum {
		w.Errorf("the gateway sent UDP with the checksum %#x, want %#x", header.UDP(ip.Upper(b)).Checksum(), sum)
	}
	if !packet.IsICMPError(b, &ip) {
		return
	}
	if _, ok := packet.ParseQuote(b, &ip, &quoted); !ok || !packet.ICMPChecksumOK(b, &ip) || quoted.Src != ip.Dst || quoted.Dst != ip.Src {
		w.Errorf("the gateway sent a malformed ICMP error: % x", b)
		return
	}
	u := ip.Upper(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ip.Version == 4 {
		w.told = append(w.told, icmpForm{type4: u[0], code4: u[1]})
	} else {
		w.told = append(w.told, icmpForm{type6: u[0], code6: u[1]})
	}
}

// tcp returns the statistics of connections to mapped addresses, udp those of sessions.
func (w *world) tcp() Stats { s, _ := w.relay.Mapped(); return s }

func (w *world) udp() Stats { _, s := w.relay.Mapped(); return s }

// untilTold waits for an ICMP error to a caller.
func (w *world) untilTold(caller netip.Addr, what icmpForm) {
	w.Helper()
	if caller.Is4() {
		what.type6, what.code6 = 0, 0
	} else {
		what.type4, what.code4 = 0, 0
	}
	w.until("the caller is told by an ICMP error", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Contains(w.told, what)
	})
}

func newStack(t testing.TB, clock tcpip.Clock) *stack.Stack {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocolWithOptions(ipv6.Options{})},
		TransportProtocols: []stack.TransportProtocolFactory{icmp.NewProtocol4, icmp.NewProtocol6, udp.NewProtocol, tcp.NewProtocol},
		Clock:              clock,
	})
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: 128 << 10, Max: 1 << 20}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: 128 << 10, Max: 1 << 20}
	wait := tcpip.TCPTimeWaitTimeoutOption(10 * time.Second)
	for _, option := range []tcpip.SettableTransportProtocolOption{&receive, &send, &wait} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (w *world) join(s *stack.Stack, link stack.LinkEndpoint, addresses ...netip.Addr) {
	w.Helper()
	if err := s.CreateNIC(nic, link); err != nil {
		w.Fatal(err)
	}
	for _, a := range addresses {
		p := tcpip.ProtocolAddress{Protocol: network(a), AddressWithPrefix: stackAddress(a).WithPrefix()}
		if err := s.AddProtocolAddress(nic, p, stack.AddressProperties{}); err != nil {
			w.Fatal(err)
		}
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}, {Destination: header.IPv6EmptySubnet, NIC: nic}})
}

func network(a netip.Addr) tcpip.NetworkProtocolNumber {
	if a.Is4() {
		return header.IPv4ProtocolNumber
	}
	return header.IPv6ProtocolNumber
}

func full(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nic, Addr: stackAddress(a.Addr()), Port: a.Port()}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits for what other goroutines do.
func (w *world) until(what string, done func() bool) {
	w.Helper()
	wait.Until(w.TB, what, done)
}

// advance lets time pass in steps, small enough for every timer to fire when it should,
// and no faster than the stacks' goroutines can follow: each step ends when the wires are
// quiet.
func (w *world) advance(d time.Duration) {
	const step = 30 * time.Second
	for ; d > 0; d -= step {
		w.clock.Advance(min(d, step))
		before := int64(-1)
		w.until("the wires are quiet", func() bool {
			quiet := before == w.carried.Load() && w.link.NumQueued() == 0
			before = w.carried.Load()
			return quiet
		})
	}
}

// timeFlows lets time pass until the function that it returns is called: for what moves so
// much that a packet may be lost, and has to be sent again.
func (w *world) timeFlows() (stop func()) {
	const step = 5 * time.Millisecond
	var stopped atomic.Bool
	var flowing sync.WaitGroup
	flowing.Go(func() {
		w.until("time stands still again", func() bool { w.clock.Advance(step); return stopped.Load() })
	})
	return func() { stopped.Store(true); flowing.Wait() }
}

// dialTarget is the relay's way to targets.
func (w *world) dialTarget(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	at, dial := w.targets[network+" "+address], w.dial
	w.mu.Unlock()
	if dial != nil {
		if err := dial(ctx, address); err != nil {
			return nil, err
		}
	}
	if at == "" {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return new(net.Dialer).DialContext(ctx, network, at)
}

// worldTarget is a Target whose ports are at other ones of this machine.
type worldTarget struct {
	Target
	world   *world
	address netip.Addr
}

// openTarget opens the relay's sockets to targets.
func (w *world) openTarget(a netip.Addr) (Target, error) {
	t, err := newUDPTarget(netip.MustParseAddr("127.0.0.1"))
	return &worldTarget{t, w, a}, err
}

func (t *worldTarget) Send(b []byte, port uint16) error {
	t.world.mu.Lock()
	at := t.world.targets["udp "+netip.AddrPortFrom(t.address, port).String()]
	t.world.mu.Unlock()
	if at == "" {
		return syscall.EHOSTUNREACH
	}
	return t.Target.Send(b, netip.MustParseAddrPort(at).Port())
}

func (t *worldTarget) Receive() (b *Buffer, n int, port uint16, err error) {
	b, n, port, err = t.Target.Receive()
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	for name, at := range t.world.targets {
		var network, address string
		_, _ = fmt.Sscan(name, &network, &address)
		if a := netip.MustParseAddrPort(address); network == "udp" && a.Addr() == t.address && netip.MustParseAddrPort(at).Port() == port {
			return b, n, a.Port(), err
		}
	}
	return b, n, port, err
}

func (w *world) setDial(f func(ctx context.Context, address string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dial = f
}

// listen puts a server of TCP at the target.
func (w *world) listen(port uint16) *net.TCPListener {
	w.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	w.must(err)
	w.Cleanup(func() { l.Close() })
	w.serves("tcp", port, l.Addr())
	return l
}

func (w *world) serves(network string, port uint16, at net.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range []netip.Addr{targetAddr, targetAddr6} {
		w.targets[fmt.Sprintf("%s %v", network, netip.AddrPortFrom(a, port))] = at.String()
	}
}

// connect opens a connection from a caller, and waits until the gateway knows that the
// caller knows.
func (w *world) connect(from netip.Addr, to netip.AddrPort) (*gonet.TCPConn, error) {
	w.Helper()
	c, err := gonet.DialTCPWithBind(w.Context(), w.caller, full(netip.AddrPortFrom(from, 0)), full(to), network(from))
	if err != nil {
		return nil, err
	}
	id := stack.TransportEndpointID{
		LocalPort: to.Port(), LocalAddress: stackAddress(to.Addr()),
		RemotePort: uint16(c.LocalAddr().(*net.TCPAddr).Port), RemoteAddress: stackAddress(from),
	}
	w.until("the handshake has ended", func() bool {
		w.relay.mu.Lock()
		defer w.relay.mu.Unlock()
		return w.relay.attempts[id] == nil
	})
	return c, nil
}

// pair is a connection through the relay, and its end at the target.
func (w *world) pair(l *net.TCPListener) (here *gonet.TCPConn, there *net.TCPConn) {
	w.Helper()
	var err error
	accepted := make(chan struct{})
	go func() { defer close(accepted); there, _ = l.AcceptTCP() }()
	if here, err = w.connect(callerAddr, netip.AddrPortFrom(mappedAddr, w.portOf(l))); err != nil {
		w.Fatal(err)
	}
	<-accepted
	if there == nil {
		w.Fatal("nothing was accepted")
	}
	w.Cleanup(func() { here.Close(); there.Close() })
	return here, there
}

// portOf is the port of the target at which a listener stands.
func (w *world) portOf(l net.Listener) uint16 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, at := range w.targets {
		if at == l.Addr().String() {
			var network, address string
			_, _ = fmt.Sscan(name, &network, &address)
			return netip.MustParseAddrPort(address).Port()
		}
	}
	w.Fatal("that is no target")
	return 0
}

// untilNothingIsLeft waits until the relay holds no connection and the gateway's stack
// no endpoint.
func (w *world) untilNothingIsLeft() {
	w.Helper()
	w.until("everything is gone", w.isEmpty)
	w.nothingCounts()
}

// untilTimeLeavesNothing is untilNothingIsLeft for connections in TIME-WAIT, whose timers may only be about to start.
func (w *world) untilTimeLeavesNothing() {
	w.Helper()
	began := w.clock.Now()
	w.until("everything is gone", func() bool { w.advance(10 * time.Second); return w.isEmpty() })
	if took := w.clock.Now().Sub(began); took > time.Hour {
		w.Errorf("everything was gone only after %v", took)
	}
	w.nothingCounts()
}

func (w *world) isEmpty() bool {
	return w.tcp().Open == 0 && w.udp().Open == 0 && w.relay.timeWait.now.Load() == 0 && w.relay.largeBuffers.now.Load() == 0 &&
		len(w.host.RegisteredEndpoints()) == 0 && len(w.host.CleanupEndpoints()) == 0
}

// nothingCounts checks that no attempt and no quota is left.
func (w *world) nothingCounts() {
	w.Helper()
	w.relay.mu.Lock()
	defer w.relay.mu.Unlock()
	if len(w.relay.attempts) > 0 {
		w.Errorf("still attempted: %v", w.relay.attempts)
	}
	for _, p := range []*part{&w.relay.ofMappings, &w.relay.ofProxy, &w.relay.ofForwards} {
		for _, u := range []*usage{p.connections, p.sessions} {
			if u.taken() > 0 || len(u.callers) > 0 || len(u.served) > 0 {
				w.Errorf("something is still counted: %+v", u)
			}
		}
	}
}

// sendSYN puts a SYN from any address on the gateway's link.
func (w *world) sendSYN(from, to netip.AddrPort) {
	w.Helper()
	w.sendSegment(from, to, header.TCPFlagSyn)
}

// sendSegment puts a TCP segment without payload on the gateway's link.
func (w *world) sendSegment(from, to netip.AddrPort, flags header.TCPFlags) {
	w.Helper()
	segment := make(header.TCP, header.TCPMinimumSize)
	segment.Encode(&header.TCPFields{SrcPort: from.Port(), DstPort: to.Port(), SeqNum: 7, DataOffset: header.TCPMinimumSize, Flags: flags, WindowSize: 1000})
	sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, stackAddress(from.Addr()), stackAddress(to.Addr()), header.TCPMinimumSize)
	segment.SetChecksum(^segment.CalculateChecksum(sum))
	w.send(from.Addr(), to.Addr(), header.TCPProtocolNumber, segment)
}

// send puts an IPv4 packet from any address on the gateway's link.
func (w *world) send(from, to netip.Addr, protocol tcpip.TransportProtocolNumber, payload []byte) {
	w.Helper()
	w.sent.Add(1)
	if err := w.caller.WriteRawPacket(nic, header.IPv4ProtocolNumber, buffer.MakeWithData(ipv4To(from, to, uint8(protocol), payload))); err != nil {
		w.Fatal(err)
	}
}
