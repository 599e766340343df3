//go:build lab

package userspace

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/geneve"
	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/wait"
)

const port = 6091

// world is a node with a TAP device, and a gateway that is a UDP socket:
//
//	tap0 ═ endpoint, 192.0.2.21 ────── 192.0.2.10 gateway
//	       2001:db8::21                2001:db8::10, 192.0.2.12
type world struct {
	node, gateway *netns.Namespace
	endpoint      *Endpoint
	index         int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{node: netns.New(t), gateway: netns.New(t), endpoint: New(port, Grace)}
	w.node.IP(t, fmt.Sprintf(`
link add eth0 type veth peer name eth0 %s
addr add 192.0.2.21/24 dev eth0
addr add 2001:db8::21/64 dev eth0 nodad
link set eth0 up
`, w.gateway.Here()))
	w.gateway.IP(t, `
addr add 192.0.2.10/24 dev eth0
addr add 192.0.2.12/24 dev eth0
addr add 2001:db8::10/64 dev eth0 nodad
link set eth0 up
`)
	w.makeDevice(t)
	t.Cleanup(w.endpoint.Close)
	return w
}

// makeDevice creates tap0 with the neighbour 10.80.0.1 and records its index.
func (w *world) makeDevice(t *testing.T) {
	t.Helper()
	must(t, w.node.In(func() error { return Make("tap0") }))
	w.node.IP(t, `
addr add 10.80.0.11/24 dev tap0
link set tap0 addrgenmode none
link set tap0 address 0a:58:0a:50:00:0b mtu 1400
neigh add 10.80.0.1 lladdr 0a:58:0a:50:00:01 dev tap0 nud permanent
`)
	must(t, w.node.In(func() error {
		link, err := net.InterfaceByName("tap0")
		if err == nil {
			w.index = link.Index
		}
		return err
	}))
}

// serve connects tap0 and sets it up. The kernel sends nothing for a moment after a device
// that is up is served again.
func (w *world) serve(t *testing.T, vni uint32, gateway string) {
	t.Helper()
	way := Way{vni, netip.MustParseAddr(gateway)}
	must(t, w.node.In(func() error { return w.endpoint.Serve("tap0", w.index, way) }))
	if got, ok := w.endpoint.Serves("tap0", w.index); !ok || got != way {
		t.Fatalf("served %v, %v; want %v", got, ok, way)
	}
	w.node.IP(t, "link set tap0 up")
}

// listen opens the gateway's socket on one of its addresses.
func (w *world) listen(t *testing.T, address string) *net.UDPConn {
	t.Helper()
	return udpIn(t, w.gateway, netip.AddrPortFrom(netip.MustParseAddr(address), port))
}

func udpIn(t *testing.T, n *netns.Namespace, at netip.AddrPort) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	must(t, n.In(func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	}))
	t.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	return conn
}

// bad is the source port of frames that must not arrive; good counts the source ports of
// the others, one per call of arrives.
const bad = 8

var good atomic.Uint32

// send sends a frame from the gateway to a socket on the node.
func send(t *testing.T, gateway *net.UDPConn, vni uint32, node netip.AddrPort, from uint16, at *net.UDPConn) {
	t.Helper()
	to := at.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	_, err := gateway.WriteToUDPAddrPort(datagram(vni, udpFrame(from, to)), node)
	must(t, err)
}

// arrives sends frames from the gateway until one reaches a socket on the node: datagrams
// may get lost.
func arrives(t *testing.T, gateway *net.UDPConn, vni uint32, node netip.AddrPort, at *net.UDPConn) {
	t.Helper()
	number := uint16(1000 + good.Add(1)%1000)
	received := make(chan error, 1)
	go func() {
		b := make([]byte, 100)
		for {
			n, from, err := at.ReadFromUDPAddrPort(b)
			if err == nil && (from.Port() == bad || string(b[:n]) != "hello") {
				err = fmt.Errorf("the node received %q from port %d", b[:n], from.Port())
			}
			if err != nil || from.Port() == number {
				received <- err
				return
			}
		}
	}()
	wait.Until(t, "a frame of the gateway reaches the node", func() bool {
		select {
		case err := <-received:
			if err != nil {
				t.Error(err)
			}
			return true
		default:
			send(t, gateway, vni, node, number, at)
			return false
		}
	})
}

