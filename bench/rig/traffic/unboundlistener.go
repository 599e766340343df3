//go:build linux

package traffic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/bench/measure"
	datagrams "strait.dev/strait/bench/traffic"
	"strait.dev/strait/packet"
)

// unboundListener counts responses to unassigned addresses. The pod's routes drop them, but
// a packet socket receives them first.
type unboundListener struct {
	fd        int
	from      netip.AddrPort
	begin     []byte // of the payload
	responses atomic.Int64
	closing   atomic.Bool
	done      chan struct{}
}

// listenUnbound counts UDP payloads from an address that start with begin, until close.
func listenUnbound(from netip.AddrPort, begin []byte) (*unboundListener, error) {
	ipv4 := binary.NativeEndian.Uint16([]byte{unix.ETH_P_IP >> 8, unix.ETH_P_IP & 0xff})
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(ipv4))
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w; run as root", os.NewSyscallError("socket", err))
	}
	const queue = 8 << 20 // bytes
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queue)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 10_000}); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("setsockopt", err)
	}
	n := &unboundListener{fd: fd, from: from, begin: begin, done: make(chan struct{})}
	go n.receive()
	return n, nil
}

func (n *unboundListener) receive() {
	defer close(n.done)
	defer unix.Close(n.fd)
	for b := make([]byte, 1<<16); !n.closing.Load(); {
		if size, err := unix.Read(n.fd, b); err == nil && n.isResponse(b[:size]) {
			n.responses.Add(1)
		}
	}
}

func (n *unboundListener) isResponse(b []byte) bool {
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone || ip.Proto != packet.ProtoUDP || ip.Src != n.from.Addr() || ip.Fragment != packet.Unfragmented {
		return false
	}
	udp := ip.Upper(b)
	return len(udp) >= packet.UDPHeaderLen && binary.BigEndian.Uint16(udp) == n.from.Port() &&
		bytes.HasPrefix(udp[packet.UDPHeaderLen:], n.begin)
}

// close stops counting when that many responses have arrived, or none has for a while.
func (n *unboundListener) close(all int) int {
	const quiet = 100 * time.Millisecond
	datagrams.Settle(measure.NewClock(), func() int { return int(n.responses.Load()) }, all, quiet)
	n.closing.Store(true)
	<-n.done
	return int(n.responses.Load())
}
