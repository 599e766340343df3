package tun

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
	"strait.dev/strait/underlay"
)

// The device under test and the node it exchanges frames with, on loopback:
//
//	node 127.1.n.2 ══ Geneve, VNI 101 ══ gateway 127.1.n.1 ── Device ── (WireGuard is the test)
type fixture struct {
	device  *Device
	node    *net.UDPConn
	gateway netip.AddrPort // of the overlay
}

// readOffset is what wireguard-go asks to be left free in front of a packet.
const readOffset = 16

const testMTU = 1420

var (
	pod       = netip.MustParseAddr("10.0.1.5")
	remotePod = netip.MustParseAddr("10.71.2.9") // as this cluster sees it
)

func newFixture(t testing.TB) *fixture {
	t.Helper()
	gatewayAddress, nodeAddress := loopback()
	node, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(nodeAddress, 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	if err := node.SetReadBuffer(4 << 20); err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(gatewayAddress, node.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	overlay, err := OpenOverlay(OverlayConfig{Geneve: at})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { overlay.Close() })
	c := testConfig()
	c.Overlay.Nodes[0].Underlay = nodeAddress
	table, err := gateway.NewTable(c, gateway.MTUs{Overlay: 1450, Tunnel: testMTU}, overlay.Handle)
	if err != nil {
		t.Fatal(err)
	}
	g := gateway.New(table, rand.NewPCG(1, 2))
	host, err := newHost(g, overlay, func(src, dst netip.Addr, flow uint32) *Device { return nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.close)
	routes := new(atomic.Pointer[routing])
	device, err := newDevice(g, overlay, host, routes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.Close() })
	routes.Store(allOver(device))
	if err := device.readOverlay(true); err != nil {
		t.Fatal(err)
	}
	device.peerKnown.Store(true)
	return &fixture{device, node, at}
}

// allOver returns a routing in which one device sends all packets.
func allOver(d *Device) *routing {
	r := new(routing)
	for bucket := range r.flows {
		r.flows[bucket] = d
	}
	return r
}

func testConfig() *config.Gateway {
	return &config.Gateway{
		Cluster: "a",
		Overlay: config.Overlay{
			Addresses:         []netip.Addr{netip.MustParseAddr("10.80.0.1")},
			ExternalAddresses: []netip.Addr{netip.MustParseAddr("10.70.0.1")},
			Nodes: []config.Node{{
				Name: "node-1", Underlay: netip.MustParseAddr("127.0.0.2"), VNI: 101,
				Addresses:         []netip.Addr{netip.MustParseAddr("10.80.0.11")},
				ExternalAddresses: []netip.Addr{netip.MustParseAddr("10.70.0.11")},
				Prefixes:          []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")},
			}},
		},
		Local: config.Local{
			Prefixes:         []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")},
			ExternalPrefixes: []netip.Prefix{netip.MustParsePrefix("10.70.0.0/16")},
		},
		Remote: config.Remote{Cluster: "b", Prefixes: []config.RemotePrefix{
			{CIDR: netip.MustParsePrefix("10.0.0.0/16"), SeenAs: netip.MustParsePrefix("10.71.0.0/16")},
		}},
	}
}

// fromNode sends an IP packet to the gateway as the node would.
func (f *fixture) fromNode(t testing.TB, ip []byte) {
	t.Helper()
	f.send(t, f.frame(ip))
}

// frame encapsulates an IP packet as the node does.
func (f *fixture) frame(ip []byte) []byte {
	b := make([]byte, gateway.EncapLen, gateway.EncapLen+len(ip))
	geneve.Put(b, 101)
	gatewayMAC, nodeMAC := packet.MACOf(netip.MustParseAddr("10.80.0.1")), packet.MACOf(netip.MustParseAddr("10.80.0.11"))
	etherType := uint16(packet.EtherTypeIPv4)
	if ip[0]>>4 == 6 {
		etherType = packet.EtherTypeIPv6
	}
	packet.PutEthernet(b[geneve.HeaderLen:], gatewayMAC, nodeMAC, etherType)
	return append(b, ip...)
}

func (f *fixture) send(t testing.TB, frame []byte) {
	t.Helper()
	if _, err := f.node.WriteToUDPAddrPort(frame, f.gateway); err != nil {
		t.Fatal(err)
	}
}

// toNode receives one frame at the node and returns the IP packet in it.
func (f *fixture) toNode(t testing.TB) []byte {
	t.Helper()
	b := make([]byte, 1<<16)
	n, err := f.node.Read(b)
	if err != nil {
		t.Fatalf("nothing arrived at the node: %v", err)
	}
	vni, protocol, frame, fault := geneve.Decode(b[:n])
	if fault != geneve.FaultNone || vni != 101 || protocol != geneve.ProtocolEthernet {
		t.Fatalf("not a frame for the node: fault %v, VNI %d, protocol %#x", fault, vni, protocol)
	}
	return frame[packet.EthernetHeaderLen:]
}

// buffers are what wireguard-go hands to Read.
func buffers(n int) ([][]byte, []int) {
	bufs := make([][]byte, n)
	for i := range bufs {
		bufs[i] = make([]byte, 1<<16)
	}
	return bufs, make([]int, n)
}

// tcpPacket makes an IPv4 TCP packet. partial leaves the checksum as a kernel
// leaves it to a network card.
func tcpPacket(src, dst netip.Addr, payload []byte, partial bool) []byte {
	b := ipv4Packet(src, dst, packet.ProtoTCP, append(make([]byte, packet.TCPHeaderLen), payload...))
	u := b[packet.IPv4HeaderLen:]
	binary.BigEndian.PutUint16(u, 40000)
	binary.BigEndian.PutUint16(u[2:], 443)
	u[12], u[13] = 5<<4, 0x18
	sum := packet.PseudoSum(src, dst, packet.ProtoTCP, len(u))
	if !partial {
		sum = ^packet.Sum(u, sum)
	}
	binary.BigEndian.PutUint16(u[16:], sum)
	return b
}

func ipv4Packet(src, dst netip.Addr, proto uint8, upper []byte) []byte {
	b := make([]byte, packet.IPv4HeaderLen, packet.IPv4HeaderLen+len(upper))
	b[0], b[8], b[9] = 0x45, 64, proto
	binary.BigEndian.PutUint16(b[2:], uint16(cap(b)))
	b[6] = 0x40 // DF
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(b[10:], ^packet.Sum(b, 0))
	return append(b, upper...)
}

func TestReadTurnsFramesIntoTranslatedPackets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bufs, sizes := buffers(8)
	for i := range 3 {
		f.fromNode(t, tcpPacket(pod, remotePod, fmt.Appendf(nil, "packet %d", i), false))
	}
	for got := 0; got < 3; {
		n, err := f.device.Read(bufs, sizes, readOffset)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			b := bufs[i][readOffset:][:sizes[i]]
			var ip packet.IP
			if fault := packet.Parse(b, &ip); fault != packet.FaultNone {
				t.Fatalf("packet %d: fault %d", got, fault)
			}
			if ip.Src != pod || ip.Dst != netip.MustParseAddr("10.0.2.9") || ip.TTL != 63 {
				t.Errorf("packet %d: %v to %v with TTL %d", got, ip.Src, ip.Dst, ip.TTL)
			}
			if want := fmt.Appendf(nil, "packet %d", got); !bytes.HasSuffix(b, want) {
				t.Errorf("packet %d does not carry %q", got, want)
			}
			got++
		}
	}
}

