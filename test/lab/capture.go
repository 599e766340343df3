package lab

import (
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/wait"
)

// Capture collects the frames that arrive on a device and match a filter.
type Capture struct {
	mu      sync.Mutex
	kept    [][]byte // guarded by mu
	drained int      // how often no frame was waiting; guarded by mu
}

// ListenOn captures on dev of n until the test ends. Frames sent by n are not captured.
// keep runs on the capture's goroutine and must not retain the frame.
func ListenOn(t *testing.T, n *Namespace, dev string, keep func(frame []byte) bool) *Capture {
	t.Helper()
	var fd int
	err := n.In(func() (err error) {
		link, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // network byte order
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all&0xffff); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all & 0xffff, Ifindex: link.Index})
	})
	if err != nil {
		t.Fatalf("capture on %s of %s: %v", dev, n.Role, err)
	}
	// A read returns at least that often, to check for the end of the test.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}); err != nil {
		t.Fatal(err)
	}
	c, stop, stopped := &Capture{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		c.collect(fd, keep, stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		unix.Close(fd)
	})
	return c
}

func (c *Capture) collect(fd int, keep func([]byte) bool, stop <-chan struct{}) {
	buffer := make([]byte, 1<<16+64) // a super-packet and its Ethernet header
	for {
		select {
		case <-stop:
			return
		default:
		}
		n, from, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT)
		if err == unix.EAGAIN {
			c.mu.Lock()
			c.drained++
			c.mu.Unlock()
			n, from, err = unix.Recvfrom(fd, buffer, 0)
		}
		if err != nil { // timeout or signal
			continue
		}
		if link, ok := from.(*unix.SockaddrLinklayer); ok && link.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if keep(buffer[:n]) {
			c.mu.Lock()
			c.kept = append(c.kept, append([]byte(nil), buffer[:n]...))
			c.mu.Unlock()
		}
	}
}

// Frames returns the frames kept so far.
func (c *Capture) Frames() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept[:len(c.kept):len(c.kept)]
}

// Count returns the number of frames kept so far; 0 for a nil capture.
func (c *Capture) Count() int {
	if c == nil {
		return 0
	}
	return len(c.Frames())
}

// First waits for the first kept frame.
func (c *Capture) First(t *testing.T, what string) []byte {
	t.Helper()
	wait.Until(t, what+" is captured", func() bool { return len(c.Frames()) > 0 })
	return c.Frames()[0]
}

// Drain waits until every frame that has arrived so far has been checked.
func (c *Capture) Drain(t *testing.T) {
	t.Helper()
	count := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.drained
	}
	before := count()
	wait.Until(t, "the capture has read all frames that have arrived", func() bool { return count() > before })
}

// Never fails the test if a frame has been kept. The traffic that may cause one must have
// ended.
func (c *Capture) Never(t *testing.T, what string) {
	t.Helper()
	c.Drain(t)
	if got := c.Frames(); len(got) > 0 {
		t.Errorf("%s: captured %d frames, the first: %x", what, len(got), got[0])
	}
}
