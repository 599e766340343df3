//go:build linux

package underlay

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// descriptor is a file descriptor that stays open during every system call on it. A number closed
// while another goroutine is about to use it could refer to another file. So each system call is
// counted as a user, and the last user closes. Until then the port of a socket stays in use.
//
// Safe for concurrent use. It costs two atomic operations per system call, not per datagram.
type descriptor struct {
	number  int
	users   atomic.Int32 // running system calls, plus one for the owner until close
	closing atomic.Bool
	closed  chan struct{} // closed together with number
}

// own makes d the owner of an open file descriptor.
func (d *descriptor) own(number int) {
	d.number = number
	d.closed = make(chan struct{})
	d.users.Store(1)
}

// acquire allows d.number to be used until release. It reports false if d is closed.
func (d *descriptor) acquire() bool {
	for {
		users := d.users.Load()
		if users == 0 || d.closing.Load() {
			return false
		}
		if d.users.CompareAndSwap(users, users+1) {
			return true
		}
	}
}

func (d *descriptor) release() {
	if d.users.Add(-1) == 0 {
		unix.Close(d.number)
		close(d.closed)
	}
}

// close refuses new users, calls last while the number is still valid, and closes the number when
// the present users are done. It reports whether this call was the first.
func (d *descriptor) close(last func(fd int)) bool {
	if !d.closing.CompareAndSwap(false, true) {
		return false
	}
	last(d.number)
	d.release()
	return true
}