// A super-packet has more pieces than wireguard-go has buffers: the rest comes
// with the next Reads, complete and in order.
func TestReadSpreadsASuperPacketOverSeveralBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	payload := make([]byte, 60000)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	f.fromNode(t, tcpPacket(pod, remotePod, payload, true))
	f.fromNode(t, tcpPacket(pod, remotePod, []byte("behind it"), false))

	bufs, sizes := buffers(5)
	var stream []byte
	for !bytes.HasSuffix(stream, []byte("behind it")) {
		n, err := f.device.Read(bufs, sizes, readOffset)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			b := bufs[i][readOffset:][:sizes[i]]
			var ip packet.IP
			if fault := packet.Parse(b, &ip); fault != packet.FaultNone || len(b) > testMTU {
				t.Fatalf("piece of %d bytes with fault %d", len(b), fault)
			}
			u := ip.Upper(b)
			if packet.Sum(u, packet.PseudoSum(ip.Src, ip.Dst, ip.Proto, len(u))) != 0xffff {
				t.Fatalf("piece at %d: wrong checksum", len(stream))
			}
			stream = append(stream, u[packet.TCPHeaderLen:]...)
		}
	}
	if want := append(payload, "behind it"...); !bytes.Equal(stream, want) {
		t.Errorf("%d bytes of payload came out of %d, or others", len(stream), len(want))
	}
}

func TestInjectedPacketsReachTheTunnelAlsoWhenNoNodeSends(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bufs, sizes := buffers(4)
	read := make(chan string, 1)
	go func() {
		n, err := f.device.Read(bufs, sizes, readOffset)
		read <- fmt.Sprint(n, err, string(bufs[0][readOffset:][:sizes[0]]))
	}()
	f.device.inject(&f.device.Ingress.Counters, []byte("from the host"), ownPacket)
	if got, want := <-read, "1 <nil>from the host"; got != want {
		t.Errorf("Read gave %q, want %q", got, want)
	}
}

