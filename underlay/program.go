//go:build linux

package underlay

import (
	"slices"

	"golang.org/x/sys/unix"

	"strait.dev/strait/geneve"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
)

// Classic BPF. Loads are relative to the UDP payload, or with netOffset to the IP header.
const (
	bpfLoad      = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfLoad16    = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
	bpfLoad8     = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	bpfLength    = unix.BPF_LD | unix.BPF_W | unix.BPF_LEN
	bpfSave      = unix.BPF_MISC | unix.BPF_TAX
	bpfXor       = unix.BPF_ALU | unix.BPF_XOR | unix.BPF_X
	bpfMultiply  = unix.BPF_ALU | unix.BPF_MUL | unix.BPF_K
	bpfShift     = unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K
	bpfEqual     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfGreater   = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	bpfAtLeast   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bpfReturn    = unix.BPF_RET | unix.BPF_K
	netOffset    = 0xfff00000 // SKF_NET_OFF
	sourceOffset = 12         // of the source in an IPv4 header
	source6      = 8          // and in an IPv6 header
)

// loadSource6 returns code that loads the four words of an IPv6 source, combined with XOR.
func loadSource6() []unix.SockFilter {
	code := []unix.SockFilter{{Code: bpfLoad, K: netOffset + source6}}
	for at := uint32(4); at < 16; at += 4 {
		code = append(code, unix.SockFilter{Code: bpfSave}, unix.SockFilter{Code: bpfLoad, K: netOffset + source6 + at}, unix.SockFilter{Code: bpfXor})
	}
	return code
}

// queue returns the instruction that selects a queue.
func queue(class int) unix.SockFilter { return unix.SockFilter{Code: bpfReturn, K: uint32(class)} }

// choose returns code that selects one of the queues from first to last by the number in A, 0 for the first.
func choose(first, last int) (code []unix.SockFilter) {
	for class := first; class < last; class++ {
		code = append(code, unix.SockFilter{Code: bpfEqual, K: uint32(class - first), Jf: 1}, queue(class))
	}
	return append(code, queue(last))
}

// Program selects the class of each datagram, from 0 to classes-1.
type Program struct {
	classes int
	urgent  int // how many of them, the last ones, are read before the others
	filter  func(six bool) []unix.SockFilter
	// skipIfPaced returns code that skips so many instructions if Socket.Pace is for the datagram. Nil: for none.
	skipIfPaced func(instructions uint8) []unix.SockFilter
}

// ordinary returns how many classes are not urgent: the first ones.
func (p Program) ordinary() int { return p.classes - p.urgent }

// sourceClasses is how many queues the senders share, and how many their probes do.
const sourceClasses = 8

// BySource gives senders separate queues: a sender fills its own, and those of the few that have the
// same hash. The probes of nodes (package nodeprobe) have other queues, by the same hash: a node that sends more than is
// received does not take the gateway for dead.
var BySource = Program{2 * sourceClasses, sourceClasses, selectBySource, skipIfProbe}

func selectBySource(six bool) []unix.SockFilter {
	hash := []unix.SockFilter{{Code: bpfLoad, K: netOffset + sourceOffset}}
	if six {
		hash = loadSource6()
	}
	hash = append(hash, unix.SockFilter{Code: bpfMultiply, K: hashFactor}, unix.SockFilter{Code: bpfShift, K: 32 - 3})
	data := slices.Concat(hash, choose(0, sourceClasses-1))
	return slices.Concat(skipIfProbe(uint8(len(data))), data, hash, choose(sourceClasses, 2*sourceClasses-1))
}

// skipIfProbe returns code that skips so many instructions after it if a datagram is a probe of a node. The headers of Geneve
// without options and of VXLAN have the same length.
func skipIfProbe(instructions uint8) []unix.SockFilter {
	const (
		etherType = geneve.HeaderLen + 12
		ip        = geneve.HeaderLen + packet.EthernetHeaderLen
		protocol  = ip + 9
		port      = ip + packet.IPv4HeaderLen + 2
		next6     = ip + 6
		port6     = ip + packet.IPv6HeaderLen + 2
		least     = ip + packet.IPv4HeaderLen + packet.UDPHeaderLen + nodeprobe.Len
		least6    = ip + packet.IPv6HeaderLen + packet.UDPHeaderLen + nodeprobe.Len
	)
	return []unix.SockFilter{
		{Code: bpfLength},
		{Code: bpfAtLeast, K: least, Jf: 13}, // a load beyond the end would select the first socket
		{Code: bpfLoad16, K: etherType},
		{Code: bpfEqual, K: packet.EtherTypeIPv4, Jf: 4},
		{Code: bpfLoad8, K: protocol},
		{Code: bpfEqual, K: packet.ProtoUDP, Jf: 9},
		{Code: bpfLoad16, K: port},
		{Code: bpfEqual, K: nodeprobe.Port, Jt: 7 + instructions, Jf: 7},
		{Code: bpfEqual, K: packet.EtherTypeIPv6, Jf: 6},
		{Code: bpfLength},
		{Code: bpfAtLeast, K: least6, Jf: 4},
		{Code: bpfLoad8, K: next6},
		{Code: bpfEqual, K: packet.ProtoUDP, Jf: 2},
		{Code: bpfLoad16, K: port6},
		{Code: bpfEqual, K: nodeprobe.Port, Jt: instructions},
	}
}

// ControlSize is the length in bytes of the transport messages that have priority like handshakes.
// Those of forwarded packets can have it too.
const ControlSize = 144

// byMessage separates WireGuard's handshake messages and transport messages of ControlSize (class 2)
// from short transport messages (1) and all others (0).
var byMessage = Program{3, 0, func(bool) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: bpfLoad8, K: 0},
		{Code: bpfEqual, K: messageTransport, Jf: 4},
		{Code: bpfLength},
		{Code: bpfEqual, K: ControlSize, Jt: 2},
		{Code: bpfGreater, K: initiationSize, Jt: 2},
		queue(1),
		queue(2),
		queue(0),
	}
}, nil}