// dropped sends bad frames from the gateway until one is counted as dropped.
func dropped(t *testing.T, w *world, gateway *net.UDPConn, vni uint32, at *net.UDPConn, why Reason) {
	t.Helper()
	before := w.endpoint.Dropped()[why.String()]
	wait.Until(t, "a frame is dropped as "+why.String(), func() bool {
		send(t, gateway, vni, nodeUnderlay, bad, at)
		return w.endpoint.Dropped()[why.String()] > before
	})
}

var nodeUnderlay = netip.MustParseAddrPort("192.0.2.21:6091")

func TestFramesGoToTheGatewayAndBack(t *testing.T) {
	for gateway, node := range map[string]string{"192.0.2.10": "192.0.2.21", "2001:db8::10": "2001:db8::21"} {
		t.Run(gateway, func(t *testing.T) {
			w := newWorld(t)
			at := w.listen(t, gateway)
			w.serve(t, 0x123456, gateway)
			from := udpIn(t, w.node, netip.MustParseAddrPort("10.80.0.11:1000"))
			_, err := from.WriteToUDPAddrPort([]byte("hello"), netip.MustParseAddrPort("10.80.0.1:2000"))
			must(t, err)

			b := make([]byte, 2000)
			n, source, err := at.ReadFromUDPAddrPort(b)
			must(t, err)
			if a := source.Addr().Unmap(); a != netip.MustParseAddr(node) {
				t.Errorf("the frame came from %v, want %v", a, node)
			}
			header, frame := b[:geneve.HeaderLen], b[geneve.HeaderLen:n]
			if want := []byte{0, 0, 0x65, 0x58, 0x12, 0x34, 0x56, 0}; !bytes.Equal(header, want) {
				t.Errorf("header %x, want %x", header, want)
			}
			dst, src, etherType, payload, _ := packet.ParseEthernet(frame)
			if dst != (packet.MAC{0x0a, 0x58, 10, 80, 0, 1}) || src != (packet.MAC{0x0a, 0x58, 10, 80, 0, 11}) || etherType != packet.EtherTypeIPv4 {
				t.Errorf("frame %x", frame)
			}
			if text := checkUDP(t, payload); string(text) != "hello" {
				t.Errorf("the gateway received %q", text)
			}
			arrives(t, at, 0x123456, netip.AddrPortFrom(netip.MustParseAddr(node), port), from)
		})
	}
}

// Flows are spread over ports, and each keeps its port and so its order.
func TestEachFlowKeepsItsSourcePort(t *testing.T) {
	w := newWorld(t)
	at := w.listen(t, "192.0.2.10")
	w.serve(t, 257, "192.0.2.10")
	ports := map[uint16]bool{}
	for flow := range uint16(32) {
		from := udpIn(t, w.node, netip.AddrPortFrom(netip.MustParseAddr("10.80.0.11"), 1000+flow))
		before := uint16(0)
		for range 3 {
			_, err := from.WriteToUDPAddrPort([]byte("hello"), netip.MustParseAddrPort("10.80.0.1:2000"))
			must(t, err)
			_, source, err := at.ReadFromUDPAddrPort(make([]byte, 2000))
			must(t, err)
			if before != 0 && source.Port() != before {
				t.Errorf("flow %d came from ports %d and %d", flow, before, source.Port())
			}
			before = source.Port()
		}
		ports[before] = true
	}
	if len(ports) != sourcePorts {
		t.Errorf("32 flows came from %d ports, want %d", len(ports), sourcePorts)
	}
}

func TestUnknownSourcesAreDroppedAndCounted(t *testing.T) {
	w := newWorld(t)
	gateway, other := w.listen(t, "192.0.2.10"), w.listen(t, "192.0.2.12")
	w.serve(t, 257, "192.0.2.10")
	at := udpIn(t, w.node, netip.MustParseAddrPort("10.80.0.11:0"))
	dropped(t, w, other, 257, at, UnknownSource)
	dropped(t, w, gateway, 258, at, WrongVNI)
	arrives(t, gateway, 257, nodeUnderlay, at)
	w.node.IP(t, "link set tap0 down")
	dropped(t, w, gateway, 257, at, DeviceWrite)
	if all := w.endpoint.Dropped(); len(all) != 3 {
		t.Errorf("dropped %v", all)
	}
}