func TestPacketsAreDroppedByNameWhileThePeerIsUnknown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.device.peerKnown.Store(false)
	f.fromNode(t, tcpPacket(pod, remotePod, nil, false))
	go f.device.Read(readArguments())
	wait.Until(t, "it is counted under no_peer", func() bool { return f.device.Egress.Dropped(gateway.NoPeer) > 0 })
}

// readArguments are the arguments of a Read whose result does not matter.
func readArguments() ([][]byte, []int, int) {
	bufs, sizes := buffers(2)
	return bufs, sizes, readOffset
}

func TestCloseEndsReadAsWireGuardExpects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ended := make(chan error, 1)
	go func() {
		_, err := f.device.Read(readArguments())
		ended <- err
	}()
	f.device.Close()
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Read ended with %v, want os.ErrClosed", err)
	}
}

func TestOverlayAddressInUseIsAnErrorNotAPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if o, err := OpenOverlay(OverlayConfig{Geneve: f.gateway}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("opened %v with %v, want EADDRINUSE", o, err)
	}
}

// tunnelBufs puts packets where wireguard-go's decryption leaves them.
func tunnelBufs(packets ...[]byte) [][]byte {
	bufs := make([][]byte, len(packets))
	for i, p := range packets {
		bufs[i] = append(make([]byte, readOffset, readOffset+len(p)), p...)
	}
	return bufs
}

func TestWriteSendsTranslatedFramesToTheNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	remote := netip.MustParseAddr("10.0.2.9") // as the other cluster knows it
	in := tunnelBufs(tcpPacket(remote, pod, []byte("one"), false), tcpPacket(remote, pod, []byte("two"), false))
	if n, err := f.device.Write(in, readOffset); n != 2 || err != nil {
		t.Fatalf("Write took %d, %v", n, err)
	}
	for _, want := range []string{"one", "two"} {
		var ip packet.IP
		b := f.toNode(t)
		if fault := packet.Parse(b, &ip); fault != packet.FaultNone {
			t.Fatalf("fault %d", fault)
		}
		if ip.Src != remotePod || ip.Dst != pod || !bytes.HasSuffix(b, []byte(want)) {
			t.Errorf("%v to %v, want %v to %v with %q", ip.Src, ip.Dst, remotePod, pod, want)
		}
	}
}

func TestWriteFragmentsWhatTheNodeLegCannotCarry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	payload := bytes.Repeat([]byte("0123456789abcdef"), 500)
	b := ipv4Packet(netip.MustParseAddr("10.0.2.9"), pod, 253, payload)
	b[6] = 0 // may be fragmented
	binary.BigEndian.PutUint16(b[10:], 0)
	binary.BigEndian.PutUint16(b[10:], ^packet.Sum(b[:packet.IPv4HeaderLen], 0))
	if _, err := f.device.Write(tunnelBufs(b), readOffset); err != nil {
		t.Fatal(err)
	}
	var whole []byte
	for more := true; more; {
		part := f.toNode(t)
		if len(part) > 1450 {
			t.Fatalf("fragment of %d bytes on a leg that carries 1450", len(part))
		}
		more = part[6]&0x20 != 0
		whole = append(whole, part[packet.IPv4HeaderLen:]...)
	}
	if !bytes.Equal(whole, payload) {
		t.Error("the fragments do not make up the packet")
	}
}

// UDP to a mapped address that the kernel of a node on this machine left unsegmented.
func TestTheHostGetsTheDatagramsOfASuperDatagram(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node, mapped := f.node.LocalAddr().(*net.UDPAddr).AddrPort(), netip.MustParseAddrPort("10.70.1.9:53")
	c := testConfig()
	c.Overlay.Nodes[0].Underlay = node.Addr()
	c.Mappings = []config.Mapping{{External: mapped.Addr(), Target: netip.MustParseAddr("192.0.2.77")}}
	table, err := gateway.NewTable(c, gateway.MTUs{Overlay: 1450, Tunnel: testMTU}, f.device.overlay.Handle)
	if err != nil {
		t.Fatal(err)
	}
	f.device.gateway.SetTable(table)
	received := f.device.host.stack.Stats().IP.PacketsReceived
	before := received.Value()
	frame := f.frame(packet.AppendUDP(nil, netip.AddrPortFrom(pod, 4000), mapped, make([]byte, 2500)))
	f.device.read.frame(&f.device.overlay.incoming, frame, 1000, node)
	if n := received.Value() - before; n != 3 {
		t.Errorf("the host gets %d packets, want 3", n)
	}
}

