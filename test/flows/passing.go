package flows

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/netns"
)

// Passing returns which flows pass each of some namespaces during a time, by the ID of the
// flow. The messages of a flow pass unencrypted, inside of any encapsulation.
func (s *Set) Passing(t testing.TB, through map[string]*netns.Namespace, during time.Duration) map[string][]bool {
	t.Helper()
	passing := map[string][]bool{}
	var all sync.WaitGroup
	defer all.Wait()
	for name, n := range through {
		socket, err := capture(n)
		if err != nil {
			t.Fatalf("capture packets: %v", err)
		}
		seen := make([]bool, len(s.Flows))
		passing[name] = seen
		all.Go(func() {
			defer unix.Close(socket)
			packet := make([]byte, 1<<16)
			for end := time.Now().Add(during); time.Now().Before(end); {
				n, _, err := unix.Recvfrom(socket, packet, 0)
				if err != nil {
					continue // no packet within the socket's time limit
				}
				eachMessage(packet[:n], func(id int) {
					if id < len(seen) {
						seen[id] = true
					}
				})
			}
		})
	}
	return passing
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