// Frames in transit when a gateway moved arrive, later ones from its old address do not.
// The device stays the same.
func TestAGatewayMovesInPlace(t *testing.T) {
	w := newWorld(t)
	old, moved := w.listen(t, "192.0.2.10"), w.listen(t, "192.0.2.12")
	at := udpIn(t, w.node, netip.MustParseAddrPort("10.80.0.11:0"))
	w.serve(t, 257, "192.0.2.10")
	w.serve(t, 257, "192.0.2.12")
	arrives(t, moved, 257, nodeUnderlay, at)
	arrives(t, old, 257, nodeUnderlay, at) // in transit
	_, err := at.WriteToUDPAddrPort([]byte("hello"), netip.MustParseAddrPort("10.80.0.1:2000"))
	must(t, err)
	_, _, err = moved.ReadFromUDPAddrPort(make([]byte, 2000))
	must(t, err)
	dropped(t, w, old, 257, at, UnknownSource) // after the grace period
}

func TestADeletedDeviceIsNotServed(t *testing.T) {
	w := newWorld(t)
	gateway := w.listen(t, "192.0.2.10")
	w.serve(t, 257, "192.0.2.10")
	w.node.IP(t, "link del tap0")
	wait.Until(t, "a deleted device is not served", func() bool {
		_, ok := w.endpoint.Serves("tap0", w.index)
		return !ok
	})
	w.makeDevice(t)
	if _, ok := w.endpoint.Serves("tap0", w.index); ok {
		t.Error("another device of that name is reported as served")
	}
	w.serve(t, 257, "192.0.2.10")
	at := udpIn(t, w.node, netip.MustParseAddrPort("10.80.0.11:0"))
	arrives(t, gateway, 257, nodeUnderlay, at)
}

func TestThePortIsFreeWhenNothingIsServed(t *testing.T) {
	w := newWorld(t)
	w.serve(t, 257, "192.0.2.10")
	w.endpoint.Retain(map[string]int{"tap0": w.index})
	busy := w.node.In(func() error {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
		if err == nil {
			_ = conn.Close() // the test has failed
		}
		return err
	})
	if busy == nil {
		t.Error("the port is free while a device is served")
	}
	w.endpoint.Release("tap0")
	must(t, udpIn(t, w.node, netip.AddrPortFrom(netip.IPv4Unspecified(), port)).Close())
}

func TestAPortThatIsTakenChangesNothing(t *testing.T) {
	w := newWorld(t)
	other := udpIn(t, w.node, nodeUnderlay)
	err := w.node.In(func() error { return w.endpoint.Serve("tap0", w.index, Way{257, gatewayA}) })
	if err == nil || !strings.Contains(err.Error(), "another socket holds the port") {
		t.Errorf("Serve() = %v", err)
	}
	must(t, other.Close())
	w.serve(t, 257, "192.0.2.10")
}

func TestADeviceIsServedOnce(t *testing.T) {
	w := newWorld(t)
	w.serve(t, 257, "192.0.2.10")
	other := New(port+1, Grace)
	t.Cleanup(other.Close)
	err := w.node.In(func() error { return other.Serve("tap0", w.index, Way{257, gatewayA}) })
	if err == nil || !strings.Contains(err.Error(), "served by another process; stop the other node helper") {
		t.Errorf("Serve() = %v", err)
	}
}

func TestUnsentFramesAreCounted(t *testing.T) {
	w := newWorld(t)
	w.serve(t, 257, "198.51.100.1") // without a route
	from := udpIn(t, w.node, netip.MustParseAddrPort("10.80.0.11:0"))
	wait.Until(t, "unsent frames are counted", func() bool {
		_, err := from.WriteToUDPAddrPort([]byte("hello"), netip.MustParseAddrPort("10.80.0.1:2000"))
		must(t, err)
		return w.endpoint.Dropped()[UnderlaySend.String()] > 0
	})
	if failing := w.endpoint.Failing(time.Now()); len(failing) > 0 {
		t.Errorf("reported at once: %v", failing)
	}
	later := time.Now().Add(persistent)
	w.endpoint.devices["tap0"].failures.note(later) // the failure lasts
	if failing := w.endpoint.Failing(later); len(failing) != 1 || failing[0].VNI != 257 {
		t.Errorf("reported later: %v", failing)
	}
}