func TestReadAndWriteDoNotAllocate(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates; run without -race")
	}
	f := newFixture(t)
	fresh := tunnelBufs(tcpPacket(netip.MustParseAddr("10.0.2.9"), pod, make([]byte, 1000), false))
	in := tunnelBufs(make([]byte, len(fresh[0])-readOffset))
	if n := testing.AllocsPerRun(100, func() {
		copy(in[0], fresh[0]) // Write edits in place
		f.device.Write(in, readOffset)
	}); n != 0 {
		t.Errorf("Write allocates %v times a batch", n)
	}
	bufs, sizes := buffers(4)
	frame := f.frame(tcpPacket(pod, remotePod, make([]byte, 1000), false))
	if n := testing.AllocsPerRun(100, func() {
		f.send(t, frame)
		f.device.Read(bufs, sizes, readOffset)
	}); n != 0 {
		t.Errorf("Read allocates %v times a batch", n)
	}
}

// A gateway that this one replaces may have closed its socket of one family, and that of the other not yet.
func TestTheOverlayListensOnBothFamiliesOrFails(t *testing.T) {
	t.Parallel()
	port := ports.Free(t, 1)[0]
	for _, held := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		other, err := underlay.Listen(netip.AddrPortFrom(held, port), underlay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		o, err := OpenOverlay(OverlayConfig{Geneve: netip.AddrPortFrom(netip.Addr{}, port)})
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("while %v is in use: %v", held, err)
		}
		if err == nil {
			o.Close()
		}
		other.Close()
	}
}

// WireGuard keeps what it cannot send, each packet in a buffer of 64 KiB.
func TestT8_AFloodWithoutASessionFillsNoMemory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ip := tcpPacket(pod, remotePod, []byte("waits"), false)
	own := tcpPacket(netip.MustParseAddr("10.70.0.1"), remotePod, []byte("probe"), false)
	bufs, sizes := buffers(BatchSize)
	const burst = BatchSize - 1
	read := func() (fromNode int) {
		t.Helper()
		for range burst {
			f.fromNode(t, ip)
		}
		f.device.inject(&f.device.Egress.Counters, own, ownPacket)
		n, err := f.device.Read(bufs, sizes, readOffset)
		if err != nil || sizes[0] != len(own) {
			t.Fatalf("the gateway's own packet is not the first of %d: %v", n, err)
		}
		return n - 1
	}
	passed, sent := 0, 0
	for ; sent < 2*maxUnsent; sent += burst {
		passed += read()
	}
	if dropped := int(f.device.Egress.Dropped(gateway.TunnelQueue)); passed != maxUnsent || dropped != sent-passed {
		t.Errorf("%d of %d packets passed and %d dropped; want %d passed", passed, sent, dropped, maxUnsent)
	}
	f.device.read.sent++ // WireGuard sends again
	if n := read(); n != burst {
		t.Errorf("%d of %d packets pass when WireGuard sends again", n, burst)
	}
}

// newStalled returns a fixture whose device does not read the overlay, and whose WireGuard sends nothing.
func newStalled(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	if err := f.device.readOverlay(false); err != nil {
		t.Fatal(err)
	}
	f.device.read.unsent = maxUnsent
	return f
}

// A link whose WireGuard sends nothing for a while keeps what was handed over, and sends it when WireGuard sends again,
// although nothing else wakes it.
func TestPacketsHandedOverAreSentWhenWireGuardSendsAgain(t *testing.T) {
	t.Parallel()
	f, looks := newStalled(t), 0
	r := &f.device.read
	r.try = func() bool {
		if looks++; looks == 5 { // one for Wait, one for each wake, and further ones by the clock
			r.unsent = 0
		}
		return r.fill()
	}
	if reason := f.device.Forward([]byte("handed over")); reason != gateway.NoReason {
		t.Fatal(reason)
	}
	bufs, sizes := buffers(2)
	if n, err := f.device.Read(bufs, sizes, readOffset); n != 1 || err != nil || !bytes.HasSuffix(bufs[0][:readOffset+sizes[0]], []byte("handed over")) {
		t.Errorf("read %d, %v", n, err)
	}
}

// They do not wait for ever, and do not keep the goroutine of the link busy meanwhile: the remote gateway may be gone for hours.
func TestPacketsHandedOverAreDroppedWhenWireGuardSendsNothing(t *testing.T) {
	t.Parallel()
	f, looks := newStalled(t), 0
	r := &f.device.read
	const packets = 100
	for range packets {
		if reason := f.device.Forward([]byte("handed over")); reason != gateway.NoReason {
			t.Fatal(reason)
		}
		r.fill()
	}
	r.waiting = r.waiting.Add(10*unsentLook - unsentWait)
	r.try = func() bool {
		looks++
		return r.fill() || len(f.device.injected.packets[handedOver]) == 0 || looks == 1000
	}
	bufs, sizes := buffers(2)
	if n, err := f.device.Read(bufs, sizes, readOffset); n != 0 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if dropped := f.device.Egress.Dropped(gateway.TunnelQueue); dropped != packets || looks > 20 {
		t.Errorf("%d of %d packets are dropped after %d looks", dropped, packets, looks)
	}
}
