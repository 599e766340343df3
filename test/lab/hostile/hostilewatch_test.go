//go:build lab || nightly

package hostile

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/lab"
)

// mark is contained in every packet of an attacker, and in no other. The next byte is the
// number of the attack, so that late packets are counted correctly.
var mark = []byte("\x9ehostile\xf1")

// marked returns the payload of attack n: the mark, the number, and padding up to size
// bytes.
func marked(n uint8, size int) []byte {
	b := append(append(make([]byte, 0, max(size, len(mark)+1)), mark...), n)
	return append(b, make([]byte, max(0, size-len(b)))...)
}

// markWatch counts marked packets in all frames that leave a gateway or arrive at pods.
type markWatch struct{ points []*watchPoint }

// watchPoint is one capture. The arrays are indexed by attack.
type watchPoint struct {
	name  string
	ip    int // offset of the pods' IP packets in its frames
	mu    sync.Mutex
	seen  [256]int    // packets; guarded by mu
	first [256][]byte // start of the first one; guarded by mu
}

// newWatch captures from now until the test ends.
func newWatch(t *testing.T, top *lab.Topology) *markWatch {
	t.Helper()
	w := &markWatch{}
	for _, s := range []*lab.Site{top.A, top.B} {
		const outer = 14 + 20 + 8 + 8 // Ethernet, IPv4, UDP, tunnel header
		w.look(t, toNode(s), s.Node, "gw0", outer+14, skipBulk(outer+14))
		w.look(t, "gateway "+s.Name+" in plain text", top.Other(s).GW, "wan", 14, skipWireGuard)
		w.look(t, "pod "+s.Name, s.Pod, "eth0", 14, skipBulk(14))
	}
	return w
}

// The watch points between gateway A and node A and in it.
const (
	toNodeA    = "gateway a to its node"
	nodeItself = "node a itself"
)

// payloadOnly is the offset of IP packets where none are captured: beyond every frame.
const payloadOnly = 1 << 20

func toNode(s *lab.Site) string { return "gateway " + s.Name + " to its node" }

// receive counts marked datagrams that a process of n receives on the port of attacks.
func (w *markWatch) receive(t *testing.T, name string, n *lab.Namespace) {
	t.Helper()
	var fd int
	if err := n.In(func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrInet6{Port: 9}) // of both families
	}); err != nil {
		t.Fatalf("watch what %s receives: %v", n.Role, err)
	}
	w.collect(t, fd, name, payloadOnly)
}

// look counts marked frames that arrive on a device of n and match the filter.
func (w *markWatch) look(t *testing.T, name string, n *lab.Namespace, dev string, ip int, filter []unix.SockFilter) {
	t.Helper()
	var fd int
	err := n.In(func() (err error) {
		fd, err = openFiltered(dev, filter)
		return err
	})
	if err != nil {
		t.Fatalf("watch %s of %s: %v", dev, n.Role, err)
	}
	w.collect(t, fd, name, ip)
}

// collect counts what a socket receives until the test ends, and closes it.
func (w *markWatch) collect(t *testing.T, fd int, name string, ip int) {
	p, stop, stopped := &watchPoint{name: name, ip: ip}, make(chan struct{}), make(chan struct{})
	w.points = append(w.points, p)
	go func() {
		defer close(stopped)
		p.collect(fd, stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		_ = unix.Close(fd)
	})
}

// openFiltered opens a packet socket on a device with a filter.
func openFiltered(dev string, filter []unix.SockFilter) (int, error) {
	link, err := net.InterfaceByName(dev)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // protocol 0: receives nothing yet
	if err != nil {
		return 0, err
	}
	const all = unix.ETH_P_ALL << 8 // network byte order
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	for _, err := range []error{
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20), // a flood must not cause losses here
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}),
	} {
		if err != nil {
			_ = unix.Close(fd)
			return 0, err
		}
	}
	return fd, nil
}

