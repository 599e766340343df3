//go:build lab || nightly

package kernelnat

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/internal/netns"
	"strait.dev/strait/test/lab"
	"strait.dev/strait/test/wait"
)

// kernelRouter is a gateway of the kernel's own parts, with a wire in WireGuard's place:
//
//	node ── eth0 ─ strait0 ► router ► wg0 ── far
//	       192.0.2.10  10.80.0.1   10.70.0.1
//
// The test itself sends packets on the links at both ends and receives them. A batch is
// processed by one CPU, in order: when its last packet has crossed, so have the others.
type kernelRouter struct {
	encapsulation string
	router        *lab.Namespace
	toRouter      int           // UDP socket of the node
	ecn           byte          // of the outer header
	outsider      int           // UDP socket of another host of the underlay
	overlay, far  *packetSocket // the node's end of the underlay, the far end of wg0
	batch         uint32
}

const (
	nodeWireMAC = "02:00:00:00:00:21"
	farMAC      = "02:00:00:00:00:99"
	wg0MAC      = "02:00:00:00:00:01"
)

// newKernelRouter creates the links and configures the router's nftables rules and routes,
// lines for ip. Without an encapsulation it uses what the kernel supports, Geneve first.
func newKernelRouter(t *testing.T, encapsulation, rules, routes string) *kernelRouter {
	t.Helper()
	quiet := map[string]string{
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
		"ipv6/conf/default/router_solicitations": "0", "ipv6/conf/default/accept_dad": "0",
	}
	node, far := lab.NewNamespace(t, "node", quiet), lab.NewNamespace(t, "far", quiet)
	quiet["ipv4/ip_forward"], quiet["ipv6/conf/all/forwarding"] = "1", "1"
	// Every error that the kernel sends is compared: there must be no others.
	quiet["ipv4/icmp_ratelimit"], quiet["ipv6/icmp/ratelimit"] = "0", "0"
	k := &kernelRouter{encapsulation: encapsulation, router: lab.NewNamespace(t, "router", quiet)}
	raiseICMPLimit(t, k.router)
	switch has := k.router.Encapsulation(); {
	case encapsulation == "":
		k.encapsulation = has
	case encapsulation == "geneve" && has != encapsulation:
		t.Skip("left out: this kernel has no Geneve; run: make lab-guest")
	}

	lab.Connect(t, node, "gw0", k.router, "eth0")
	lab.Connect(t, far, "wan", k.router, "wg0")
	node.IP(t, fmt.Sprintf("link set gw0 address %s\naddr add %s/24 dev gw0\naddr add %s/24 dev gw0", nodeWireMAC, natNode, natOutsider))
	k.router.IP(t, fmt.Sprintf("addr add %s/24 dev eth0\nneigh replace %s lladdr %s nud permanent dev eth0", natRouter, natNode, nodeWireMAC))
	lab.LikeAWire(t, node, "gw0")
	lab.LikeAWire(t, k.router, "eth0")
	lab.TunnelDevice(t, k.router, k.encapsulation, natRouter, natNode, netns.TunnelMAC(lab.GatewayInternal[0]))
	k.router.Run(t, "ethtool", "-K", "strait0", "gro", "off", "tx", "off") // no coalescing or segmentation
	far.IP(t, fmt.Sprintf("link set wan address %s mtu 1600", farMAC))
	k.router.IP(t, fmt.Sprintf(`
link set wg0 address %[1]s mtu 1600
addr add 10.70.0.1/32 dev wg0
addr add fd00:70::1/128 dev wg0 nodad
addr add 10.80.0.1/16 dev strait0
addr add fd00:80::1/48 dev strait0 nodad
neigh replace 10.80.0.11 lladdr %[2]s nud permanent dev strait0
neigh replace fd00:80::11 lladdr %[2]s nud permanent dev strait0
neigh replace 203.0.113.9 lladdr %[3]s nud permanent dev wg0
neigh replace fe80::9 lladdr %[3]s nud permanent dev wg0
route add 10.0.1.0/24 via 10.80.0.11 dev strait0 src 10.80.0.1
route add fd00:10:0:1::/64 via fd00:80::11 dev strait0 src fd00:80::1
`, wg0MAC, netns.TunnelMAC(lab.NodeInternal[0]), farMAC))
	k.router.IP(t, routes)
	file := filepath.Join(lab.WorkDir, k.router.Name+".nft")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	k.router.Run(t, "nft", "-f", file)

	k.overlay, k.far = openPacketSocket(t, node, "gw0"), openPacketSocket(t, far, "wan")
	// On the overlay's port, so that the node sends no errors; packets are read on the
	// link.
	k.toRouter, k.outsider = k.udpSocket(t, node, natNode), k.udpSocket(t, node, natOutsider)
	return k
}

