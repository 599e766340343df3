//go:build linux

package node

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace. Sockets stay in the one in which they were opened, but
// a file opened later belongs to that of the opening thread.
type namespace struct {
	fd       int // none: -1
	identity [2]uint64
}

// here returns the namespace of the calling thread, which must not change meanwhile.
func here() (namespace, error) {
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return namespace{fd: -1}, fmt.Errorf("open the network namespace: %w", err)
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return namespace{fd: -1}, errors.Join(fmt.Errorf("open the network namespace: %w", err), unix.Close(fd))
	}
	return namespace{fd, [2]uint64{s.Dev, s.Ino}}, nil
}

func (n namespace) close() {
	if n.fd >= 0 {
		_ = unix.Close(n.fd) // it is open
	}
}

// do runs f on a thread in the namespace. Usually all threads are in it and no switch is
// needed; a switch needs CAP_SYS_ADMIN.
func (n namespace) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		moved, err := n.enter()
		if err == nil {
			err = f()
		}
		if !moved {
			runtime.UnlockOSThread() // otherwise the thread ends with the goroutine
		}
		done <- err
	}()
	return <-done
}

// enter moves the calling thread to the namespace if it is in another one.
func (n namespace) enter() (moved bool, err error) {
	now, err := here()
	if err != nil {
		return false, err
	}
	now.close()
	if now.identity == n.identity {
		return false, nil
	}
	if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
		return false, fmt.Errorf("enter the network namespace: %w", err)
	}
	return true, nil
}