func TestProbeLeavesNothing(t *testing.T) {
	w := newWorld(t)
	must(t, w.node.In(func() error { return Probe("probe") }))
	if links := w.node.Run(t, "ip", "-br", "link"); strings.Contains(links, "probe") {
		t.Errorf("a link was left:\n%s", links)
	}
}

// UDP whose segmentation the sender left to the device is segmented by the kernel, like
// TCP.
func TestFramesAreNotLargerThanTheMTU(t *testing.T) {
	w := newWorld(t)
	at := w.listen(t, "192.0.2.10")
	w.serve(t, 257, "192.0.2.10")
	from := udpIn(t, w.node, netip.MustParseAddrPort("10.80.0.11:1000"))
	raw, err := from.SyscallConn()
	must(t, err)
	const segment, segments = 1372, 20
	must(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment)
	}))
	must(t, err)
	_, err = from.WriteToUDPAddrPort(make([]byte, segment*segments), netip.MustParseAddrPort("10.80.0.1:2000"))
	must(t, err)
	b := make([]byte, 1<<16)
	for range segments {
		n, _, err := at.ReadFromUDPAddrPort(b)
		must(t, err)
		if n != geneve.HeaderLen+packet.EthernetHeaderLen+1400 {
			t.Errorf("a datagram of %d bytes", n)
		}
		checkUDP(t, b[geneve.HeaderLen+packet.EthernetHeaderLen:n])
	}
}

func TestCarryingFramesAllocatesNothing(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates; run without -race")
	}
	w := newWorld(t)
	at := w.listen(t, "192.0.2.10")
	var by *udpSockets
	var d *device
	must(t, w.node.In(func() (err error) {
		by, err = openSockets(netip.IPv4Unspecified(), port, &w.endpoint.table, &w.endpoint.drops)
		if err == nil {
			d, err = openDevice("tap0", w.index, newOutlet(Way{257, gatewayA}, by, port), &w.endpoint.drops)
		}
		return err
	}))
	t.Cleanup(by.close)
	t.Cleanup(func() { _ = d.file.Close() }) // no goroutine reads it
	w.node.IP(t, "link set tap0 up")
	from := udpIn(t, w.node, netip.MustParseAddrPort("10.80.0.11:1000"))
	to, text, fill, frame := netip.MustParseAddrPort("10.80.0.1:2000"), []byte("hello"), d.fill, udpFrame(7, 9)
	if n := testing.AllocsPerRun(100, func() {
		_, err := from.WriteToUDPAddrPort(text, to)
		must(t, err)
		must(t, d.raw.Read(fill))
		d.send()
	}); n != 0 {
		t.Errorf("to a gateway: %v allocations", n)
	}
	if _, _, err := at.ReadFromUDPAddrPort(make([]byte, 100)); err != nil {
		t.Errorf("nothing arrived at the gateway: %v", err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if !by.deliver(d, frame) {
			t.Fatal("a frame was not delivered")
		}
	}); n != 0 {
		t.Errorf("from a gateway: %v allocations", n)
	}
}

// checkUDP checks an IP packet with UDP, including checksums, and returns the UDP payload.
func checkUDP(t *testing.T, b []byte) []byte {
	t.Helper()
	var ip packet.IP
	if fault := packet.Parse(b, &ip); fault != packet.FaultNone {
		t.Fatalf("packet %x: fault %d", b, fault)
	}
	u := ip.Upper(b)
	if packet.Sum(u, packet.PseudoSum(ip.Src, ip.Dst, packet.ProtoUDP, len(u))) != 0xffff {
		t.Errorf("UDP %x has a wrong checksum", u)
	}
	return u[packet.UDPHeaderLen:]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