func (p *watchPoint) collect(fd int, stop <-chan struct{}) {
	buffer := make([]byte, 1<<16+64) // a super-packet and its Ethernet header
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		if err != nil { // timeout or signal
			continue
		}
		if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		p.look(buffer[:n])
	}
}

// look counts a frame for every attack whose mark it contains: the kernel may have
// coalesced several datagrams. An ICMP error that quotes a packet to its sender does not
// count as passing.
func (p *watchPoint) look(frame []byte) {
	rest := frame
	if refuses(frame, p.ip) {
		return
	}
	for {
		at := bytes.Index(rest, mark)
		if at < 0 || at+len(mark) >= len(rest) {
			return
		}
		number := rest[at+len(mark)]
		rest = rest[at+len(mark):]
		p.mu.Lock()
		if p.seen[number] == 0 {
			p.first[number] = bytes.Clone(frame[:min(len(frame), 160)])
		}
		p.seen[number]++
		p.mu.Unlock()
	}
}

// refuses reports whether a frame is an ICMP error from a gateway itself to the source of
// the quoted packet.
func refuses(frame []byte, ip int) bool {
	if len(frame) < ip {
		return false
	}
	e, ok := lab.ICMPErrorOf(frame[ip-14:])
	return ok && slices.Contains(gatewaysSelf, e.Src) && e.Dst == e.Quoted.Src
}

// gatewaysSelf are the addresses of both gateways, as nodes and pods see them.
var gatewaysSelf = append(lab.Addrs("10.73.0.1", "fd00:73::1", "10.74.0.1", "fd00:74::1"), lab.GatewayInternal...)

// count returns how many marked packets of an attack were seen at any point but except, and
// where, with the start of one.
func (w *markWatch) count(n uint8, except string) (total int, where string) {
	for _, p := range w.points {
		p.mu.Lock()
		if p.seen[n] > 0 && p.name != except {
			total += p.seen[n]
			where += fmt.Sprintf("%s: %d, the first %x; ", p.name, p.seen[n], p.first[n])
		}
		p.mu.Unlock()
	}
	return total, where
}

// Classic BPF. Every filter returns the number of bytes to copy: all, or none.
const (
	bpfLength  = unix.BPF_LD | unix.BPF_W | unix.BPF_LEN
	bpfLoad16  = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
	bpfLoad8   = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	bpfAnd     = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	bpfAtLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bpfEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfReturn  = unix.BPF_RET | unix.BPF_K
	everything = 1 << 18
)

// skipBulk excludes the packets of the transfer, which have bulkTOS, where IP starts at
// that offset.
func skipBulk(ip uint32) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: bpfLength},
		{Code: bpfAtLeast, K: ip + 2, Jf: 6},
		{Code: bpfLoad16, K: ip}, // IPv4: version, header length, TOS
		{Code: bpfAnd, K: 0xf0fc},
		{Code: bpfEqual, K: 0x4000 | bulkTOS, Jt: 4},
		{Code: bpfLoad16, K: ip}, // IPv6: version, traffic class, 4 bits of the flow label
		{Code: bpfAnd, K: 0xffc0},
		{Code: bpfEqual, K: 0x6000 | bulkTOS<<4, Jt: 1},
		{Code: bpfReturn, K: everything},
		{Code: bpfReturn, K: 0},
	}
}

// skipWireGuard excludes IPv4 UDP datagrams from the WireGuard port of a gateway: those are
// encrypted.
var skipWireGuard = []unix.SockFilter{
	{Code: bpfLength},
	{Code: bpfAtLeast, K: 14 + 20 + 8, Jf: 4},
	{Code: bpfLoad8, K: 14 + 9},
	{Code: bpfEqual, K: lab.ProtoUDP, Jf: 2},
	{Code: bpfLoad16, K: 14 + 20},
	{Code: bpfEqual, K: lab.WireGuardPort, Jt: 1},
	{Code: bpfReturn, K: everything},
	{Code: bpfReturn, K: 0},
}