func (k *kernelRouter) udpSocket(t *testing.T, n *lab.Namespace, from netip.Addr) (fd int) {
	t.Helper()
	port := int(netns.TunnelPorts[k.encapsulation])
	err := n.In(func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: from.As4(), Port: port}); err != nil {
			return err
		}
		return unix.Connect(fd, &unix.SockaddrInet4{Addr: natRouter.As4(), Port: port})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// onOneCPU keeps the caller on its thread and its thread on a CPU until release is called.
// Between namespaces the sending CPU processes a packet, in order.
func onOneCPU(t *testing.T) (release func()) {
	t.Helper()
	runtime.LockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	}
}

// raiseICMPLimit raises the total limit of ICMP errors: of the namespace, in kernels before
// 6.13 of the machine. Tests that need it therefore do not run in parallel with others.
func raiseICMPLimit(t *testing.T, n *lab.Namespace) {
	t.Helper()
	for _, name := range []string{"icmp_msgs_per_sec", "icmp_msgs_burst"} {
		file := "/proc/sys/net/ipv4/" + name
		raise := func() error { return os.WriteFile(file, []byte("100000"), 0) }
		if n.In(raise) == nil {
			continue
		}
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := raise(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.WriteFile(file, before, 0) })
	}
}

// pass sends the router a batch of packets and returns the outcome of each. Their keys must
// be keyOf(k.batch, index).
func (k *kernelRouter) pass(t *testing.T, fromNode bool, batch []sample) []outcome {
	t.Helper()
	defer onOneCPU(t)()
	// The batch is followed by a packet that always crosses.
	m := maker{fromNode: fromNode, key: k.keyOf(len(batch))}
	src, dst := lab.Addr("10.0.9.9"), lab.Addr("10.0.1.5")
	if fromNode {
		src, dst = lab.Addr("10.0.1.5"), lab.Addr("10.71.9.9")
	}
	last := header4{id: uint16(m.key), ttl: 64, proto: 253, src: src, dst: dst, payload: []byte("last")}
	for _, s := range append(batch[:len(batch):len(batch)], sample{ip: last.packet()}) {
		if fromNode {
			k.fromNode(t, s)
		} else {
			k.far.send(t, append(ethernet(wg0MAC, farMAC, s.ip), s.ip...))
		}
	}
	outcomes := make([]outcome, len(batch)+1)
	wait.Until(t, fmt.Sprintf("the packet behind batch %d has come through the kernel's gateway", k.batch), func() bool {
		k.collect(outcomes)
		return !outcomes[len(batch)].dropped()
	})
	k.collect(outcomes)
	k.batch++
	return outcomes[:len(batch)]
}

// keyOf is unique to a packet among those of the last 128 batches, and never 0, which
// packets of the kernel itself have.
func (k *kernelRouter) keyOf(index int) uint32 { return 0x8000 | k.batch&0x7f<<8 | uint32(index) }

