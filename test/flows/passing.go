package flows

import (
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/wait"
)

// Passing returns which flows pass each of some namespaces, by the ID of the flow, while so many messages
// of each are sent and delivered. The messages pass unencrypted, inside of any encapsulation.
func (s *Set) Passing(t testing.TB, through map[string]*netns.Namespace, messages uint64) map[string][]bool {
	t.Helper()
	passing := map[string][]bool{}
	sockets := map[string]int{}
	for name, n := range through {
		socket, err := capture(n)
		if err != nil {
			t.Fatalf("capture packets: %v", err)
		}
		passing[name], sockets[name] = make([]bool, len(s.Flows)), socket
	}
	var all sync.WaitGroup
	defer all.Wait()
	ended := make(chan struct{})
	defer close(ended)
	mark := s.Mark()
	for name, socket := range sockets {
		all.Go(func() {
			defer unix.Close(socket)
			read(socket, ended, func(id int) {
				if seen := passing[name]; id < len(seen) {
					seen[id] = true
				}
			})
		})
	}
	wait.Until(t, "messages of all flows are delivered", func() bool { return len(s.Silent(mark, messages)) == 0 })
	return passing
}

// queued is more packets than fit into the queue of a capturing socket.
const queued = 1 << 14

// read passes on the flows of the packets that a socket captures until ended is closed, and of those that it
// has captured by then.
func read(socket int, ended <-chan struct{}, found func(id int)) {
	packet := make([]byte, 1<<16)
	flags := 0 // waits for a packet, within the socket's time limit
	for left := queued; left > 0; {
		select {
		case <-ended:
			flags = unix.MSG_DONTWAIT
			left--
		default:
		}
		n, _, err := unix.Recvfrom(socket, packet, flags)
		switch {
		case err == nil:
			eachMessage(packet[:n], found)
		case flags == unix.MSG_DONTWAIT && errors.Is(err, unix.EAGAIN):
			return
		}
	}
}

// capture opens a socket that receives every packet that a namespace sends or receives.
func capture(n *netns.Namespace) (socket int, err error) {
	err = n.In(func() error {
		all := int(uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8) // in network byte order
		socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
		if err != nil {
			return err
		}
		_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) // a smaller one misses some packets of a flow, not all
		wait := unix.NsecToTimeval((20 * time.Millisecond).Nanoseconds())
		return unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)
	})
	return socket, err
}