// collect sorts the packets that arrived on both sides.
func (k *kernelRouter) collect(outcomes []outcome) {
	file := func(ip, header []byte, ecn byte) {
		key, answer, ok := readKey(ip)
		index := int(key) - int(k.keyOf(0))
		if !ok || index < 0 || index >= len(outcomes) {
			return // a packet of the kernel itself
		}
		o := &outcomes[index]
		if answer {
			o.answer = ip
			return
		}
		o.out, o.ecn = append(o.out, ip), ecn
		if header != nil {
			o.headers = append(o.headers, header)
		}
	}
	for _, frame := range k.far.drain() {
		file(frame[14:], nil, 0)
	}
	for _, frame := range k.overlay.drain() {
		outer, ok := lab.IPOf(frame)
		if !ok || outer.Proto != lab.ProtoUDP || outer.Src != natRouter || len(outer.Payload) < 8+8+14 {
			continue
		}
		file(outer.Payload[8+8+14:], outer.Payload[8:8+8+14], frame[14+1]&3)
	}
}

// readKey finds the key of a packet, or of the packet that an ICMP error quotes.
func readKey(ip []byte) (key uint32, answer, ok bool) {
	p, ok := lab.ParseIP(ip)
	if !ok {
		return 0, false, false
	}
	own := p.Src == lab.GatewayInternal[0] || p.Src == lab.GatewayInternal[1] || p.Src == lab.GatewayExternal[0] || p.Src == lab.GatewayExternal[1]
	if own && (p.Proto == lab.ProtoICMP || p.Proto == lab.ProtoICMPv6) && len(p.Payload) >= 8+20 {
		key, _, ok = readKey(p.Payload[8:])
		return key, true, ok
	}
	if ip[0]>>4 == 4 {
		return uint32(binary.BigEndian.Uint16(ip[4:])), false, true
	}
	return binary.BigEndian.Uint32(ip) & 0xfffff, false, true
}

func (k *kernelRouter) fromNode(t *testing.T, s sample) {
	t.Helper()
	socket := k.toRouter
	if s.outsider {
		socket = k.outsider
	} else if s.ecn != k.ecn {
		if err := unix.SetsockoptInt(k.toRouter, unix.IPPROTO_IP, unix.IP_TOS, int(s.ecn)); err != nil {
			t.Fatal(err)
		}
		k.ecn = s.ecn
	}
	if _, err := unix.Write(socket, datagramOf(k.encapsulation, s)); err != nil {
		t.Fatal(err)
	}
}

// datagramOf encapsulates a sample like a node's kernel, unless it has its own
// encapsulation.
func datagramOf(encapsulation string, s sample) []byte {
	if s.frame != nil {
		return s.frame
	}
	header := lab.OverlayFrame(encapsulation, lab.VNI, nil)[:8]
	return append(append(header, ethernet(netns.TunnelMAC(lab.GatewayInternal[0]), netns.TunnelMAC(lab.NodeInternal[0]), s.ip)...), s.ip...)
}

// ethernet returns the header before an IP packet.
func ethernet(dst, src string, ip []byte) []byte {
	b := append(mac(dst), mac(src)...)
	if len(ip) > 0 && ip[0]>>4 == 6 {
		return append(b, 0x86, 0xdd)
	}
	return append(b, 8, 0)
}

func mac(s string) []byte {
	m, err := net.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

// packetSocket is the test's end of a link.
type packetSocket struct{ fd int }

func openPacketSocket(t *testing.T, n *lab.Namespace, dev string) *packetSocket {
	t.Helper()
	s := &packetSocket{}
	err := n.In(func() (err error) {
		link, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // network byte order
		if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all&0xffff); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
			return err
		}
		return unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all & 0xffff, Ifindex: link.Index})
	})
	if err != nil {
		t.Fatalf("packet socket on %s of %s: %v", dev, n.Role, err)
	}
	t.Cleanup(func() { unix.Close(s.fd) })
	return s
}

func (s *packetSocket) send(t *testing.T, frame []byte) {
	t.Helper()
	if _, err := unix.Write(s.fd, frame); err != nil {
		t.Fatalf("send %d bytes: %v", len(frame), err)
	}
}

// drain returns the frames that have arrived.
func (s *packetSocket) drain() (frames [][]byte) {
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(s.fd, buffer, 0)
		if err != nil {
			return frames
		}
		if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Pkttype == unix.PACKET_OUTGOING || n < 14 {
			continue
		}
		frames = append(frames, append([]byte(nil), buffer[:n]...))
	}
}
